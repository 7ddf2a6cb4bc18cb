#!/usr/bin/python3
"""Single recurrent layers, forward and training, against PyTorch and oneDNN's own primitives, as
far as they are there. Run it as

    bazel run //bench:recurrent -- [--newer PYTHON] [--dnnl PROGRAM] [--markdown] [ROW...]

--newer: a Python that has a newer PyTorch than Debian's; --dnnl: `recurrent_rows_dnnl`, built. A
row is CELL:IN:HIDDEN:BATCH:LENGTH, as lstm:256:512:64:128. Programs take turns; figures are medians
of the rounds, the ratio is to the fastest Python. A step of oneDNN's has no loss and no update, but
the gradient of x, and its weights are packed beforehand, where others pack them in every run.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
import measure  # noqa: E402
import models  # noqa: E402

# The large one; what examples/char_lm trains; inference with few rows; many rows.
ROWS = ["lstm:256:512:64:128", "lstm:32:192:64:64"]
ROWS += ["%s:%d:%d:%d:32" % (cell, hidden, hidden, batch)
         for cell in ("lstm", "gru", "rnn") for hidden in (512, 1024) for batch in (1, 4, 8, 12)]
ROWS += ["%s:512:512:256:32" % cell for cell in ("lstm", "gru")]
ROWS += ["%s:512:512:1:1" % cell for cell in ("lstm", "gru")]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench/recurrent_rows, built")
    parser.add_argument("--peer", required=True, help="bench/peers/recurrent.py")
    parser.add_argument("--newer", metavar="PYTHON", default=os.environ.get("TANDEM_NEWER_PYTHON"))
    parser.add_argument("--dnnl", metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="2", help="numbers of threads")
    parser.add_argument("--realtime", action="store_true", help="in a real-time class")
    parser.add_argument("--markdown", action="store_true", help="print tables for bench/results")
    parser.add_argument("rows", nargs="*", default=ROWS)
    return parser.parse_args()


def measure_row(given, found, threads, row):
    """name of a figure -> program -> [ns], a figure a round."""
    figures = {}
    for _ in range(given.rounds):
        for name, words in found.items():
            environment = None if name == "Tandem" else measure.peer_environment(threads)
            output = measure.run(words + ["--threads", str(threads), row], environment,
                                 given.realtime)
            for line in output.splitlines():
                kind, figure = line.split("\t")
                figures.setdefault(kind, {}).setdefault(name, []).append(float(figure))
    return figures


def main():
    given = read_arguments()
    found = models.programs(given, ("oneDNN", given.dnnl) if given.dnnl else None)
    for threads in [int(word) for word in given.threads.split(",")]:
        rows = {}
        for row in given.rows:
            rows.update(measure_row(given, found, threads, row))
        models.print_table(rows, list(found), threads, given.markdown)


if __name__ == "__main__":
    main()
