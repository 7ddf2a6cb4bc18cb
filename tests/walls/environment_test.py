#!/usr/bin/python3
"""Checks that the library reads exactly the environment variables that docs/environment.md and
`tandem doctor` list."""
import re
import sys

sys.dont_write_bytecode = True
from source_tree import read_file, read_files, verdict  # noqa: E402

PAGE = "docs/environment.md"
KNOWN = "tools/doctor/environment.c"
PRODUCT = ("core/", "devices/", "net/", "graph/", "layers/", "data/", "checkpoint/")
QUOTED = re.compile(r'"(TANDEM_[A-Z0-9_]+)"')
ROW = re.compile(r"^\| `(TANDEM_[A-Z0-9_]+)` \|", re.M)


def main():
    """Prints each missing name and the list that lacks it."""
    read = {}
    files_count = 0
    for path, text in read_files((".c",)):
        if path.startswith(PRODUCT):
            files_count += 1
            for name in QUOTED.findall(text):
                read[name] = path
    told = set(ROW.findall(read_file(PAGE)))
    known = set(QUOTED.findall(read_file(KNOWN)))
    complaints = []
    for names, where in ((told, PAGE), (known, KNOWN)):
        complaints += ["%s: %s is not there, which %s reads" % (where, name, read[name])
                       for name in sorted(set(read) - names)]
        complaints += ["%s: nothing reads %s" % (where, name) for name in sorted(names - set(read))]
    return verdict(complaints, files_count)


if __name__ == "__main__":
    sys.exit(main())
