#!/usr/bin/python3
"""Runs the fuzz targets: bazel run //tests/fuzz -- --seconds 60 [TARGET ...]

Builds them with --config=fuzz, then runs one after the other for so many seconds each, from the
inputs in tests/fuzz/corpus. Inputs are kept under --keep, a
permanent folder from which a later run continues: NAME/ has the inputs that reach new code, and
findings/ those that failed. Prints a table, and exits with 1 if anything failed.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

FOLDER = "tests/fuzz"


def known_targets():
    found = glob.glob(os.path.join(FOLDER, "*_fuzz.c"))
    return sorted(os.path.basename(path)[:-len("_fuzz.c")] for path in found)


def read_arguments():
    parser = argparse.ArgumentParser(prog="bazel run //tests/fuzz --", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--runs", type=int, default=-1, help="executions of each at most")
    parser.add_argument("--keep", help="folder of what is found (a new one)")
    parser.add_argument("targets", nargs="*", help="all of them, if none is named: %s" %
                        ", ".join(known_targets()))
    given = parser.parse_args()
    for name in given.targets:
        if name not in known_targets():
            parser.error("there is no target %s; there are %s" % (name, ", ".join(known_targets())))
    return given


def read_options(name):
    """Returns the options of libFuzzer in addition to the defaults."""
    options = []
    path = os.path.join(FOLDER, name + ".options")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            options = file.read().split()
    words = os.path.join(FOLDER, "dictionaries", name + ".dict")
    return options + (["-dict=" + words] if os.path.exists(words) else [])


def run_target(name, given, keep):
    """Returns (executions, executions per second, features, whether it failed)."""
    inputs = os.path.join(keep, name)
    findings = os.path.join(keep, "findings", name + "-")
    os.makedirs(inputs, exist_ok=True)
    command = ["bazel-bin/%s/%s_fuzz" % (FOLDER, name), "-timeout=25", "-rss_limit_mb=3000",
               "-print_final_stats=1", "-max_total_time=%d" % given.seconds,
               "-runs=%d" % given.runs, "-artifact_prefix=" + findings]
    command += read_options(name) + [inputs, os.path.join(FOLDER, "corpus", name)]
    # A small quarantine stays in the caches. Stacks of allocations are not recorded, because that
    # took up to half of the time. The replay test reports them for a failing input.
    os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=1:thread_local_quarantine_size_kb=64:"
                          "malloc_context_size=0:max_allocation_size_mb=512:"
                          "allocator_may_return_null=1")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    log = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        print(log[-6000:])
    count = re.search(r"number_of_executed_units: (\d+)", log)
    speed = re.search(r"average_exec_per_sec: +(\d+)", log)
    features = re.findall(r"ft: (\d+)", log)
    return (int(count.group(1)) if count else 0, int(speed.group(1)) if speed else 0,
            int(features[-1]) if features else 0, done.returncode != 0)


def main():
    os.chdir(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    given = read_arguments()
    targets = given.targets or known_targets()
    labels = ["//%s:%s_fuzz" % (FOLDER, name) for name in targets]
    if subprocess.call(["bazel", "build", "--config=fuzz"] + labels) != 0:
        return "the targets cannot be built: tools/install_dependencies.sh --test brings clang 14"
    keep = os.path.abspath(given.keep or tempfile.mkdtemp(prefix="fuzz"))
    os.makedirs(os.path.join(keep, "findings"), exist_ok=True)
    rows = []
    for name in targets:
        print("== %s" % name, flush=True)
        rows.append((name,) + run_target(name, given, keep))
    print("%-14s %12s %10s %9s" % ("target", "executions", "a second", "features"))
    for name, count, speed, features, failed in rows:
        verdict = "  FAILED" if failed else ""
        print("%-14s %12d %10d %9d%s" % (name, count, speed, features, verdict))
    print("kept in %s" % keep)
    return 1 if any(row[-1] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
