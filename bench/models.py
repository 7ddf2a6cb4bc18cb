#!/usr/bin/python3
"""Whole models, forward and training, against PyTorch: the current one, an older one, and its C++,
as far as they are there. Run it as

    bazel run //bench:models -- [--newer PYTHON] [--cpp PROGRAM] [--markdown] [ROW...]

--newer: a Python that has a newer PyTorch than Debian's; --cpp: `model_rows_libtorch`, built.
Programs take turns; figures are medians of the rounds, the ratio is to the fastest Python.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
import measure  # noqa: E402


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench/model_rows, built")
    parser.add_argument("--peer", required=True, help="bench/peers/models.py")
    parser.add_argument("--newer", metavar="PYTHON", default=os.environ.get("TANDEM_NEWER_PYTHON"))
    parser.add_argument("--cpp", metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="1,2", help="numbers of threads")
    parser.add_argument("--markdown", action="store_true", help="print tables for bench/results")
    parser.add_argument("rows", nargs="*", help="rows whose names begin so; none: all")
    return parser.parse_args()


def programs(given, other=None):
    """name -> the command of each program that is compared; other: (name, program), or None."""
    found = {"Tandem": [os.path.abspath(given.program)]}
    pythons = [measure.PEER_PYTHON] if measure.peer_is_there() else []
    pythons += [given.newer] if given.newer else []
    for python in pythons:
        version = measure.run([python, "-c", "import torch; print(torch.__version__)"])
        found["PyTorch " + version.strip().split("+")[0]] = [python, given.peer]
    if not pythons:
        sys.exit("no PyTorch: tools/install_dependencies.sh --peers installs it")
    if other:
        found[other[0]] = [os.path.abspath(other[1])]
    return found


def measure_rounds(given, found, threads):
    """row -> program -> [ns], a figure a round."""
    rows = {}
    for _ in range(given.rounds):
        for name, words in found.items():
            environment = None if name == "Tandem" else measure.peer_environment(threads)
            output = measure.run(words + ["--threads", str(threads)] + given.rows, environment)
            for line in output.splitlines():
                row, figure = line.split("\t")
                rows.setdefault(row, {}).setdefault(name, []).append(float(figure))
    return rows


def print_table(rows, names, threads, markdown):
    head = ["%d thread%s, us" % (threads, "s" if threads > 1 else "")] + names + ["ratio"]
    others = [name for name in names if name != "Tandem" and not name.startswith("PyTorch")]
    head += ["to " + name for name in others]
    lines = []
    for row, figures in rows.items():
        medians = {name: measure.median(figures[name]) for name in names if name in figures}
        pythons = [figure for name, figure in medians.items() if name.startswith("PyTorch")]
        line = [row] + ["%.1f" % (medians[name] / 1e3) if name in medians else ""
                        for name in names]
        ours = medians.get("Tandem")
        line.append("%.3f" % (ours / min(pythons)) if ours and pythons else "")
        for name in others:
            line.append("%.3f" % (ours / medians[name]) if ours and name in medians else "")
        lines.append(line)
    if markdown:
        print("| " + " | ".join(head) + " |")
        print("|---" + "|---:" * (len(head) - 1) + "|")
        for line in lines:
            print("| " + " | ".join(line) + " |")
        print(flush=True)
        return
    for line in [head] + lines:
        print("%-32s" % line[0] + "".join("%16s" % cell for cell in line[1:]), flush=True)


def main():
    given = read_arguments()
    found = programs(given, ("C++", given.cpp) if given.cpp else None)
    for threads in [int(word) for word in given.threads.split(",")]:
        print_table(measure_rounds(given, found, threads), list(found), threads, given.markdown)


if __name__ == "__main__":
    main()
