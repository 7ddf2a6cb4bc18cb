#!/usr/bin/python3
"""Checks that lists of sources are complete. A missing source would be ignored silently."""
import re
import sys

sys.dont_write_bytecode = True
from source_tree import C_ENDINGS, ROOT, read_file, read_files, verdict  # noqa: E402

RECORDS = "layers/records.c"
KERNELS = "devices/kernels"


def compare(where, listed, found):
    """Returns the complaints about a list, by its names and the names of existing files."""
    return (["%s: lacks %s" % (where, name) for name in sorted(set(found) - set(listed))] +
            ["%s: names %s, and there is none" % (where, name)
             for name in sorted(set(listed) - set(found))])


def record_lists():
    """Checks the lists of operations (TDM_RECORDS) of all sources."""
    made = []
    for path, text in read_files(C_ENDINGS):
        if path.startswith(("graph/", "layers/")):
            made += re.findall(r"^TDM_RECORDS\(\s*(\w+)", text, re.MULTILINE)
    return compare(RECORDS, re.findall(r"^  X\((\w+)\)", read_file(RECORDS), re.MULTILINE), made)


def cuda_sources():
    """Checks the sources of kernels for GPUs, which several packages compile."""
    listed = {"__builtins__": {}}
    exec(read_file(KERNELS + "/cuda/sources.bzl"), listed)
    there = [path[len(KERNELS) + 1:] for path, _ in read_files((".cu",))
             if path.startswith(KERNELS + "/")]
    return compare(KERNELS + "/cuda/sources.bzl", listed["KERNEL_SOURCES"], there)


def main():
    control = compare("control", ["both", "listed"], ["both", "found"])
    complaints = [] if len(control) == 2 else ["a list that lacks one is not refused"]
    return verdict(complaints + record_lists() + cuda_sources(), 2)


if __name__ == "__main__":
    sys.exit(main())
