"""The faults that tools/mutate puts into C functions, and how one build holds all of them.

A fault is a comparison, an operator, a constant, a returned flag or a call that is another, or is
gone, within a function. Each has a copy of its function's body, at the beginning of the function
(mutant schemata: Untch, Offutt and Harrold, 1993):

    int f(int a) { if (tandem_mutant == 17) { MUTATED } else if ... else { BODY } }

The environment variable TANDEM_MUTANT selects the copy that runs. Without it the program is
unchanged, and marks the faults that it reaches before their statement. Fault 17 is byte 17 of the
file that TANDEM_MUTANT_MARKS names. The file is mapped, so it has the marks of all processes of a
test, however they end.
"""
import bisect
import collections
import re

WORDS = re.compile(r"""
    (?P<skipped>/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|
                ^\#(?:[^\n]*\\\n)*[^\n]*)
  | (?P<number>\b(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)[uUlLfF]*\b)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|[<>=!+*/%&|^-]=|&&|\|\||[-+*/%<>=!&|^~?:;,.(){}\[\]])
""", re.VERBOSE | re.DOTALL | re.MULTILINE)
OTHER_SIGN = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||",
              "||": "&&", "+": "-", "-": "+", "+=": "-=", "-=": "+=", "/": "*", "%": "/",
              "<<": ">>", ">>": "<<"}
OTHER_NAME = {"true": "false", "false": "true"}
ENDS_OPERAND = re.compile(r"[\w)\]]$")
CALL = re.compile(r"^ +(?!return\b|if\b|for\b|while\b|switch\b|assert\b)[\w>.\[\]-]+\([^;{}]*\);$",
                  re.MULTILINE)
LABEL = re.compile(r"^ *(?!default\b)(\w+):(?![:\w])", re.MULTILINE)
# Text between the end of a statement and the next one. The mark comes after labels, so that a jump
# to a label reaches it.
SPACE = r"(?:\s|/\*.*?\*/|//[^\n]*)*"
PAST_SPACE = re.compile(SPACE, re.DOTALL)
BEFORE_STATEMENT = re.compile(SPACE + r"(?:(?:case\b[^:;{}]*|\w+)\s*:(?!:)%s)*" % SPACE, re.DOTALL)

MARKS = 1 << 16  # bytes of a file of marks

# The beginning of a file with faults, on one line, because a #line directive makes the next line
# the first. Functions of libc have other names here, which no header declares.
CHOOSE = ("extern char *tandem_getenv(const char *) __asm__(\"getenv\"); "
          "extern int tandem_atoi(const char *) __asm__(\"atoi\"); "
          "extern int tandem_open(const char *, int, ...) __asm__(\"open\"); "
          "extern int tandem_close(int) __asm__(\"close\"); "
          "extern void *tandem_mmap(void *, unsigned long, int, int, int, long) __asm__(\"mmap\"); "
          "static int tandem_mutant; static unsigned char *tandem_marks; "
          "static inline void tandem_mark(int number) { "
          "if (tandem_marks) tandem_marks[number] = 1; } "
          "__attribute__((constructor)) static void tandem_mutant_choose(void) { "
          "const char *number = tandem_getenv(\"TANDEM_MUTANT\"); "
          "if (number) tandem_mutant = tandem_atoi(number); "
          "const char *path = tandem_getenv(\"TANDEM_MUTANT_MARKS\"); "
          "const int file = path ? tandem_open(path, 2) : -1; "  # O_RDWR
          "if (file < 0) return; "
          "void *marks = tandem_mmap(0, %d, 3, 1, file, 0); "  # to read and write, shared
          "if (marks != (void *)-1) tandem_marks = marks; "
          "(void)tandem_close(file); }\n#line 1\n" % MARKS)

# Characters begin to end of path become text. body is where the function's braces open and close,
# mark where the program as it was notes that it has come here.
Fault = collections.namedtuple("Fault", "path line begin end text what row body mark")


