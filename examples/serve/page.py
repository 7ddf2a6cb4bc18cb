#!/usr/bin/python3
"""Converts the page to a C string, and makes the policy of its response: only its own script and
style, by their hashes (Content Security Policy Level 3).

    page.py PAGE.html    prints them
"""
import base64
import hashlib
import re
import sys


def hashes(page, tag):
    """Returns the hashes of the contents of the page's tags of a name, for the policy."""
    found = re.findall(r"<%s>(.*?)</%s>" % (tag, tag), page, re.DOTALL)
    if not found or len(re.findall(r"<%s\b" % tag, page)) != len(found):
        sys.exit("the page has no <%s>, or one with attributes" % tag)
    digests = [hashlib.sha256(text.encode()).digest() for text in found]
    return " ".join("'sha256-%s'" % base64.b64encode(digest).decode() for digest in digests)


def main():
    """Prints both."""
    with open(sys.argv[1], encoding="utf-8") as file:
        page = file.read()
    policy = ("default-src 'none'; script-src %s; style-src %s; img-src data:; connect-src 'self'; "
              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
              % (hashes(page, "script"), hashes(page, "style")))
    print("static const char page_policy[] =\n    \"%s\";" % policy)
    print("static const char page_text[] =")
    for line in page.splitlines():
        print('    "%s\\n"' % line.replace("\\", "\\\\").replace('"', '\\"'))
    print("    ;")


if __name__ == "__main__":
    main()
