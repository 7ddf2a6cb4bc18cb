#!/usr/bin/python3
"""The main job against PyTorch: words per second in training, and held-out accuracy, on the same
words, split, model, optimizer and batches. Run it as `bazel run //bench:main_job`.
"""
import argparse
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
import measure  # noqa: E402


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="examples/distributed_model, built")
    parser.add_argument("--peer", required=True, help="bench/peers/main_job.py")
    parser.add_argument("--seeds", type=int, default=3, help="rounds, each with a seed of its own")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--words-per-language", type=int, default=20000)
    parser.add_argument("--threads", type=int, default=2, help="of the peer")
    parser.add_argument("--words", action="append", default=[], metavar="LANGUAGE=FILE",
                        help="a list of words; repeated (default: the program's own)")
    parser.add_argument("--place", default="", metavar="MAP",
                        help="where the mixed run puts layers (default: the program's own)")
    parser.add_argument("--peer-accelerator", default="", metavar="DEVICE",
                        help="also run the peer with all but its embedding there, as cuda:0")
    parser.add_argument("--realtime", action="store_true",
                        help="run all of them in a real-time class (root; busy machines)")
    return parser.parse_args()


def read_outcome(output):
    """(words per second, accuracy) from what either program prints."""
    return (float(re.search(r"^trained on .*: (\d+) words/s$", output, re.MULTILINE).group(1)),
            float(re.search(r"^accuracy ([\d.]+) on", output, re.MULTILINE).group(1)))


def run_round(given, program, peer, seed, folder):
    """name -> (words per second, accuracy), of one seed."""
    data = os.path.join(folder, "words.safetensors")
    common = ["--seed", str(seed)]
    ours = [program, "--words-per-language", str(given.words_per_language)] + common
    for words in given.words:
        ours += ["--words", words]
    measure.run(ours + ["--dump-data", data])
    epochs = ["--epochs", str(given.epochs)]
    place = ["--place", given.place] if given.place else []
    theirs = [measure.PEER_PYTHON, peer, data, "--threads", str(given.threads)] + common + epochs
    environment = measure.peer_environment(given.threads)
    runs = [
        ("Tandem, *=cpu:0", ours + epochs + ["--place", "*=cpu:0"], None),
        ("Tandem, cpu:0 and accelerator", ours + epochs + place, None),
        ("PyTorch", theirs, environment),
    ]
    if given.peer_accelerator:
        runs.append(("PyTorch, cpu and " + given.peer_accelerator,
                     theirs + ["--accelerator", given.peer_accelerator], environment))
    outcomes = {}
    for name, words, environment in runs:
        outcomes[name] = read_outcome(measure.run(words, environment, given.realtime))
        print("seed %d  %-30s %8.0f words/s  accuracy %.4f" % ((seed, name) + outcomes[name]),
              flush=True)
    return outcomes


def print_summary(rounds):
    peer_speed = measure.median([outcomes["PyTorch"][0] for outcomes in rounds])
    print("\n%-30s %10s %8s %14s" % ("", "words/s", "ratio", "mean accuracy"))
    for name in rounds[0]:
        speed = measure.median([outcomes[name][0] for outcomes in rounds])
        accuracy = sum(outcomes[name][1] for outcomes in rounds) / len(rounds)
        print("%-30s %10.0f %8.2f %14.4f" % (name, speed, speed / peer_speed, accuracy))


def main():
    given = read_arguments()
    if not measure.peer_is_there():
        sys.exit("no PyTorch: tools/install_dependencies.sh --peers installs it")
    program, peer = os.path.abspath(given.program), os.path.abspath(given.peer)
    with tempfile.TemporaryDirectory() as folder:
        rounds = [run_round(given, program, peer, seed, folder)
                  for seed in range(1, given.seeds + 1)]
    print_summary(rounds)


if __name__ == "__main__":
    main()
