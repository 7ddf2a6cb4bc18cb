#!/usr/bin/python3
"""Speed and peak memory of the examples, compared with PyTorch: rows or characters per second,
and resident memory at its highest, of the whole process, while both train on the same data with the
same batches. Run it as `bazel run //bench:examples`.
"""
import argparse
import collections
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import measure  # noqa: E402

# Example -> how ours calls the part that is trained on, how much it is, options of both, of ours.
ROWS = {
    "fashion_cnn": ("--images", 12800, ["--learning-rate", "0.002"], ["--test-images", "1000"]),
    "capsule": ("--images", 1280, ["--learning-rate", "0.002"], ["--test-images", "1000"]),
    "char_lm": ("--characters", 400000, ["--learning-rate", "0.005"], ["--sample", "0"]),
    "recommender": ("--samples", 102400, ["--learning-rate", "1", "--batch", "256"],
                    ["--held-out", "1000"]),
}
Outcome = collections.namedtuple("Outcome", "peak rate ended")


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", action="append", required=True, help="an example, built")
    parser.add_argument("--peer", required=True, help="bench/peers/examples.py")
    parser.add_argument("--models", required=True, help="tests/golden/example_models.py")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of the peer")
    parser.add_argument("--only", action="append", metavar="NAME", help="of these examples")
    return parser.parse_args()


def run(words, environment=None):
    """Runs a training program; returns its peak MiB, items per second, and last line."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit("%s\nended with %d" % (" ".join(words), process.returncode))
    rate = float(re.search(r"^trained on .*: (\d+) \w+/s$", output, re.MULTILINE).group(1))
    return Outcome(used.ru_maxrss / 1024, rate, output.rstrip().splitlines()[-1])


def runs_of(given, program):
    """Name of a run -> its command and environment. The peer's memory is that of its defaults, its
    speed that of a glibc that keeps memory: neither of the settings serves both."""
    name = os.path.basename(program)
    part, count, both, ours = ROWS[name]
    peer = [measure.PEER_PYTHON, given.peer, name, "--models", given.models, "--epochs", "1",
            "--threads", str(given.threads), "--items", str(count),
            "--test-items", "1000"] + both
    tandem = [program, "--epochs", "1", part, str(count)] + both + ours
    return {
        "PyTorch": (peer, dict(os.environ, OMP_NUM_THREADS=str(given.threads))),
        "PyTorch, keeping memory": (peer, measure.peer_environment(given.threads)),
        "Tandem, *=cpu:0": (tandem + ["--place", "*=cpu:0"], None),
        "Tandem, with accelerator": (tandem, None),
    }


def main():
    given = read_arguments()
    if not measure.peer_is_there():
        sys.exit("no PyTorch: tools/install_dependencies.sh --peers installs it")
    print("| example | | MiB | ratio | per second | ratio | it ends with |")
    print("|---|---|---:|---:|---:|---:|---|")
    for program in given.program:
        name = os.path.basename(program)
        if given.only and name not in given.only:
            continue
        outcomes = collections.defaultdict(list)
        for _ in range(given.rounds):
            for label, (words, environment) in runs_of(given, program).items():
                outcomes[label].append(run(words, environment))
        peaks = {label: max(o.peak for o in of) for label, of in outcomes.items()}
        rates = {label: measure.median([o.rate for o in of]) for label, of in outcomes.items()}
        peak = min(value for label, value in peaks.items() if "PyTorch" in label)
        rate = max(value for label, value in rates.items() if "PyTorch" in label)
        for label, of in outcomes.items():
            print("| %s | %s | %.0f | %.2f | %.0f | %.2f | %s |" % (
                name, label, peaks[label], peaks[label] / peak, rates[label], rates[label] / rate,
                of[-1].ended), flush=True)


if __name__ == "__main__":
    main()
