#!/usr/bin/python3
"""The limits of style that can be counted: sizes, nesting, columns, the comment that opens a file,
one dialect of C, and the prose of comments and pages (prose_test.py).

C is read by a counter of braces, not a parser: a block is a brace after `name(...)`, `else` or
`do`, and a function is such a brace outside of all others.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
from prose_test import check_folders  # noqa: E402
from source_tree import C_ENDINGS, ROOT, TEXT_ENDINGS, read_files, verdict  # noqa: E402

FILE_LINES = 500
FUNCTION_LINES = 100
NESTING = 4
COLUMNS = 100
# Paths that only exist where the code was written.
MACHINE_PATH = re.compile(r"(?<![\w./])/(?:work|root|home/\w+|tmp/(?:w|bz\w*))/")

# Functions whose result is discarded by a cast, and others that are called without one.
CHECKED = r"(?:v?snprintf|f?close|setenv|unsetenv|unlink|remove|pthread_\w+)\("
UNCHECKED = r"(?:v?f?printf|fputs|fputc|puts|putchar|fflush|memcpy|memset|memmove)\("

# One dialect of C, in code without comments. Operands of sizeof have no parentheses. A statement of
# one line has no braces. (void) discards a result that could be checked. i++ is written where the
# value is not used. A pointer is a condition by itself.
DIALECT = (
    (re.compile(r"\bsizeof ?\((?:\*\w+|(?!float|double|char|u?int)\w+(?:->|\.|\[)[^()\n]*)\)"
                r"(?!->|\[|\.)"),
     "an operand of sizeof that is not a type: sizeof x"),
    (re.compile(r"^([ \t]*)(?:if|for|while) \([^\n]*\) \{\n[^\n{}]*;\n\1\}$", re.MULTILINE),
     "braces around a statement of one line"),
    (re.compile(r"(?:[;{})]\n|\belse\b|^[ \t]*if \([^\n]*\) )[ \t]*" + CHECKED, re.MULTILINE),
     "a result that is discarded: (void)f()"),
    (re.compile(r"\(void\)" + UNCHECKED), "a result that is never checked: f() without (void)"),
    (re.compile(r"(?:;|^)[ \t]*(?:\+\+|--)[\w(]", re.MULTILINE), "the value is not used: i++"),
    (re.compile(r"== NULL\b"), "a pointer that is NULL: !x"),
    (re.compile(r"!= NULL\s*(?:&&|\|\||\?)"
                r"|\b(?:if|while) \((?:[^;{()]|\((?:[^()]|\([^()]*\))*\))*!= NULL\)"),
     "a pointer as a condition: x"),
)

# The head of a case, as cmocka calls it.
CASE = re.compile(r"^static (?:void|int) (\w+)\(void \*\*\w+\) \{", re.MULTILINE)

# A comment that begins a section of a file: dashes up to the last column.
SECTION = re.compile(r"^[ \t]*/\* -+ .* -+ \*/$", re.MULTILINE)

NOISE = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*',
    re.DOTALL | re.MULTILINE)


def blank_noise(text):
    """Replaces comments, strings and preprocessor lines by blanks; line numbers stay the same."""
    return NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def opens_block(before):
    """Returns True if a brace after this text opens a block, not an initializer or a literal."""
    before = before.rstrip()
    if not before.endswith(")"):
        return bool(re.search(r"\b(else|do)$", before))
    open_count = 0
    for index in range(len(before) - 1, -1, -1):
        open_count += {")": 1, "(": -1}.get(before[index], 0)
        if open_count == 0:
            name = re.search(r"(\w+)\s*$", before[:index])
            return bool(name) and name.group(1) not in ("return", "sizeof")
    return False


def measure_functions(text):
    """Yields (first line, lines, deepest nesting) of each function."""
    code = blank_noise(re.sub(r'extern "C" \{', "", text))
    stack = []  # for each open brace: whether it opens a block
    first = nesting = since = 0
    for match in re.finditer(r"[{}]", code):
        line = code.count("\n", 0, match.start()) + 1
        if match.group() == "{":
            block = opens_block(code[since:match.start()])
            if not stack:
                first, nesting = line, 0
            stack.append(block)
            nesting = max(nesting, sum(stack) - 1)
        elif stack:
            was_function = stack.pop() and not stack
            if was_function:
                yield first, line - first + 1, nesting
        since = match.end()


def check_text(path, text):
    """Returns the complaints that apply to any text file."""
    complaints = []
    for number, line in enumerate(text.split("\n"), 1):
        where = "%s:%d: " % (path, number)
        if "\t" in line:
            complaints.append(where + "a tab")
        if line != line.rstrip():
            complaints.append(where + "blanks at the end")
        if len(line) > COLUMNS and not path.endswith(".md"):
            complaints.append(where + "%d columns, over %d" % (len(line), COLUMNS))
        if MACHINE_PATH.search(line):
            complaints.append(where + "a path of one machine")
    return complaints


def count_lines(text):
    """Returns the number of lines; comments and empty lines of a public header do not count."""
    if re.search(r"^TDM_API\b", text, re.MULTILINE):
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        return sum(1 for line in text.split("\n") if line.strip())
    return text.count("\n")


def check_c(path, text):
    """Returns the complaints about a C file and its functions."""
    complaints = []
    lines_count = count_lines(text)
    if lines_count > FILE_LINES:
        complaints.append("%s: %d lines, over %d" % (path, lines_count, FILE_LINES))
    if not text.startswith(("/*", "//")):
        complaints.append("%s:1: no comment says what the file owns" % path)
    for first, length, nesting in measure_functions(text):
        if length > FUNCTION_LINES:
            complaints.append("%s:%d: a function of %d lines, over %d"
                              % (path, first, length, FUNCTION_LINES))
        if nesting > NESTING:
            complaints.append("%s:%d: a function nested %d deep, over %d"
                              % (path, first, nesting, NESTING))
    return complaints


def check_dialect(path, text):
    """Returns the complaints about code that does not follow the dialect."""
    code = blank_noise(text)
    found = [(match.end(), otherwise)
             for pattern, otherwise in DIALECT for match in pattern.finditer(code)]
    found += [(match.end(), "a section's dashes end in column %d" % COLUMNS)
              for match in SECTION.finditer(text)
              if len(match.group()) != COLUMNS or not match.group().lstrip().startswith("/* ---- ")]
    return ["%s:%d: %s" % (path, text.count("\n", 0, at) + 1, otherwise)
            for at, otherwise in found]


def check_cases(path, text):
    """Returns the test cases that no list contains, and that therefore never run."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", lambda match: re.sub(r"[^\n]", " ", match.group()), text,
                  flags=re.DOTALL)
    return ["%s:%d: the case %s is never run"
            % (path, code.count("\n", 0, case.start()) + 1, case.group(1))
            for case in CASE.finditer(code)
            if len(re.findall(r"\b%s\b" % case.group(1), code)) == 1]


