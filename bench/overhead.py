#!/usr/bin/python3
"""Compares the overhead of a run with PyTorch in Python, one thread. Run it as
`bazel run //bench:overhead`.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
import measure  # noqa: E402

# The longest time each row may take, in ns; rows of planning are per node.
TARGETS = {"forward": 1e3, "training step": 5e3, "chain of 100": 25e3, "mixed forward, hot": 10e3,
           "planning": 1e3}


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="bench/overhead, built")
    parser.add_argument("--peer", required=True, help="bench/peers/overhead.py")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--realtime", action="store_true",
                        help="run all of them in a real-time class (root; busy machines)")
    return parser.parse_args()


def collect(rows, output):
    """Adds what a program printed to name -> [ns], a figure a round."""
    for line in output.splitlines():
        name, figure = line.split("\t")
        rows.setdefault(name, []).append(float(figure))


def print_summary(ours, theirs):
    print("%-42s %10s %10s %8s %9s" % ("microseconds", "Tandem", "PyTorch", "ratio", "target"))
    for name, figures in ours.items():
        figure = measure.median(figures)
        target = TARGETS.get(name, TARGETS.get(name.split(" ")[0]))
        peer = measure.median(theirs[name]) if name in theirs else None
        print("%-42s %10.3f %10s %8s %9s" % (
            name, figure / 1e3, "%.3f" % (peer / 1e3) if peer else "",
            "%.1f" % (peer / figure) if peer else "", "%g" % (target / 1e3) if target else ""))


def main():
    given = read_arguments()
    if not measure.peer_is_there():
        sys.exit("no PyTorch: tools/install_dependencies.sh --peers installs it")
    ours, theirs = {}, {}
    for _ in range(given.rounds):
        collect(ours, measure.run([os.path.abspath(given.program)], None, given.realtime))
        collect(theirs, measure.run([measure.PEER_PYTHON, given.peer],
                                    measure.peer_environment(1), given.realtime))
    print_summary(ours, theirs)


if __name__ == "__main__":
    main()
