#!/usr/bin/python3
"""Makes the reference of the public headers by Doxygen. Fails where one declares what no comment
documents, and where Doxygen warns.

    build.py ARCHIVE DOXYFILE HEADER...    of the headers, those that tandem.h leads to
"""
import os
import re
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import filter as headers  # noqa: E402

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


def main():
    """The exit status."""
    archive, doxyfile, *paths = (os.path.abspath(path) for path in sys.argv[1:])
    texts = public_ones(paths)
    missing = [f"{name}: {what} is not documented" for name, text in sorted(texts.items())
               for what in headers.undocumented(text) + headers.undocumented_members(text)]
    if missing:
        print("\n".join(missing))
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            path = os.path.join(folder, "tandem", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(headers.as_doxygen(text))
        with open(doxyfile, encoding="utf-8") as file:
            settings = file.read() + "INPUT = tandem\nRECURSIVE = YES\nFILE_PATTERNS = *.h\n"
        try:
            done = subprocess.run(["doxygen", "-"], input=settings, text=True, cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        except FileNotFoundError:
            print("doxygen is not here: tools/install_dependencies.sh --docs installs it")
            return 1
        if done.returncode:
            print(done.stdout)
            return 1
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(os.path.join(folder, "html"), "reference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
