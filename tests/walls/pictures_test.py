#!/usr/bin/python3
"""Checks that pictures of pages exist, are small, contain nothing about the machine that made them,
and are made by a command that the README names."""
import os
import re
import sys

sys.dont_write_bytecode = True
from source_tree import ROOT, read_file, read_files, verdict  # noqa: E402

MOST_BYTES = 100000
SHOWN = re.compile(r"!\[[^\]]+\]\(([^)\s]+)\)")
MAKER = "tools/pictures/make.py"
LEAST_IN_README = 2
PRIVATE = re.compile(r"(?<![\w./])/(?:home|root|tmp|work|usr|var)/|https?://(?!www\.w3\.org/)")


def check(picture, maker):
    """Returns the complaints about one file."""
    path = os.path.join(ROOT, picture)
    if not os.path.exists(path):
        return ["%s is not there" % picture]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    complaints = []
    if len(text) >= MOST_BYTES:
        complaints.append("%s has %d bytes" % (picture, len(text)))
    for found in PRIVATE.findall(text):
        complaints.append("%s contains a path of a machine: %s" % (picture, found))
    if '"%s"' % os.path.basename(picture) not in maker:
        complaints.append("%s is not made by %s" % (picture, MAKER))
    return complaints


def main():
    """Checks all pictures; returns the exit status."""
    readme, maker = read_file("README.md"), read_file(MAKER)
    shown = set()
    for path, text in read_files((".md",)):
        shown |= {os.path.normpath(os.path.join(os.path.dirname(path), picture))
                  for picture in SHOWN.findall(text)}
    complaints = [line for picture in sorted(shown) for line in check(picture, maker)]
    if len(SHOWN.findall(readme)) < LEAST_IN_README:
        complaints.append("README.md shows fewer than %d pictures" % LEAST_IN_README)
    if "bazel run //tools/pictures" not in readme:
        complaints.append("README.md does not say what makes its pictures")
    for name in os.listdir(os.path.join(ROOT, "docs/pictures")):
        if os.path.join("docs/pictures", name) not in shown:
            complaints.append("docs/pictures/%s is shown nowhere" % name)
    return verdict(complaints, len(shown))


if __name__ == "__main__":
    sys.exit(main())
