#!/usr/bin/python3
"""Mixed work against PyTorch doing the same, on two cores: an embedding on one device, a copy, a
dense part on another. Ours has one core a stage; the peer has one core for everything, both cores
for everything, or one thread and core a stage (forward only). `bazel run //bench:mixed`.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
import measure  # noqa: E402

PEERS = {"one core": (1, []), "two cores": (2, []), "two threads": (1, ["--two-threads"])}


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="bench/mixed, built")
    parser.add_argument("--peer", required=True, help="bench/peers/mixed.py")
    parser.add_argument("--model", default="", help="one of them (default: all)")
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
    """Ratios are our time over the peer's; below 1 we are faster."""
    print("%-48s %9s" % ("milliseconds, and times the peer's", "Tandem")
          + "".join("%22s" % ("PyTorch, " + peer) for peer in PEERS))
    for name, figures in ours.items():
        figure = measure.median(figures)
        line = "%-48s %9.3f" % (name, figure / 1e6)
        same = ", ".join(name.split(", ")[:2])  # the peer has no micro-batches
        for peer in PEERS:
            samples = theirs[peer].get(same)
            line += "%22s" % ("%.3f (%.2f)" % (measure.median(samples) / 1e6,
                                               figure / measure.median(samples))
                              if samples else "")
        print(line)


def main():
    given = read_arguments()
    if not measure.peer_is_there():
        sys.exit("no PyTorch: tools/install_dependencies.sh --peers installs it")
    model = [given.model] if given.model else []
    ours, theirs = {}, {peer: {} for peer in PEERS}
    for _ in range(given.rounds):
        collect(ours, measure.run([os.path.abspath(given.program)] + model, None, given.realtime))
        for peer, (threads, more) in PEERS.items():
            collect(theirs[peer],
                    measure.run([measure.PEER_PYTHON, given.peer] + model
                                + ["--threads", str(threads)] + more,
                                measure.peer_environment(threads), given.realtime))
    print_summary(ours, theirs)


if __name__ == "__main__":
    main()
