#!/usr/bin/python3
"""Packs the one program of //tests/gpu with all it needs into a folder of two files, packed.tar.xz
and run, which a machine without Bazel and without this system's libraries can use.

    gpu_check_pack.py --program PROGRAM --source TREE --out FOLDER [--version WORDS]

Missing data (word lists, Fashion-MNIST) is omitted with a message; its items fail on the machine.
"""
import argparse
import gzip
import lzma
import os
import random
import re
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile

MOST_BYTES = 40 << 20
WORDS = "/usr/share/dict"
LISTS = ["american-english", "french", "ngerman", "spanish", "italian", "dutch", "portuguese",
         "swedish"]
FASHION = "/usr/share/datasets/fashion-mnist"
IMAGES = {"train": 12000, "t10k": 2000}
CHARACTERS = 400000
# Libraries of glibc, of which each machine has this version or a newer one, and of the driver.
SYSTEM = re.compile(r"(libc|libm|libpthread|libdl|librt|libcuda)\.so\.|ld-linux")


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--source", required=True, help="the tree: bench/, tests/golden/, tools/")
    parser.add_argument("--out", required=True)
    parser.add_argument("--version", default="unknown")
    parser.add_argument("--preset", type=int, default=9, help="xz's (9)")
    return parser.parse_args()


def copy_program(program, work):
    """Copies the program, its links and the libraries with which it is linked."""
    for folder in ("bin", "lib"):
        os.makedirs(os.path.join(work, folder))
    target = os.path.join(work, "bin", "programs")
    shutil.copy(program, target)
    os.chmod(target, 0o755)
    names = subprocess.run([target], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    for name in names:
        os.symlink("programs", os.path.join(work, "bin", name))
    needed = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    for name, path in re.findall(r"^\t(\S+) => (/\S+) ", needed, re.MULTILINE):
        if not SYSTEM.match(name):
            shutil.copy(path, os.path.join(work, "lib", name))
    return names


def copy_golden(source, target):
    os.makedirs(target)
    for name in os.listdir(source):
        path = os.path.join(source, name)
        if name.endswith(".safetensors"):
            shutil.copy(path, target)
        elif name.endswith(".safetensors.xz"):
            with lzma.open(path) as compressed, \
                    open(os.path.join(target, name[:-len(".xz")]), "wb") as file:
                shutil.copyfileobj(compressed, file)


def copy_scripts(source, work):
    for folder in ("bench", os.path.join("bench", "peers")):
        os.makedirs(os.path.join(work, folder), exist_ok=True)
        for name in os.listdir(os.path.join(source, folder)):
            if name.endswith(".py"):
                shutil.copy(os.path.join(source, folder, name), os.path.join(work, folder))
    for folder in ("data", "models"):
        copy_golden(os.path.join(source, "tests", "golden", folder),
                    os.path.join(work, "tests", "golden", folder))
    shutil.copy(os.path.join(source, "tools", "gpu_check_parts.py"), work)


def copy_words(work):
    """The lists, and a text of words drawn from the first, for who learns to write."""
    os.makedirs(os.path.join(work, "words"))
    missing = [name for name in LISTS if not os.path.exists(os.path.join(WORDS, name))]
    for name in LISTS:
        if name not in missing:
            shutil.copy(os.path.join(WORDS, name), os.path.join(work, "words", name))
    if LISTS[0] in missing:
        return missing
    with open(os.path.join(WORDS, LISTS[0]), encoding="utf-8") as handle:
        words = [word for word in handle.read().split() if word.isascii() and word.isalpha()]
    draw = random.Random(1)
    with open(os.path.join(work, "text"), "w", encoding="utf-8") as handle:
        written = 0
        while written < CHARACTERS:
            line = " ".join(draw.choice(words) for _ in range(12)) + ".\n"
            written += handle.write(line)
    return missing


def cut_idx(name, count, work):
    """The first count entries of one of Fashion-MNIST's files."""
    with gzip.open(os.path.join(FASHION, name)) as handle:
        magic, total = struct.unpack(">II", handle.read(8))
        head = handle.read(4 * ((magic & 0xFF) - 1))
        one = 1
        for (length,) in struct.iter_unpack(">I", head):
            one *= length
        count = min(count, total)
        body = handle.read(count * one)
    with gzip.GzipFile(os.path.join(work, "fashion", name), "wb", mtime=0) as out:
        out.write(struct.pack(">II", magic, count) + head + body)


def copy_fashion(work):
    if not os.path.isdir(FASHION):
        return ["fashion-mnist"]
    os.makedirs(os.path.join(work, "fashion"))
    for which, count in IMAGES.items():
        cut_idx("%s-images-idx3-ubyte.gz" % which, count, work)
        cut_idx("%s-labels-idx1-ubyte.gz" % which, count, work)
    return []


def pack(work, path, preset):
    """A window as large as all of it, so that what is twice in it is packed once."""
    total = sum(os.lstat(os.path.join(root, name)).st_size
                for root, _, names in os.walk(work) for name in names)
    window = 1 << max(20, min(28, total.bit_length()))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": window}]

    def plain(info):
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info
    with lzma.open(path, "wb", filters=filters) as packed:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name in sorted(os.listdir(work)):
                tar.add(os.path.join(work, name), name, filter=plain)


def main():
    given = read_arguments()
    with tempfile.TemporaryDirectory() as work:
        names = copy_program(given.program, work)
        copy_scripts(given.source, work)
        missing = copy_words(work) + copy_fashion(work)
        with open(os.path.join(work, "version"), "w", encoding="utf-8") as handle:
            handle.write(given.version + "\n")
        shutil.rmtree(given.out, ignore_errors=True)
        os.makedirs(given.out)
        pack(work, os.path.join(given.out, "packed.tar.xz"), given.preset)
    run = os.path.join(given.out, "run")
    shutil.copy(os.path.join(given.source, "tools", "gpu_check_run.py"), run)
    os.chmod(run, os.stat(run).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    size = sum(os.path.getsize(os.path.join(given.out, name)) for name in os.listdir(given.out))
    if missing:
        print("not on this machine, and left out: " + ", ".join(missing))
    print("%s: %d programs, %d KiB" % (given.out, len(names), size >> 10))
    if size > MOST_BYTES:
        sys.exit("%s has %d bytes, more than %d" % (given.out, size, MOST_BYTES))


if __name__ == "__main__":
    main()
