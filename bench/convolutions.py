#!/usr/bin/python3
"""Convolutions and their gradients: Tandem's kernels, oneDNN and PyTorch. Run it as

    bazel run //bench:convolutions -- [--newer PYTHON] [--threads 1,2] [--batches 1,8,32] [WORD...]

WORDs choose the shapes whose names begin so; none: all. Programs take turns, one shape after the
other; figures are the least of the rounds, in microseconds, and the last column is ours divided by
the fastest that starts from dense operands and ends with them.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
import measure  # noqa: E402

# name: groups, in, out, height, width, kernel, stride, padding
SHAPES = {
    "lenet1": (1, 1, 6, 28, 28, (5, 5), (1, 1), (2, 2)),
    "lenet2": (1, 6, 16, 14, 14, (5, 5), (1, 1), (0, 0)),
    "capsule1": (1, 1, 16, 28, 28, (9, 9), (1, 1), (0, 0)),
    "capsule2": (1, 16, 32, 20, 20, (9, 9), (2, 2), (0, 0)),
    "3x3-64-64-at-56": (1, 64, 64, 56, 56, (3, 3), (1, 1), (1, 1)),
    "3x3-128-128-at-28": (1, 128, 128, 28, 28, (3, 3), (1, 1), (1, 1)),
    "3x3-256-256-at-14": (1, 256, 256, 14, 14, (3, 3), (1, 1), (1, 1)),
    "1x1-64-256-at-56": (1, 64, 256, 56, 56, (1, 1), (1, 1), (0, 0)),
    "1x1-256-64-at-56": (1, 256, 64, 56, 56, (1, 1), (1, 1), (0, 0)),
    "3x3s2-128-128-at-56": (1, 128, 128, 56, 56, (3, 3), (2, 2), (1, 1)),
    "7x7s2-3-64-at-224": (1, 3, 64, 224, 224, (7, 7), (2, 2), (3, 3)),
    "depthwise-96-at-56": (96, 96, 96, 56, 56, (3, 3), (1, 1), (1, 1)),
    "conv1d-64-64-k5": (1, 64, 64, 1, 1024, (1, 5), (1, 1), (0, 2)),
}
PASSES = ("forward", "input", "weight")


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench/convolution_rows, built")
    parser.add_argument("--peer", required=True, help="bench/peers/convolutions.py")
    parser.add_argument("--newer", metavar="PYTHON", default=os.environ.get("TANDEM_NEWER_PYTHON"))
    parser.add_argument("--threads", default="1,2", help="numbers of threads")
    parser.add_argument("--batches", default="1,8,32", help="numbers of images")
    parser.add_argument("--passes", default=",".join(PASSES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--realtime", action="store_true", help="on a machine with busy neighbours")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("rows", nargs="*", help="shapes whose names begin so; none: all")
    return parser.parse_args()


def word_of(name, images):
    groups, channels, out, height, width, kernel, stride, padding = SHAPES[name]
    sizes = (images, groups, channels, out, height, width) + kernel + stride + padding
    return "%s,n%d=%s" % (name, images, ",".join(str(size) for size in sizes))


def measure_word(given, word, threads):
    """row -> subject -> ns, the least of the rounds."""
    peer = given.newer or (measure.PEER_PYTHON if measure.peer_is_there() else None)
    commands = [[os.path.abspath(given.program)]] + ([[peer, given.peer]] if peer else [])
    rows = {}
    for _ in range(given.rounds):
        for command in commands:
            words = ["--threads", str(threads), "--passes", given.passes, word]
            output = measure.run(command + words, measure.peer_environment(threads),
                                 given.realtime)
            for line in output.splitlines():
                row, subject, figure = line.split("\t")
                known = rows.setdefault(row, {})
                known[subject] = min(known.get(subject, float("inf")), float(figure))
    return rows


def print_row(row, figures, names, markdown):
    peers = [figures[name] for name in figures
             if name not in ("Tandem", "oneDNN blocked")]
    cells = ["%.0f" % (figures[name] / 1e3) if name in figures else "" for name in names]
    cells.append("%.2f" % (figures["Tandem"] / min(peers)) if peers else "")
    if markdown:
        print("| %s | %s |" % (row, " | ".join(cells)), flush=True)
    else:
        print("%-34s" % row + "".join("%17s" % cell for cell in cells), flush=True)


def main():
    given = read_arguments()
    chosen = [name for name in SHAPES
              if not given.rows or any(name.startswith(word) for word in given.rows)]
    for threads in [int(word) for word in given.threads.split(",")]:
        names = None
        for name in chosen:
            for images in [int(word) for word in given.batches.split(",")]:
                for row, figures in measure_word(given, word_of(name, images), threads).items():
                    if names is None:
                        names = list(figures)
                        head = ["%d thread%s, us" % (threads, "s" if threads > 1 else "")]
                        head += names + ["ratio"]
                        if given.markdown:
                            print("| " + " | ".join(head) + " |")
                            print("|---" + "|---:" * (len(head) - 1) + "|")
                        else:
                            print("%-34s" % head[0] + "".join("%17s" % one for one in head[1:]))
                    print_row(row, figures, names, given.markdown)


if __name__ == "__main__":
    main()
