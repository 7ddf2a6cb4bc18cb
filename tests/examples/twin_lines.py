#!/usr/bin/python3
"""twin_lines.py MOST FILE...: the lines of each program in C beside those of its twin in Python;
fails where one takes more than MOST times as many. Counted alike in both: lines with a token on
them, so neither empty lines nor comments, docstrings among them; C is as clang-format leaves it."""

import io
import os
import re
import sys
import tokenize


def c_lines(text):
    text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group().count("\n"), text, flags=re.S)
    return sum(1 for line in text.splitlines() if line.strip())


def python_lines(text):
    """Lines with a token on them; a string by itself is a comment."""
    lines = set()
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            begins = True
        elif token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER):
            if not (begins and token.type == tokenize.STRING):
                lines.update(range(token.start[0], token.end[0] + 1))
            begins = False
    return len(lines)


def main():
    most, texts = float(sys.argv[1]), {}
    for path in sys.argv[2:]:
        with open(path) as file:
            texts[os.path.basename(path)] = file.read()
    twins = [name[:-3] for name in texts if name.endswith(".py")]
    pairs = sorted(name for name in twins if name + ".c" in texts)
    failed = not pairs
    print("%-20s %6s %6s %6s" % ("", "C", "Python", "ratio"))
    for name in pairs:
        ours, theirs = c_lines(texts[name + ".c"]), python_lines(texts[name + ".py"])
        print("%-20s %6d %6d %6.2f" % (name, ours, theirs, ours / theirs))
        failed = failed or ours > most * theirs
    sys.exit(failed)


if __name__ == "__main__":
    main()
