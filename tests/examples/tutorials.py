#!/usr/bin/python3
"""Compares a guide with its programs: tutorials.py GUIDE FILE...

Every block of C and Python in the guide is one of the sources. The guide contains each source
except headers, and after each C program its output. A program of NAME.c is called WORD_NAME. Words
must be equal. Numbers must be nearly equal, because sums have another order on another processor.
"""

import os
import re
import subprocess
import sys

NUMBER = re.compile(r"-?\d+\.\d+|\d+")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def same(found, wanted):
    if NUMBER.sub("#", found) != NUMBER.sub("#", wanted):
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(wanted))
    return all(abs(float(a) - float(b)) <= 0.03 + 0.03 * abs(float(b)) for a, b in pairs)


def run(program):
    folder = os.environ.get("TEST_TMPDIR", ".")
    ended = subprocess.run([os.path.abspath(program)], cwd=folder, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit("%s: ended with %d: %s" % (program, ended.returncode, ended.stderr))
    return ended.stdout


def main():
    guide, sources, programs = sys.argv[1], {}, {}
    for path in sys.argv[2:]:
        name = os.path.basename(path)
        if name.endswith((".c", ".h", ".py")):
            with open(path) as file:
                sources[name] = file.read()
        else:
            programs[name.split("_", 1)[1]] = path
    with open(guide) as file:
        blocks = FENCE.findall(file.read())
    names = {text: name for name, text in sources.items()}
    shown, latest = set(), None
    for kind, text in blocks:
        if kind in ("c", "python"):
            if text not in names:
                sys.exit("the guide has a block that is no source:\n" + text)
            latest = names[text]
            shown.add(latest)
        elif kind == "text":
            found = run(programs.pop(latest[:-2]))
            if not same(found, text):
                sys.exit("%s prints\n%s\nand the guide says\n%s" % (latest, found, text))
    asked = {name for name in sources if not name.endswith(".h")}
    missing = sorted(asked - shown) + sorted(programs)
    if missing or not shown:
        sys.exit("not in the guide: " + ", ".join(missing))
    print("%d sources, as they are and as they run" % len(shown))


if __name__ == "__main__":
    main()
