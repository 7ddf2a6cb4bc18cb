#!/usr/bin/python3
"""Checks that every function, type, macro and struct member in the public headers has a comment,
by the rule that makes the reference (docs/reference/filter.py)."""
import os
import sys

sys.dont_write_bytecode = True
from source_tree import ROOT, read_files, verdict  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "docs/reference"))
import build  # noqa: E402
import filter as headers  # noqa: E402


def main():
    """Prints the names without a comment."""
    os.chdir(ROOT)
    folders = ("checkpoint/", "core/", "data/", "devices/", "graph/", "layers/", "tandem.h")
    texts = build.public_ones([path for path, _ in read_files((".h",)) if path.startswith(folders)])
    complaints = [f"{path}: {name} is not documented" for path, text in sorted(texts.items())
                  for name in headers.undocumented(text) + headers.undocumented_members(text)]
    planted = ("/* A file. */\n\nTDM_API int tdm_untold(void);\n"
               "/* Told. */\nTDM_API int tdm_told(void);\n")
    if headers.undocumented(planted) != ["tdm_untold"]:
        complaints.append("the test would not see a function without a comment")
    planted = ("/* A file. */\n\n/* Has what is named: told. */\ntypedef struct tdm_two {\n"
               "  int told;\n  void (*untold)(int told);\n} tdm_two;\n")
    if headers.undocumented_members(planted) != ["tdm_two.untold"]:
        complaints.append("the test would not see a member without a comment")
    return verdict(complaints, len(texts))


if __name__ == "__main__":
    sys.exit(main())
