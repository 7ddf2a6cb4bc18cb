#!/usr/bin/python3
"""Converts the comments of a public header to the form that Doxygen reads.

    filter.py HEADER             prints the header for Doxygen
    filter.py --check HEADER...  prints the names and struct members that have no comment

A comment above a declaration documents it and the declarations that follow without an empty line.
A comment after a declaration documents only that one. A comment beside a struct member documents
it, and so does a comment of the struct that contains its name. The first comment of a file
documents the file.
"""
import re
import sys

NAME_OF_FUNCTION = re.compile(r"\b(tdm_\w+)\s*\(")
NAME_OF_POINTER = re.compile(r"\(\*\s*(tdm_\w+)\)")
NAME_OF_TYPE = re.compile(r"\b(tdm_\w+)\s*(?:\[[^\]]*\])?;\s*(?:/\*.*)?$", re.S)
MACRO = re.compile(r"#define\s+(\w+)")
SKIPPED = re.compile(r"#\s*(if|ifdef|ifndef|endif|else|elif|include|error|undef)|extern \"C\"|^}")
GUARD = re.compile(r"TANDEM_\w+_H$|TANDEM_H$")
SECTION = re.compile(r"/\* -+\s*(.*?)\s*-*\s*\*/", re.S)


class Piece:
    """Some lines: a comment, a declaration with the comment that documents it, or others."""

    def __init__(self, kind, text, name=None, comment=None, comes_first=False):
        self.kind, self.text, self.name = kind, text, name
        self.comment, self.comes_first = comment, comes_first


def read_comment(lines, at):
    """Returns the comment that begins at a line, and the next line."""
    end = at
    while "*/" not in lines[end]:
        end += 1
    return "\n".join(lines[at:end + 1]), end + 1


def read_declaration(lines, at):
    """Returns a declaration with the comment after it, and the next line."""
    end, depth, in_comment = at, 0, False
    while True:
        line = lines[end]
        code = re.sub(r"/\*.*?\*/", "", line) if not in_comment else line
        if in_comment:
            code = code.split("*/", 1)[1] if "*/" in code else ""
            in_comment = "*/" not in line
        if "/*" in code:
            in_comment, code = True, code.split("/*")[0]
        depth += code.count("{") + code.count("(") - code.count("}") - code.count(")")
        is_macro = lines[at].startswith("#define")
        ends = not line.endswith("\\") if is_macro else code.rstrip().endswith((";", "}"))
        if depth == 0 and ends and not in_comment:
            return "\n".join(lines[at:end + 1]), end + 1
        end += 1


def name_of(text):
    """Returns the name that a declaration declares, or None."""
    if text.startswith("#define"):
        return MACRO.match(text)[1]
    pointer = NAME_OF_POINTER.search(text) if text.startswith("typedef") else None
    if pointer:
        return pointer[1]
    if text.startswith("typedef"):
        found = NAME_OF_TYPE.search(text)
        return found[1] if found else None
    code = re.sub(r"__attribute__\(\(.*?\)\)", "", text)
    found = NAME_OF_FUNCTION.search(code)
    return found[1] if found else None


def pieces_of(text):
    """Returns the pieces of the header."""
    lines, at, comment, is_new = text.split("\n"), 0, None, False
    pieces = []
    while at < len(lines):
        line = lines[at]
        if line.startswith("/*"):
            body, at = read_comment(lines, at)
            comment, is_new = (None, False) if body.startswith("/* ----") else (body, True)
            pieces.append(Piece("comment", body))
            continue
        if not line.strip() or SKIPPED.match(line):
            if not line.strip():
                comment = None
            pieces.append(Piece("other", line))
            at += 1
            continue
        body, at = read_declaration(lines, at)
        pieces.append(Piece("declaration", body, name_of(body), comment, is_new))
        is_new = False
    return pieces


def has_own_comment(text):
    """Returns True if a comment follows the declaration or is inside it."""
    return "/*" in text.split("{")[0] or bool(re.search(r";\s*/\*|\*/\s*$", text)) or "/*" in text


INITIALIZER = re.compile(r"tdm_\w+_options_default$")  # core/core.h documents them all


def undocumented(text):
    """Returns the public names without a comment. The function that creates an opaque type
    documents the type."""
    found = []
    for piece in pieces_of(text):
        if piece.kind != "declaration" or not piece.name or GUARD.match(piece.name):
            continue
        if INITIALIZER.match(piece.name):
            continue
        if not piece.comment and not has_own_comment(piece.text):
            found.append(piece.name)
    return found


def members_of(text):
    """Returns the members of a struct as (name, has a comment beside it)."""
    found = re.match(r"(?:typedef )?struct \w* ?\{(.*)\}", text, re.S)
    if not found:
        return []
    code = re.sub(r"/\*.*?\*/", "\0", found[1], flags=re.S)
    pieces = [piece for piece in re.split("(\0|;)", code) if piece.strip(" \n;")]
    members = []
    for at, piece in enumerate(pieces):
        if piece == "\0":
            continue
        pointer = re.search(r"\(\*(\w+)\)", piece)
        words = re.findall(r"\w+", re.sub(r"\[.*?\]", "", piece))
        beside = "\0" in pieces[max(at - 1, 0):at + 2]
        members.append((pointer[1] if pointer else words[-1], beside))
    return members


def undocumented_members(text):
    """Returns the struct members without a comment, as STRUCT.MEMBER."""
    found = []
    for piece in pieces_of(text):
        if piece.kind != "declaration" or not piece.name:
            continue
        comments = (piece.comment or "") + " ".join(re.findall(r"/\*.*?\*/", piece.text, re.S))
        found += [f"{piece.name}.{name}" for name, beside in members_of(piece.text)
                  if not beside and name != "struct_size"
                  and not re.search(rf"\b{name}\b", comments)]
    return found


def as_doxygen(text):
    """Returns the header with Doxygen's comments."""
    out, pieces, section = [], pieces_of(text), ""
    for number, piece in enumerate(pieces):
        if piece.kind == "comment" and number == 0:
            out.append("/** @file\n" + piece.text[2:])
        elif piece.kind == "comment":
            follows = pieces[number + 1] if number + 1 < len(pieces) else None
            heading = SECTION.match(piece.text)
            if heading:
                section = heading[1]
                out.append(piece.text)
            elif follows and follows.kind == "declaration":
                out.append("")
            else:
                out.append(f"/** @file\n@par {section}\n" + piece.text[2:])
        elif piece.kind == "declaration" and piece.name and GUARD.match(piece.name):
            out.append("")
        elif piece.kind == "declaration":
            if piece.name and INITIALIZER.match(piece.name) and not piece.comes_first:
                out.append("/** Returns options with all fields set to their defaults. */")
            elif piece.comment:
                out.append("/**" + piece.comment[2:])
            members = re.sub(r"^([ \t]+)/\*(?!\*)", r"\1/**", piece.text, flags=re.M)
            out.append(re.sub(r"(\S[ \t]+)/\*(?!\*)", r"\1/**<", members))
        else:
            out.append(piece.text)
    return "\n".join(out)


def main():
    """The exit status."""
    if sys.argv[1:2] != ["--check"]:
        with open(sys.argv[1], encoding="utf-8") as file:
            sys.stdout.write(as_doxygen(file.read()))
        return 0
    missing = 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
            for name in undocumented(text) + undocumented_members(text):
                print(f"{path}: {name} is not documented")
                missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
