#!/usr/bin/python3
"""The documentation is made of all headers and pages, and whatever its pages lead to is there.

    documentation_test.py BUILD DOXYFILE FILE...    as docs/reference/build.py takes them
"""
import functools
import html.parser
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile


class Page(html.parser.HTMLParser):
    """The links, pictures and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.pictures, self.anchors = [], [], set()
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name"):
                self.anchors.add(value)
            if tag == "a" and name == "href":
                self.links.append(value)
            if tag == "img" and name == "src":
                self.pictures.append(value)


def complaints_about(folder):
    """Returns links of pages without a target, and missing pages."""
    @functools.lru_cache(maxsize=None)
    def read(name):
        path = os.path.join(folder, name)
        return Page(path) if os.path.exists(path) else None

    files = [name for name in os.listdir(folder) if name.endswith(".html")]
    found = [f"{name} is not there" for name in ("index.html", "tutorial.html")
             if name not in files]
    for name in files:
        found += [f"{name} shows {picture}, which is not there" for picture in read(name).pictures
                  if not os.path.exists(os.path.join(folder, picture))]
        for link in read(name).links:
            path, _, anchor = link.partition("#")
            if ":" in link:
                continue
            there = read(os.path.normpath(path or name))
            if not there or (anchor and anchor not in there.anchors):
                found.append(f"{name} leads to {link}, which is not there")
    if not read("index.html").pictures:
        found.append("the first page shows no picture")
    with open(os.path.join(folder, "search_index.js"), encoding="utf-8") as file:
        index = file.read()
    found += [f"the search index lacks {address}"
              for address in ('"tutorial.html#2-train"', '"reference/sessions_8h.html#')
              if address not in index]
    if not any("reference/" in link for link in read("tutorial.html").links):
        found.append("names in the tutorial do not lead to the reference")
    return found


def make(build, folder, files):
    """Runs the build. Returns its result and the archive."""
    archive = os.path.join(folder, "made.tar.gz")
    done = subprocess.run([build, archive, *files], capture_output=True, text=True, check=False)
    return done, archive


def main():
    """The exit status."""
    build, *files = sys.argv[1:]
    if not shutil.which("doxygen"):
        print("skipped: doxygen is not here (tools/install_dependencies.sh --docs)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        done, archive = make(build, folder, files)
        if done.returncode:
            print(done.stdout, done.stderr)
            return 1
        with tarfile.open(archive) as tar:
            tar.extractall(folder)
        found = complaints_about(os.path.join(folder, "tandem"))
        lost = os.path.join(folder, "lost.md")
        with open(lost, "w", encoding="utf-8") as file:
            file.write("# Lost\n\n[nowhere](nowhere.md)\n")
        if not make(build, folder, files + [lost])[0].returncode:
            found.append("a page that leads to none that is there was taken")
    print("\n".join(found) or "all links lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
