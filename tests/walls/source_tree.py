"""Reads the files of the working tree."""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
C_ENDINGS = (".c", ".h", ".inc", ".cu", ".cuh")
TEXT_ENDINGS = C_ENDINGS + (".bzl", ".py", ".sh", ".md", "BUILD", "WORKSPACE", ".bazel", ".bazelrc")


def read_file(path):
    """Returns the text of a file, by its path from the root."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as handle:
        return handle.read()


def read_files(endings):
    """Yields (path from the root, text) for each file with one of these endings."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "bazel-", "__pycache__")))
        for name in sorted(names):
            if name.endswith(endings):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                yield path, read_file(path)


def verdict(complaints, files_count):
    """Prints the complaints and returns the exit status. Fails also if no file was read."""
    for complaint in complaints:
        print(complaint)
    print("%d files, %d complaints" % (files_count, len(complaints)))
    return 1 if complaints or files_count == 0 else 0
