#!/usr/bin/python3
"""Checks the prose of comments and Markdown pages: length of sentences and paragraphs, openings
without a subject, questions in comments, and a short list of idioms.

  prose_test.py             compares the number of violations in each folder with ALLOWED
  prose_test.py PATH...     prints each violation in these files and folders: file:line: what
  prose_test.py --table     prints the entries of ALLOWED for the present tree

ALLOWED is a ratchet. A folder with more violations than its number fails. Lower the number after a
folder was rewritten; a folder without an entry must have none.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
from prose_text import C_PROSE, PYTHON_PROSE, paragraphs_of, sentences_of, words_of  # noqa: E402
from source_tree import ROOT, read_files, verdict  # noqa: E402

SENTENCE_WORDS = 40
PARAGRAPH_WORDS = 120
ENDINGS = C_PROSE + PYTHON_PROSE + (".md",)

# Violations that each top-level folder may still have; "." is the files at the root.
ALLOWED = {}

HEADLESS = re.compile(r"\W*(Of|What|Whatever|Who|Whoever|Whose)\s+\w")

# (what is found, as whole words; what to write instead)
IDIOMS = tuple((re.compile(r"\b(?:%s)\b" % found, re.IGNORECASE), instead) for found, instead in (
    (r"tells?(?! (?:\w+ ){0,4}apart)|told", "report, return, print, describe"),
    (r"stands?(?! for\b|-)", "is, lies; or name the relation"),
    (r"behind", "after, below"),
    (r"but for", "except"),
    (r"for ever", "without limit, permanently"),
    (r"lets? go|letting go", "release"),
    (r"go(?:es)? on|going on", "continue"),
    (r"(?<!let )(?<!leave )(?<!left )(?<!stand-)alone", "only"),
    (r"nobody", "name who: no caller, no consumer"),
    (r"answers", "returns; results"),
    (r"says", "returns, reports, states"),
    (r"wants|knows|believes|asks", "requires, records, has, queries"),
))

EXAMPLES_OF_VIOLATIONS = (
    ("x.c", "/* %s. */\n" % " ".join(["word"] * 41), "sentence of 41 words"),
    ("x.md", "%s.\n" % " ".join(["word"] * 41), "sentence of 41 words"),
    ("x.c", "/* " + "One two three.\n * " * 41 + "*/\n", "paragraph of 123 words"),
    ("x.md", "One two three.\n" * 41, "paragraph of 123 words"),
    ("x.c", "int x; /* Of names: all of them. */\n", 'begins with "Of"'),
    ("x.h", "/* It works. Who reads it waits. */\n", 'begins with "Who"'),
    ("x.md", "- What is not named is on the host.\n", 'begins with "What"'),
    ("x.cu", "// Is there\n// something?\n", "a question"),
    ("x.py", "# Does it wait?\n", "a question"),
    ("BUILD", 'def f():\n    """Is it here?"""\n', "a question"),
    ("x.c", "/* A rank that is told of it. */\n", '"told"'),
    ("x.c", "/* All but\n * for one. */\n", '"but for"'),
    ("x.md", "| a cell | It stands here |\n", '"stands"'),
)

EXAMPLES_OF_PROSE = (
    ("x.c", "/* %s. */\n" % " ".join(["word"] * 40)),
    ("x.c", "/* %s.\n * - %s. */\n" % (" ".join(["word"] * 30), " ".join(["word"] * 30))),
    ("x.c", 'const char *x = "/* Of what? */";\n'),
    ("x.c", "/* Returns x:\n *\n *     what ? told : behind\n */\n"),
    ("x.md", "## What is it?\n\nWhat is it for? It adds.\n\n```\ntold behind nobody\n```\n"),
    ("x.md", "The option `told` is [here](behind.md).\n"),
    ("x.py", 'x = "Of what?"\n# The mask stands for the rows; it tells them apart.\n'),
)


def check_prose(path, text):
    """Returns the violations of a file as "path:line: what"."""
    complaints = []
    for in_comment, paragraph in paragraphs_of(path, text):
        words_count = 0
        for line, sentence in sentences_of(paragraph):
            count = len(words_of(sentence))
            words_count += count
            found = []
            if count > SENTENCE_WORDS:
                found.append("a sentence of %d words, over %d" % (count, SENTENCE_WORDS))
            question = bool(re.search(r"\w[)\"'`]*\?[)\"'`]*$", sentence))
            if question and in_comment:
                found.append("a question")
            headless = HEADLESS.match(sentence)
            if headless and not (question and not in_comment):
                found.append('begins with "%s": start with the subject' % headless.group(1))
            found += ['"%s": write %s' % (match.group(), instead)
                      for pattern, instead in IDIOMS for match in pattern.finditer(sentence)]
            complaints += ["%s:%d: %s" % (path, line, what) for what in found]
        if words_count > PARAGRAPH_WORDS:
            complaints.append("%s:%d: a paragraph of %d words, over %d"
                              % (path, paragraph[0][0], words_count, PARAGRAPH_WORDS))
    return complaints


def check_checker():
    """Every example of a violation is found, and nothing is found in good prose."""
    wrong = ["finds no violation (%s) in %r" % (expected, text)
             for path, text, expected in EXAMPLES_OF_VIOLATIONS
             if not any(expected in what for what in check_prose(path, text))]
    return wrong + ["complains about good prose: " + what
                    for path, text in EXAMPLES_OF_PROSE for what in check_prose(path, text)]


def folder_of(path):
    return path.split("/")[0] if "/" in path else "."


def count_folders():
    """Returns (violations by folder, files by folder) of the whole tree."""
    counts, files = {}, {}
    for path, text in read_files(ENDINGS):
        folder = folder_of(path)
        counts[folder] = counts.get(folder, 0) + len(check_prose(path, text))
        files[folder] = files.get(folder, 0) + 1
    return counts, files


def compare(counts, allowed):
    """Returns (complaints, remarks) about these counts by folder."""
    complaints, remarks = [], []
    for folder, count in sorted(counts.items()):
        limit = allowed.get(folder, 0)
        if count > limit:
            complaints.append("%s: %d violations of prose, over %d; list those in the files that "
                              "you changed: prose_test.py PATH" % (folder, count, limit))
        elif count < limit and count <= 0.9 * limit:
            remarks.append("%s: %d violations of prose: lower its number in ALLOWED from %d"
                           % (folder, count, limit))
    complaints += ["%s: in ALLOWED, but not in the tree" % folder
                   for folder in sorted(set(allowed) - set(counts))]
    return complaints, remarks


def check_ratchet():
    """The comparison fails above the number, and remarks 10 % below it."""
    cases = ((11, 10, (1, 0)), (10, 10, (0, 0)), (9, 10, (0, 1)), (95, 100, (0, 0)), (1, 0, (1, 0)))
    return ["compares %d with %d wrongly" % (count, limit) for count, limit, expected in cases
            if tuple(map(len, compare({"x": count}, {"x": limit}))) != expected]


def check_folders():
    """Returns the complaints about all folders, and how many files were read."""
    counts, files = count_folders()
    complaints, remarks = compare(counts, ALLOWED)
    for remark in remarks:
        print(remark)
    return complaints, sum(files.values())


def print_paths(paths):
    """Prints each violation in files and folders; the exit status."""
    complaints, files_count = [], 0
    paths = [os.path.relpath(os.path.realpath(path), ROOT) for path in paths]
    for path, text in read_files(ENDINGS):
        if any(chosen in (path, ".") or path.startswith(chosen + "/") for chosen in paths):
            files_count += 1
            complaints += check_prose(path, text)
    return verdict(complaints, files_count)


def main(arguments):
    if arguments == ["--table"]:
        for folder, count in sorted(count_folders()[0].items()):
            if count:
                print('    "%s": %d,' % (folder, count))
        return 0
    if arguments:
        return print_paths(arguments)
    complaints, files_count = check_folders()
    return verdict(check_checker() + check_ratchet() + complaints, files_count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