class Source:
    """One file, its functions, and all faults that can be put into it."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.starts = [0] + [found.end() for found in re.finditer("\n", text)]
        self.stops = [0]  # where statements end, or parts of them
        self.bodies = []
        found = self._scan()
        self.faults = [self._fault(*each) for each in found if self._body(each[0])]

    def line(self, position):
        return bisect.bisect_right(self.starts, position)

    def _body(self, position):
        """The function around a position, or None."""
        k = bisect.bisect_right(self.bodies, (position, len(self.text))) - 1
        return self.bodies[k] if k >= 0 and position < self.bodies[k][1] else None

    def _scan(self):
        """[(begin, end, text, what)] of the file; fills bodies and stops."""
        found, before, depth, opened = [], "", 0, None
        for match in WORDS.finditer(self.text):
            kind, word = match.lastgroup, match.group()
            if kind == "skipped":
                continue
            if word == "{":
                if depth == 0:
                    opened = match.start() if before == ")" else None
                depth += 1
            elif word == "}":
                depth -= 1
                if depth == 0 and opened is not None:
                    self.bodies.append((opened, match.end()))
            elif before != "assert":
                new = other_word(kind, word, before, self.text, match)
                if new is not None:
                    found.append((match.start(), match.end(), new,
                                  "%s for %s" % (new or "nothing", word)))
            if word in ";{}":
                self.stops.append(match.end())
            before = word
        for match in CALL.finditer(self.text):
            found.append((match.start(), match.end(), " ;", "no " + match.group().strip()))
        return found

    def _fault(self, begin, end, new, what):
        row = self.line(begin)
        last = self.starts[row] - 1 if row < len(self.starts) else len(self.text)
        body = self._body(begin)
        return Fault(self.path, row, begin, end, new, what,
                     self.text[self.starts[row - 1]:last].strip(), body, self._mark(begin, body))

    def _mark(self, begin, body):
        """Returns the place of a mark before the statement at begin; it may not compile there."""
        stop = self.stops[bisect.bisect_right(self.stops, begin) - 1]
        mark = BEFORE_STATEMENT.match(self.text, stop).end()
        return mark if mark <= PAST_SPACE.match(self.text, begin).end() else body[0] + 1

    def with_faults(self, numbered):
        """The file's text with all the faults of [(number, fault)] to choose from."""
        copies = collections.defaultdict(list)
        for number, fault in numbered:
            copies[fault.body].append((number, fault))
        parts, done = [CHOOSE], 0
        for begin, end in sorted(copies):
            parts.append(self.text[done:begin] + "{ ")
            parts += [self._copy(*each) for each in copies[begin, end]]
            parts.append("{\n#line %d\n%s }" % (self.line(begin),
                                                self._marked(begin + 1, end, copies[begin, end])))
            done = end
        return "".join(parts) + self.text[done:]

    def _marked(self, begin, end, numbered):
        """The text from begin to end, which marks that it comes to faults."""
        parts = []
        for number, fault in sorted(numbered, key=lambda each: each[1].mark):
            parts.append("%s tandem_mark(%d); " % (self.text[begin:fault.mark], number))
            begin = fault.mark
        return "".join(parts) + self.text[begin:end]

    def _copy(self, number, fault):
        begin, end = fault.body
        inside = self.text[begin + 1:fault.begin] + fault.text + self.text[fault.end:end]
        labels = sorted(set(LABEL.findall(inside)))
        return "if (__builtin_expect(tandem_mutant == %d, 0)) {%s\n#line %d\n%s else " % (
            number, " __label__ %s;" % ", ".join(labels) if labels else "", self.line(begin),
            inside)


def other_word(kind, word, before, text, match):
    """Returns the replacement of a word in a fault, or None."""
    if kind == "number" and word.isdigit() and before != "case":
        return str(int(word) + 1)
    if kind == "name":
        if before == "return" and word.startswith("TDM_") and word.isupper():
            return "TDM_INTERNAL" if word == "TDM_OK" else "TDM_OK"
        return OTHER_NAME.get(word)
    if kind != "sign":
        return None
    if word == "!":
        return ""
    spaced = text[match.start() - 1] in " \n" and text[match.end()] in " \n"
    if word == "*":
        return "+" if spaced else None
    return OTHER_SIGN.get(word) if spaced and ENDS_OPERAND.search(before) else None
