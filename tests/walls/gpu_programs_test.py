#!/usr/bin/python3
"""Checks that tools/gpu_check runs exactly the tests that tests/gpu packs."""
import os
import sys

sys.dont_write_bytecode = True
from source_tree import ROOT, read_file, verdict  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tools"))
import gpu_check_parts  # noqa: E402


def packed():
    """Returns the names of the tests in tests/gpu/BUILD, which is read as Python."""
    names = {rule: lambda *given, **named: None
             for rule in ("load", "package", "cc_binary", "one_program")}
    exec(read_file("tests/gpu/BUILD"), names)
    return {label.split(":")[1] for label in names["_PROGRAMS"] if label.endswith("_test")}


def main():
    programs = packed()
    asked = {item.name for item in gpu_check_parts.all_items() if item.name.endswith("_test")}
    complaints = ["tools/gpu_check_parts.py runs %s, which tests/gpu does not pack" % name
                  for name in sorted(asked - programs)]
    complaints += ["tests/gpu packs %s, which tools/gpu_check_parts.py does not run" % name
                   for name in sorted(programs - asked)]
    return verdict(complaints, len(programs))


if __name__ == "__main__":
    sys.exit(main())
