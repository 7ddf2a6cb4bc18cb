#!/usr/bin/python3
"""Checks that every relative link of a page leads to an existing file, and to a heading of it."""
import os
import re
import sys

sys.dont_write_bytecode = True
from source_tree import ROOT, read_file, read_files, verdict  # noqa: E402

LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)
HEADING = re.compile(r"^#+ +(.*)$", re.M)


def slug(heading):
    """Returns the anchor that GitHub makes from a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower())
    return text.replace(" ", "-")


def anchors(path):
    """Returns the anchors of all headings of a page. A number is added to repeated headings."""
    text = re.sub(r"^```.*?^```$", "", read_file(path), flags=re.M | re.S)
    found = set()
    for heading in HEADING.findall(text):
        name, number = slug(heading), 1
        while name in found:
            name, number = f"{slug(heading)}-{number}", number + 1
        found.add(name)
    return found


def check(path, text):
    """Returns the complaints about one page, and the number of its links."""
    complaints = []
    links = [link for link in LINK.findall(CODE.sub("", text)) if not re.match(r"\w+:", link)]
    for link in links:
        name, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(os.path.join(ROOT, target)):
            complaints.append(f"{path}: {link}: there is no {target}")
        elif anchor and anchor not in anchors(target):
            complaints.append(f"{path}: {link}: {target} has no heading for it")
    return complaints, len(links)


def main():
    """Prints the links without a target."""
    complaints, links = [], 0
    planted = check("docs/x.md", "[a](nowhere.md) [b](tool.md#nowhere) [c](tool.md#pictures)")
    if len(planted[0]) != 2:
        complaints.append("the test would not see a link that leads nowhere")
    for path, text in read_files((".md",)):
        found, count = check(path, text)
        complaints += found
        links += count
    return verdict(complaints, links)


if __name__ == "__main__":
    sys.exit(main())
