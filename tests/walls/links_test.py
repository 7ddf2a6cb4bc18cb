#!/usr/bin/python3
"""Checks that every relative link of a page leads to an existing file, and to a heading of it, and
that files and folders which a page names in code exist."""
import os
import re
import sys

sys.dont_write_bytecode = True
from source_tree import ROOT, read_file, read_files, verdict  # noqa: E402

LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)
HEADING = re.compile(r"^#+ +(.*)$", re.M)
BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
# A file by the end of its path, and a path from the root. NAME and the like are placeholders.
NAMED_FILE = re.compile(r"`([\w./-]*\w\.(?:c|h|hpp|cu|py|bzl|sh|md))(?::\w+)?`")
NAMED_PATH = re.compile(r"`(\w+/[\w/-]+)`")
PLACEHOLDER = re.compile(r"[A-Z]{4,}(?=[_/.]|$)")
HISTORY = "CHANGELOG.md"  # names files of earlier versions


def slug(heading):
    """Returns the anchor that GitHub makes from a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower())
    return text.replace(" ", "-")


def anchors(path):
    """Returns the anchors of all headings of a page. A number is added to repeated headings."""
    text = BLOCK.sub("", read_file(path))
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


def paths_of_tree():
    """Returns the paths of all files and folders from the root, each beginning with a slash."""
    paths = set()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith((".", "bazel-", "__pycache__"))]
        paths |= {"/" + os.path.relpath(os.path.join(folder, name), ROOT)
                  for name in folders + names}
    return paths


def check_names(path, text, paths):
    """Returns the complaints about files and folders that a page names."""
    if path == HISTORY:
        return []
    text = BLOCK.sub("", text)
    missing = {name for name in set(NAMED_FILE.findall(text))
               if not any(there.endswith("/" + name) for there in paths)}
    missing |= {name for name in NAMED_PATH.findall(text)
                if "/" + name.split("/")[0] in paths and "/" + name.rstrip("/") not in paths}
    return [f"{path}: there is no {name}" for name in sorted(missing)
            if not PLACEHOLDER.search(name)]


def main():
    """Prints the links without a target, and names of missing files."""
    complaints, links = [], 0
    paths = paths_of_tree()
    named = "`no_such_file.c` `core/no_such_folder` `core/map.h` `map.h` `core/NAME.c` `a/b`"
    if len(check_names("x.md", named, paths)) != 2:
        complaints.append("the test would not see a file that is not there")
    planted = check("docs/x.md", "[a](nowhere.md) [b](tool.md#nowhere) [c](tool.md#pictures)")
    if len(planted[0]) != 2:
        complaints.append("the test would not see a link that leads nowhere")
    for path, text in read_files((".md",)):
        found, count = check(path, text)
        complaints += found + check_names(path, text, paths)
        links += count
    return verdict(complaints, links)


if __name__ == "__main__":
    sys.exit(main())
