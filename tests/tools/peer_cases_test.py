#!/usr/bin/python3
"""Runs recorded cases of PyTorch and ONNX: peer_cases_test.py LIBRARY HEADER... SUITE...

tools/peer_cases/freeze.py wrote the cases. For each operation as many pass as the list beside them
requires."""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "tools", "peer_cases"))

import binding  # noqa: E402
import frozen  # noqa: E402


def counts_of(path):
    with open(path, encoding="utf-8") as file:
        rows = [line.rsplit(" ", 1) for line in file.read().splitlines()]
    return {name: int(count) for name, count in rows}


def run_group(library, context, name, cases):
    """The number of passed cases."""
    passed = 0
    for i, case in enumerate(cases):
        try:
            frozen.Frozen(library, context, case).run()
            passed += 1
        except frozen.Differs as differs:
            print("%s, case %d: %s" % (name, i, differs))
        except KeyError as missing:
            print("%s, case %d: there is no %s" % (name, i, missing))
    return passed


def main():
    shared = next(path for path in sys.argv[1:] if ".so" in path)
    header = next(path for path in sys.argv[1:] if os.path.basename(path) == "tandem.h")
    suites = [path for path in sys.argv[1:] if path.endswith(".cases")]
    library = binding.Library(os.path.abspath(shared), os.path.dirname(os.path.abspath(header)))
    complaints = 0
    context = library.call("context_create", None)
    for path in suites:
        groups, counts = frozen.read(path), counts_of(path.replace(".cases", ".txt"))
        passed = {name: run_group(library, context, name, cases) for name, cases in groups.items()}
        for name in sorted({*counts, *passed}):
            if passed.get(name) != counts.get(name):
                print("%s: %s passed, %s are listed" % (name, passed.get(name), counts.get(name)))
                complaints += 1
        print("%s: %d of %d cases of %d operations" % (
            os.path.basename(path), sum(passed.values()), sum(counts.values()), len(counts)))
    library.call("context_release", context)
    sys.exit(complaints > 0 or not suites)


if __name__ == "__main__":
    main()
