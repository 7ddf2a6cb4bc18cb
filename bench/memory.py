#!/usr/bin/python3
"""Peak memory of the examples beside PyTorch's: resident memory at its highest, of the whole
process, while each trains on the same data with the same batches. Run it as
`bazel run //bench:memory`.
"""
import argparse
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import measure  # noqa: E402

# Example -> what both are asked for, as ours and as the peer's options.
ROWS = {
    "fashion_cnn": (["--images", "6400", "--learning-rate", "0.002"],
                    ["--items", "6400", "--learning-rate", "0.002"]),
    "capsule": (["--images", "640", "--learning-rate", "0.002"],
                ["--items", "640", "--learning-rate", "0.002"]),
    "char_lm": (["--characters", "200000", "--learning-rate", "0.005", "--sample", "0"],
                ["--items", "200000", "--learning-rate", "0.005"]),
}


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", action="append", required=True, help="an example, built")
    parser.add_argument("--peer", required=True, help="bench/peers/examples.py")
    parser.add_argument("--models", required=True, help="tests/golden/example_models.py")
    parser.add_argument("--threads", type=int, default=2, help="of the peer")
    return parser.parse_args()


def peak_of(words):
    """(MiB at the highest, the last line printed) of a program."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit("%s\nended with %d" % (" ".join(words), process.returncode))
    return used.ru_maxrss / 1024, output.rstrip().splitlines()[-1]


def main():
    given = read_arguments()
    if not measure.peer_is_there():
        sys.exit("no PyTorch: tools/install_dependencies.sh --peers installs it")
    print("%-16s %-24s %9s %7s  %s" % ("example", "", "peak MiB", "ratio", "it ends with"))
    for program in given.program:
        name = os.path.basename(program)
        ours, theirs = ROWS[name]
        peer = [measure.PEER_PYTHON, given.peer, name, "--models", given.models, "--epochs", "1",
                "--threads", str(given.threads)] + theirs
        peak, ended = peak_of(peer)
        print("%-16s %-24s %9.0f %7s  %s" % (name, "PyTorch", peak, "", ended))
        for place in ("*=cpu:0", ""):
            words = [program, "--epochs", "1"] + ours + (["--place", place] if place else [])
            of_ours, ended = peak_of(words)
            print("%-16s %-24s %9.0f %7.2f  %s" % (
                name, "Tandem, " + (place or "with accelerator"), of_ours, of_ours / peak, ended))


if __name__ == "__main__":
    main()
