#!/usr/bin/python3
"""Compiles every block of C or C++ in a page: as a program, or as the body of a function. A comment
above the block declares what it uses: <!-- given: tdm_session *session; -->. A line of dots marks
omitted code."""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from source_tree import ROOT, read_files, verdict  # noqa: E402

BLOCK = re.compile(r"(?:^<!-- given: (.*?) -->\n+)?^```(c|cpp)\n(.*?)^```$", re.M | re.S)
IS_PROGRAM = re.compile(r"^#include|^(static |int |void |tdm_\w+ \**)\w+\([^;]*\{$", re.M)
HEAD = "#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n#include <tandem/tandem.h>\n"
COMPILERS = {"c": ["cc", "-std=gnu11"], "cpp": ["c++", "-std=c++17"]}


def source_of(given, text):
    """Returns a translation unit with the block."""
    text = re.sub(r"^\s*\.\.\.$", "", text, flags=re.M)
    if IS_PROGRAM.search(text):
        return HEAD + text
    return f"{HEAD}{given or ''}\nvoid block(void);\nvoid block(void) {{\n{text}\n}}\n"


def complaint_about(include, language, given, text):
    """Returns the compiler's messages, or nothing if the block compiles."""
    done = subprocess.run(
        COMPILERS[language] + ["-fsyntax-only", "-Wall", "-Werror", "-Wno-unused", "-I", include,
                               "-I", ROOT, "-x", "c" if language == "c" else "c++", "-"],
        input=source_of(given, text), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False)
    return done.stdout if done.returncode else ""


def main():
    """Prints the compiler's messages about blocks that do not compile."""
    complaints, blocks = [], 0
    with tempfile.TemporaryDirectory() as include:
        os.symlink(ROOT, os.path.join(include, "tandem"))
        if not complaint_about(include, "c", "", "tdm_no_such_function();\n"):
            complaints.append("the test would not see a function that is not there")
        for path, page in read_files((".md",)):
            for match in BLOCK.finditer(page):
                blocks += 1
                said = complaint_about(include, match[2], match[1], match[3])
                if said:
                    line = page.count("\n", 0, match.start(3)) + 1
                    complaints.append(f"{path}:{line}: {said}")
    return verdict(complaints, blocks)


if __name__ == "__main__":
    sys.exit(main())
