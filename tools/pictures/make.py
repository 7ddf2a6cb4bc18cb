#!/usr/bin/python3
"""Makes the README's pictures anew, by what is measured on this machine: `bazel run
//tools/pictures`. Requires graphviz, gnuplot and Debian's word lists."""
import argparse
import os
import subprocess
import sys
import tempfile

PICTURES = ["plan.svg", "curves.svg"]
RATES = ["0.004", "0.001"]


def run(words, **options):
    """Runs a program, ending this one where it fails."""
    done = subprocess.run(words, check=False, **options)
    if done.returncode:
        sys.exit("%s failed" % " ".join(words))
    return done


def make_plan(tandem, plan, path):
    """The plan of a training step over two devices."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        run([plan], stdout=file)
        drawn = run([tandem, "plan", file.name, "--svg"], stdout=subprocess.PIPE).stdout
    with open(path, "wb") as file:
        file.write(drawn)


def make_curves(tandem, example, epochs, path):
    """Losses and accuracies of two trainings."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [os.path.join(folder, "learning rate %s.tsv" % rate) for rate in RATES]
        for rate, log in zip(RATES, logs):
            run([example, "--epochs", str(epochs), "--learning-rate", rate, "--log", log],
                stdout=subprocess.DEVNULL)
        run([tandem, "curves", "--to", path, *logs])


def main():
    """Makes all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("tandem", "plan", "example"):
        parser.add_argument(name, type=os.path.abspath, help="a program")
    parser.add_argument("--epochs", type=int, default=4, help="of the trainings (4)")
    parser.add_argument("--folder", type=os.path.abspath, help="where they go (docs/pictures)",
                        default=os.path.join(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."),
                                             "docs/pictures"))
    given = parser.parse_args()
    os.environ.pop("BUILD_WORKING_DIRECTORY", None)
    plan, curves = (os.path.join(given.folder, name) for name in PICTURES)
    make_plan(given.tandem, given.plan, plan)
    make_curves(given.tandem, given.example, given.epochs, curves)
    for path in (plan, curves):
        print("%s: %d bytes" % (path, os.path.getsize(path)))


if __name__ == "__main__":
    main()
