#!/usr/bin/python3
"""Decompresses files.

    decompress.py FOLDER FILE.xz...

Writes each as FOLDER/FILE.
"""
import lzma
import os
import shutil
import sys


def main():
    folder = sys.argv[1]
    for path in sys.argv[2:]:
        name = os.path.basename(path).removesuffix(".xz")
        with lzma.open(path) as source, open(os.path.join(folder, name), "wb") as target:
            shutil.copyfileobj(source, target)


if __name__ == "__main__":
    main()
