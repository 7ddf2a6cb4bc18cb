#!/usr/bin/python3
"""Checks that the product contains every message that docs/messages.md lists."""
import re
import sys

sys.dont_write_bytecode = True
from source_tree import read_file, read_files, verdict  # noqa: E402

PAGE = "docs/messages.md"
PRODUCT = ("core/", "devices/", "net/", "graph/", "layers/", "data/", "checkpoint/")
ROW = re.compile(r"^\| `([^`]*)` \| (?!means)", re.M)
JOINED = re.compile(r'"\s*\n\s*"')


def main():
    """Prints each message that is missing."""
    texts = [JOINED.sub("", text) for path, text in read_files((".c",)) if path.startswith(PRODUCT)]
    rows = [row for row in ROW.findall(read_file(PAGE)) if " " in row]
    complaints = [f"{PAGE}: no message is '{row}'" for row in rows
                  if not any(row in text for text in texts)]
    if len(rows) < 12:
        complaints.append(f"{PAGE}: only {len(rows)} messages were found")
    return verdict(complaints, len(rows))


if __name__ == "__main__":
    sys.exit(main())
