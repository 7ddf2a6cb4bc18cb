#!/usr/bin/python3
"""The library's ABI beside that of the last release, by libabigail: a program that was compiled
with the release runs with a library of the same SONAME. Types come from the public headers, by
which a variable is declared for every function that the library offers; so no build with debugging
information is needed.

    abi_test.py FILE...                                    the library among them, and the headers
    bazel run //tests/packaging:abi_test -- --write        the dump of a release, into the tree
"""
import glob
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
DUMPS = "tests/packaging/abi"
VERSION = re.compile(r"#define TDM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)")
# Layouts that are others' to change.
SUPPRESSED = "[suppress_type]\nname_regexp = ^(_IO_.*|FILE|uv_.*|__.*)$\n"
WHAT_TO_DO = """
Within one SONAME (docs/versions.md) programs have to run as they are. Either keep what was: a new
function instead of another signature, no field more where the size is the caller's. Or break it
openly: raise the minor version (core/core.h, BUILD, packaging/) and say in CHANGELOG.md what to
write instead. A version that was not released yet may be dumped anew, in the same commit:
  bazel run //tests/packaging:abi_test -- --write
"""


def output(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}")
    return done.stdout


def soname_version(version):
    """Returns the part of a version within which programs stay compatible."""
    major, minor, _ = version.split(".")
    return f"{major}.{minor}" if major == "0" else major


def offered(library):
    symbols = output("nm", "--dynamic", "--defined-only", library)
    return sorted({line.split()[2] for line in symbols.splitlines()})


def dump(folder, include, names):
    """Writes a file of the functions that the headers below include declare."""
    source, made = os.path.join(folder, "abi.c"), os.path.join(folder, "abi.xml")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <tandem/tandem.h>\n" +
                   "".join(f"__typeof__(&{name}) {name}_is;\n" for name in names))
    output("cc", "-std=gnu11", "-g", "-fPIC", "-shared", "-fvisibility=default", "-I", include,
           source, "-o", source + ".so")
    output("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--out-file", made,
           source + ".so")
    return made


def changes(folder, before, after):
    """Returns the incompatible changes from before to after, or None."""
    suppressed = os.path.join(folder, "suppressed")
    with open(suppressed, "w", encoding="utf-8") as file:
        file.write(SUPPRESSED)
    done = subprocess.run(["abidiff", "--no-added-syms", "--suppressions", suppressed, before,
                           after], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode & 3:
        sys.exit(f"abidiff failed:\n{done.stdout}")
    return done.stdout if done.returncode else None


def unpack(folder, packed):
    path = os.path.join(folder, os.path.basename(packed)[:-len(".gz")])
    with gzip.open(packed, "rb") as file, open(path, "wb") as plain:
        shutil.copyfileobj(file, plain)
    return path


def check_plants(folder, headers, names, now):
    """Both a field more and a function less must be found, or the test could not fail."""
    planted = os.path.join(folder, "planted")
    for header in headers:
        target = os.path.join(planted, "tandem", header)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(header, encoding="utf-8") as file, open(target, "w", encoding="utf-8") as out:
            out.write(file.read().replace("typedef struct tdm_feed {\n",
                                          "typedef struct tdm_feed {\n  int planted;\n"))
    for what, include, kept in (("a field", planted, names),
                                ("a function", folder, [n for n in names if n != "tdm_run"])):
        inner = tempfile.mkdtemp(dir=folder)
        if not changes(folder, now, dump(inner, include, kept)):
            sys.exit(f"{what} was changed, and abidiff found nothing")


def main():
    """The exit status."""
    writing = "--write" in sys.argv
    if not all(map(shutil.which, ("abidw", "abidiff", "cc", "nm"))):
        print("skipped: abidiff is not here (tools/install_dependencies.sh --test)")
        return 1 if writing else 0
    files = [path for path in sys.argv[1:] if not path.startswith("--")]
    library = next(path for path in files if ".so." in path)
    headers = [path for path in files if path.endswith(".h")]
    with open("core/core.h", encoding="utf-8") as text:
        version = ".".join(VERSION.findall(text.read()))
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.getcwd(), os.path.join(folder, "tandem"))
        names = offered(library)
        now = dump(folder, folder, names)
        if writing:
            tree = os.path.join(os.environ["BUILD_WORKSPACE_DIRECTORY"], DUMPS)
            path = os.path.join(tree, version + ".xml.gz")
            with open(now, "rb") as file, open(path, "wb") as out, \
                    gzip.GzipFile("", "wb", 9, out, 0) as packed:
                packed.write(file.read())
            print(f"{path}: {len(names)} functions")
            return 0
        check_plants(folder, headers, names, now)
        dumps = glob.glob(DUMPS + "/*.xml.gz")
        released = max(dumps, key=lambda path: [int(n) for n in os.path.basename(path).split(".")
                                                if n.isdigit()])
        before = os.path.basename(released)[:-len(".xml.gz")]
        if soname_version(before) != soname_version(version):
            print(f"{version} breaks with {before}, openly: its SONAME is another")
            return 0
        found = changes(folder, unpack(folder, released), now)
        print(f"{version} is not what {before} was:\n{found}{WHAT_TO_DO}" if found else
              f"{len(names)} functions and their types are as in {before}, or new")
        return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
