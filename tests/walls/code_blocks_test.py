#!/usr/bin/python3
"""Compiles every block of C or C++ in a page, and every @code block in a public header: as a
program, or as the body of a function. A comment above a block of a page declares the names that
it uses: <!-- given: tdm_session *session; -->. Blocks of headers use the declarations of GIVEN.
A line of dots marks omitted code; @code{.unparsed} marks text that is not C."""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from source_tree import ROOT, read_files, verdict  # noqa: E402

BLOCK = re.compile(r"(?:^<!-- given: (.*?) -->\n+)?^```(c|cpp)\n(.*?)^```$", re.M | re.S)
HEADER_BLOCK = re.compile(r"^ \* @code\n(.*?)^ \* @endcode$", re.M | re.S)
IS_PROGRAM = re.compile(r"^#include|^(static )?(int|void|tdm_\w+) \**\w+\([^;]*\{$", re.M)
HEAD = "#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n#include <tandem/tandem.h>\n"
GIVEN = """
tdm_context *context; tdm_graph *graph; tdm_session *session; tdm_loader *loader;
tdm_dataset *dataset; tdm_tensor_list *list; tdm_tensor *tensor, *x_tensor, *target_tensor;
tdm_value x, a, b, ids, offsets, loss, logits, targets, rows, position;
tdm_module module; tdm_feed feed; tdm_fetch fetch; tdm_session_options options; int64_t epoch;
tdm_status infer_square(tdm_infer *infer); tdm_status square_gradient(tdm_gradient *gradient);
tdm_status read_item(void *user, int64_t index, void *const *out_fields);
"""
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


def blocks_of(path, text):
    """Yields (line, language, declarations, code) for each block of a page or a header."""
    if path.endswith(".md"):
        for match in BLOCK.finditer(text):
            yield text.count("\n", 0, match.start(3)) + 1, match[2], match[1], match[3]
        return
    for match in HEADER_BLOCK.finditer(text):
        code = re.sub(r"^ \* ?", "", match[1], flags=re.M)
        yield text.count("\n", 0, match.start(1)) + 1, "c", GIVEN, code


def main():
    """Prints the compiler's messages about blocks that do not compile."""
    complaints, blocks = [], 0
    with tempfile.TemporaryDirectory() as include:
        os.symlink(ROOT, os.path.join(include, "tandem"))
        if not complaint_about(include, "c", "", "tdm_no_such_function();\n"):
            complaints.append("the test would not see a function that is not there")
        _, *planted = next(blocks_of("x.h", " * @code\n * no_such_name;\n * @endcode\n"))
        if not complaint_about(include, *planted):
            complaints.append("the test would not see a block of a header")
        for path, text in read_files((".md", ".h")):
            for line, *block in blocks_of(path, text):
                blocks += 1
                said = complaint_about(include, *block)
                if said:
                    complaints.append(f"{path}:{line}: {said}")
    return verdict(complaints, blocks)


if __name__ == "__main__":
    sys.exit(main())
