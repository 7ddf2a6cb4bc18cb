#!/usr/bin/python3
"""Writes a table of the structs of options in the public headers, and of their numeric fields.

    list_options.py HEADER... > public_options.inc

HEADERs are files of the tree; those that tandem.h leads to are read. For each tdm_NAME_options
there is a line OPTIONS_STRUCT(name), and for each of its numbers a line OPTIONS_FIELD(name, field,
type, count).
"""
import re
import sys

STRUCT = re.compile(r"^typedef struct tdm_(\w+)_options \{(.*?)^\} tdm_\1_options;", re.S | re.M)
FIELD = re.compile(r"^(int|int32_t|int64_t|uint64_t|uint32_t|double)\s+(\w+)(?:\[(\d+)\])?$")


def public_texts(paths):
    """The texts of the headers that tandem.h leads to, without comments."""
    seen, left = set(), ["tandem.h"]
    while left:
        name = left.pop(0)
        if name in seen:
            continue
        seen.add(name)
        path = next(path for path in paths if path == name or path.endswith("/" + name))
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        left += re.findall(r'#include "tandem/([^"]+)"', text)
        yield text


def main():
    """Prints the table."""
    for text in public_texts(sys.argv[1:]):
        for name, body in STRUCT.findall(text):
            print(f"OPTIONS_STRUCT({name})")
            for member in body.split(";"):
                field = FIELD.match(" ".join(member.split()))
                if field:
                    print(f"OPTIONS_FIELD({name}, {field[2]}, {field[1]}, {field[3] or 1})")


if __name__ == "__main__":
    main()
