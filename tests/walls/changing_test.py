#!/usr/bin/python3
"""Checks docs/changing.md: the files and words that it quotes exist, the first pages of the
documentation link to it, and each title has the number of files and lines of its table."""
import os
import re
import sys

sys.dont_write_bytecode = True
from source_tree import ROOT, read_file, read_files, verdict  # noqa: E402

PAGE = "docs/changing.md"
LEADING = ("README.md", "docs/architecture.md")
QUOTED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.]+(/[\w.]+)+")
NEW = "NAME"  # the placeholder for the name of a new file or word
SYMBOL = re.compile(r"[A-Za-z]\w*_\w+|[A-Z][A-Z]+")
COUNTED = re.compile(r"^## .*: (\d+) files, (\d+) lines$", re.M)


def missing_names(text, sources):
    """Returns complaints about quoted paths and symbols that do not exist."""
    complaints = []
    for quoted in sorted(set(QUOTED.findall(text))):
        if NEW in quoted:
            continue
        if PATH.fullmatch(quoted):
            there = os.path.exists(os.path.join(ROOT, quoted))
        elif SYMBOL.fullmatch(quoted):
            there = re.search(r"\b%s\b" % quoted, sources)
        else:
            continue
        if not there:
            complaints.append("%s: there is no %s" % (PAGE, quoted))
    return complaints


def wrong_counts(text):
    """Returns complaints about titles whose numbers differ from the table below."""
    complaints = []
    for section in re.split(r"^(?=## )", text, flags=re.M)[1:]:
        rows = re.findall(r"^\| (`.*?) \| .* \| (\d+) \|$", section, re.M)
        files = sum(len(QUOTED.findall(row[0])) for row in rows)
        lines = sum(int(row[1]) for row in rows)
        counted = COUNTED.match(section)
        if not counted or [int(number) for number in counted.groups()] != [files, lines]:
            complaints.append("%s: %s has %d files, %d lines"
                              % (PAGE, section.splitlines()[0], files, lines))
    return complaints


def main():
    text = read_file(PAGE)
    sources = "\n".join(content for path, content in read_files((".c", ".h", ".bzl", "BUILD")))
    complaints = missing_names(text, sources) + wrong_counts(text)
    complaints += ["%s does not lead to %s" % (page, PAGE) for page in LEADING
                   if "changing.md" not in read_file(page)]
    if len(missing_names("`layers/no_such_file.c` `no_such_symbol`", sources)) != 2:
        complaints.append("what is not there is not noticed")
    return verdict(complaints, len(COUNTED.findall(text)))


if __name__ == "__main__":
    sys.exit(main())
