#!/usr/bin/python3
"""Checks that cmocka runs every test that tests/parallel/README.md names (`file.c:function`)."""
import os
import re
import sys

sys.dont_write_bytecode = True
from source_tree import ROOT, verdict  # noqa: E402

PAGE = "tests/parallel/README.md"
FOLDER = "tests/parallel"
NAMED = re.compile(r"`([\w/]+\.c):(\w+)`")
GIVEN = re.compile(r"cmocka_unit_test(?:_setup_teardown)?\(\s*(\w+)")


def tests_of(path):
    path = os.path.join(ROOT, path if "/" in path else os.path.join(FOLDER, path))
    if not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as file:
        return set(GIVEN.findall(file.read()))


def main():
    with open(os.path.join(ROOT, PAGE), encoding="utf-8") as file:
        named = sorted(set(NAMED.findall(file.read())))
    complaints = [f"{PAGE}: there is no {path}:{test}"
                  for path, test in named if test not in tests_of(path)]
    if len(named) < 40:
        complaints.append(f"{PAGE}: names {len(named)} tests only")
    return verdict(complaints, len(named))


if __name__ == "__main__":
    sys.exit(main())
