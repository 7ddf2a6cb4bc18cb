"""Splits comments, docstrings and Markdown pages into paragraphs of prose, and those into
sentences. A paragraph is a list of (line number, text of that line); code, tables drawn with
blanks, links and addresses are not prose and are left out."""
import io
import re
import textwrap
import tokenize

C_PROSE = (".c", ".h", ".inc", ".cu", ".cuh", ".cpp", ".hpp")
PYTHON_PROSE = (".py", ".bzl", "BUILD", "WORKSPACE", ".bazel")

C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
# A line that begins a paragraph of its own: a list item, a Doxygen command, a heading.
ITEM = re.compile(r"(?:[-*+] |\d+[.)] |[@\\][a-z]+\b|#+ |>|\|)")
COLUMNS_OF_TEXT = re.compile(r"\S {3,}\S")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(`\[]*[A-Z0-9`])")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|cf|vs|etc|resp|approx|al)\.$", re.IGNORECASE)


def numbered(number, lines):
    """Returns (line number, line) for each line. All but the first are dedented."""
    return list(enumerate(lines[:1] + textwrap.dedent("\n".join(lines[1:])).split("\n"), number))


def c_comments(text):
    """Yields the comments of C, C++ or CUDA as lists of (line number, line)."""
    line_comments = []  # consecutive lines of //
    last_end = 0
    for match in C_TOKEN.finditer(text):
        token = match.group()
        if token[0] in "\"'":
            continue
        number = text.count("\n", 0, match.start()) + 1
        if token.startswith("//"):
            if line_comments and text[last_end:match.start()].strip():
                yield line_comments
                line_comments = []
            if line_comments and number != line_comments[-1][0] + 1:
                yield line_comments
                line_comments = []
            line_comments.append((number, re.sub(r"^//+[!<]* ?", "", token)))
            last_end = match.end()
        else:
            lines = re.sub(r"^/\*+[!<]* ?|\*+/$", "", token).split("\n")
            if all(re.match(r"\s*(?:\*|\\?$)", line) for line in lines[1:]):
                yield [(number + i, re.sub(r"^\s*\* ?", "", line) if i else line)
                       for i, line in enumerate(line.rstrip(" \\") for line in lines)]
            else:
                yield numbered(number, [line.rstrip(" \\") for line in lines])
    if line_comments:
        yield line_comments


def python_comments(text):
    """Yields the comments and docstrings of Python or Starlark, likewise."""
    block = []
    starts_statement = True
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return
    for kind, token, (number, _), _, line in tokens:
        if kind == tokenize.COMMENT:
            own_line = line.lstrip().startswith("#")
            if block and (number != block[-1][0] + 1 or not own_line):
                yield block
                block = []
            if not token.startswith("#!"):
                block.append((number, re.sub(r"^#+ ?", "", token)))
        elif kind == tokenize.STRING and starts_statement:
            body = re.sub(r'^[rRbBuU]*("""|\'\'\'|"|\')|("""|\'\'\'|"|\')$', "", token)
            yield numbered(number, body.split("\n"))
        if kind not in (tokenize.COMMENT, tokenize.NL):
            starts_statement = kind in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    if block:
        yield block


def comment_paragraphs(lines):
    """Splits one comment into paragraphs. Lines indented by four more than the text around them,
    after an empty line or a colon, are code."""
    paragraph = []
    in_code = False
    for index, (number, line) in enumerate(lines):
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if re.match(r"[@\\]code\b|```", stripped) and not in_code:
            in_code = True
        elif re.match(r"[@\\]endcode\b|```", stripped):
            in_code = False
            continue
        before = lines[index - 1][1].rstrip() if index else ""
        is_item = ITEM.match(stripped) or (indent >= 2 and re.match(r"\w+: ", stripped))
        is_code = in_code or (indent >= 4 and (not paragraph or before.endswith(":")))
        if not stripped or is_code or COLUMNS_OF_TEXT.search(stripped) or is_item:
            if paragraph:
                yield paragraph
            paragraph = []
        if stripped and not is_code and not COLUMNS_OF_TEXT.search(stripped):
            text = re.sub(r"^(?:[-*+] |\d+[.)] |#+ )", "", stripped)
            text = re.sub(r"^[@\\](?:param|arg)(?:\[\w+\])?\s+\S+\s*|^[@\\][a-z]+\s*", "", text)
            if re.search(r"[A-Za-z]", text) and not text.startswith("---"):
                paragraph.append((number, text))
    if paragraph:
        yield paragraph


def page_paragraphs(text):
    """Splits a Markdown page into paragraphs: of text, of an item of a list, of a cell of a table.
    Headings are not sentences and are left out."""
    paragraph = []
    in_code = in_comment = False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip().lstrip("> ")
        if stripped.startswith(("```", "~~~")):
            in_code = not in_code
            stripped = ""
        if in_code:
            stripped = ""
        in_comment = in_comment or stripped.startswith("<!--")
        if in_comment or stripped.startswith("<"):
            in_comment = in_comment and "-->" not in stripped
            stripped = ""
        is_item = re.match(r"(?:[-*+]|\d+[.)]) ", stripped)
        if not stripped or is_item or stripped.startswith(("#", "|")):
            if paragraph:
                yield paragraph
            paragraph = []
        if stripped.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "`x`", stripped)):
                if re.search(r"[A-Za-z]", cell):
                    yield [(number, cell.strip())]
        elif stripped and not stripped.startswith("#"):
            paragraph.append((number, stripped[is_item.end():] if is_item else stripped))
    if paragraph:
        yield paragraph


def paragraphs_of(path, text):
    """Yields (is in a comment, paragraph) for each paragraph of prose of a file."""
    if path.endswith(".md"):
        for paragraph in page_paragraphs(text):
            yield False, paragraph
        return
    comments = c_comments(text) if path.endswith(C_PROSE) else python_comments(text)
    for lines in comments:
        for paragraph in comment_paragraphs(lines):
            yield True, paragraph


def sentences_of(paragraph):
    """Yields (line number, sentence) for each sentence of a paragraph. A span of code is one word,
    a link its text."""
    text = ""
    starts = []  # (offset in text, line number)
    for number, line in paragraph:
        starts.append((len(text), number))
        text += line + " "
    # Replacements keep the length, so that offsets still lead to lines.
    text = re.sub(r"`[^`]*`", lambda match: "`" + "x" * (len(match.group()) - 2) + "`", text)
    text = re.sub(r"\]\([^)]*\)", lambda match: "]" + " " * (len(match.group()) - 1), text)
    begin = 0
    ends = [match.end() for match in SENTENCE_END.finditer(text)
            if not ABBREVIATION.search(text[:match.start()])]
    for end in ends + [len(text)]:
        sentence = text[begin:end].strip()
        offset = begin + len(text[begin:end]) - len(text[begin:end].lstrip())
        if sentence:
            yield max(number for start, number in starts if start <= offset), sentence
        begin = end


def words_of(sentence):
    """The words of a sentence: runs without blanks that have a letter or a digit."""
    return [word for word in sentence.split() if re.search(r"[A-Za-z0-9]", word)]
