#!/usr/bin/python3
"""Makes the documentation: the reference of the public headers by Doxygen, and the pages beside it.
Fails where a header declares what no comment documents, where Doxygen warns, and where a page leads
to one that is not there.

    build.py ARCHIVE DOXYFILE FILE...    headers, of which those count that tandem.h leads to; pages
                                         and their pictures
"""
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import filter as headers  # noqa: E402

# The reference's first page.
MAIN = """/** @mainpage Reference
Every public name, by the header that declares it (<a href="files.html">all headers</a>) or
<a href="globals.html">from A to Z</a>. Programs include <a href="tandem_8h.html">tandem.h</a>,
which leads to all of them. <a href="../index.html">Pages</a> tell what they are for.
*/
"""
INCLUDE = re.compile(r'#include "tandem/([^"]+)"')


def public_ones(paths, name="tandem.h", found=None):
    """tandem.h and what it includes, by the name that programs include."""
    found = {} if found is None else found
    if name not in found:
        path = next(path for path in paths if path == name or path.endswith("/" + name))
        with open(path, encoding="utf-8") as file:
            found[name] = file.read()
        for included in INCLUDE.findall(found[name]):
            public_ones(paths, included, found)
    return found


def make_reference(folder, doxyfile, texts):
    """Doxygen's pages of the headers, in folder/html, and folder/tags; what went wrong, or None."""
    for name, text in texts.items():
        path = os.path.join(folder, "tandem", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(headers.as_doxygen(text))
    with open(os.path.join(folder, "main.dox"), "w", encoding="utf-8") as file:
        file.write(MAIN)
    with open(doxyfile, encoding="utf-8") as file:
        settings = file.read() + ("INPUT = tandem main.dox\nRECURSIVE = YES\n"
                                  "FILE_PATTERNS = *.h\nGENERATE_TAGFILE = tags\n")
    try:
        done = subprocess.run(["doxygen", "-"], input=settings, text=True, cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except FileNotFoundError:
        return "doxygen is not here: tools/install_dependencies.sh --docs installs it"
    return done.stdout if done.returncode else None


def make_pages(folder, paths, pictures):
    """The pages in HTML, in folder/pages; what went wrong, or None."""
    try:
        import pages  # needs Debian's python3-markdown
    except ImportError:
        return "python3-markdown is not here: tools/install_dependencies.sh --docs installs it"
    texts = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            texts[os.path.basename(path)[:-len(".md")]] = file.read()
    made = os.path.join(folder, "pages")
    os.makedirs(os.path.join(made, "pictures"))
    for path in pictures:
        shutil.copy(path, os.path.join(made, "pictures"))
    try:
        pages.write(made, texts, os.path.join(folder, "tags"))
    except ValueError as wrong:
        return str(wrong)
    return None


def main():
    """The exit status."""
    archive, doxyfile, *paths = (os.path.abspath(path) for path in sys.argv[1:])
    of_kind = {end: [path for path in paths if path.endswith(end)] for end in (".md", ".svg")}
    texts = public_ones([path for path in paths if not path.endswith((".md", ".svg"))])
    missing = [f"{name}: {what} is not documented" for name, text in sorted(texts.items())
               for what in headers.undocumented(text) + headers.undocumented_members(text)]
    if missing:
        print("\n".join(missing))
        return 1
    with tempfile.TemporaryDirectory() as folder:
        wrong = make_reference(folder, doxyfile, texts)
        wrong = wrong or make_pages(folder, of_kind[".md"], of_kind[".svg"])
        if wrong:
            print(wrong)
            return 1
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(os.path.join(folder, "pages"), "tandem")
            tar.add(os.path.join(folder, "html"), "tandem/reference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