def check_limits():
    """Checks that each limit can fail."""
    deep = "/* x */\nint f(void) {\n" + "if (1) {\n" * 5 + "}\n" * 6
    flat = "/* x */\nint f(void) {\n" + "if (1) {\n" * 4 + "x = (struct x){{1}};\n" + "}\n" * 5
    long = "/* x */\nint f(void) {\n" + ";\n" * FUNCTION_LINES + "}\n"
    bites = {
        "nesting": check_c("x.c", deep), "function": check_c("x.c", long),
        "file": check_c("x.c", "/* x */\n" * 501), "comment": check_c("x.c", "int x;\n"),
        "tab": check_text("x.c", "\tx"), "columns": check_text("x.c", "x" * 101),
        "path": check_text("x.c", "open /" + "work/main"),
    }
    for bad in ("for (i = 0; i < n; ++i) {", "  ++i;", "if (x == NULL)", "a != NULL && b",
                "while (next(x) != NULL)", "sizeof(*x)", "sizeof(a->b)", "sizeof(a[0])",
                "if (a) {\n  b();\n}", "  (void)memset(a, 0, 1);", "a();\n  snprintf(b, 1, c);",
                "  if (a) unlink(b);", "/* ---- A ---- */"):
        bites[bad] = check_dialect("x.c", bad)
    section = "/* ---- A " + 87 * "-" + " */"
    for good in ("while (++i < n)", "x = p != NULL;", "f(p != NULL)", "i++;", "if (!x)",
                 "sizeof(tdm_link)", "sizeof *x", "sizeof(struct a *)", "  if (a) (void)close(b);",
                 "if (a) {\n  b();\n} else {", "x = 1 +\n    snprintf(a, 1, b);", section):
        if check_dialect("x.c", good):
            return ["complains about good code: " + good]
    case = "static void f(void **state) {}\n"
    bites["cases"] = check_cases("x.c", case)
    if check_cases("x.c", case + "cmocka_unit_test(f)"):
        return ["complains about a case that is run"]
    silent = ["the limit of %s lets everything pass" % name for name in bites if not bites[name]]
    return silent + ["complains about good code: " + text for text in check_c("x.c", flat)]


def check_script(path, text, executable):
    """Returns a complaint about a script with "#!" that is not executable."""
    if text.startswith("#!") and not executable:
        return ["%s: begins with #!, but is not executable" % path]
    return []


def main():
    complaints = check_limits()
    if not check_script("x.py", "#!/bin/sh", False) or check_script("x.py", "#!/bin/sh", True):
        complaints.append("scripts are not looked at")
    files_count = 0
    for path, text in read_files(TEXT_ENDINGS):
        files_count += 1
        complaints += check_text(path, text)
        complaints += check_script(path, text, os.access(os.path.join(ROOT, path), os.X_OK))
        if path.endswith(C_ENDINGS):
            complaints += check_c(path, text)
            complaints += check_dialect(path, text)
        if path.endswith(".c"):
            complaints += check_cases(path, text)
    return verdict(complaints, files_count)


if __name__ == "__main__":
    sys.exit(main())
