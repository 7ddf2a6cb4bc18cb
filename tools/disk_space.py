#!/usr/bin/python3
"""Whether the disk has room for what ./run_tests writes: disk_space.py CONFIGURATION...

Compares what each configuration writes into Bazel's output base with what it already has there. A
tree that is completely built needs hardly any more space. If there is too little, prints what is
missing and what can be removed, and exits with 1. `--sandboxes-apart`: sandboxes are on another
disk.
"""
import os
import shutil
import subprocess
import sys

# MB that a build of everything writes, by the end of the folder's name in bazel-out, measured
# after ./run_tests. Nine tenths of it count as all.
NEEDED_MB = {
    "plain": ("-opt", 1100),
    "asan_ubsan": ("-asan_ubsan", 2600),
    "tsan": ("-tsan", 1000),
}
# Space for sandboxes, logs and files of tests.
AT_WORK_MB = 500


def folder_mb(folder):
    """Returns the bytes that the files of a folder use on its disk, without following links."""
    blocks = 0
    for parent, folders, files in os.walk(folder, onerror=lambda error: None):
        for name in folders + files:
            try:
                blocks += os.lstat(os.path.join(parent, name)).st_blocks
            except FileNotFoundError:
                pass
    return blocks * 512 // 1000000


def built_folder(output_path, suffix):
    """The folder of a configuration in bazel-out, or None."""
    for name in sorted(os.listdir(output_path)) if os.path.isdir(output_path) else []:
        if name.endswith(suffix):
            return os.path.join(output_path, name)
    return None


def wanted_mb(output_path, configurations, sandboxes_apart):
    """Returns the MB that are still to be written, and the folders for them."""
    wanted = 0 if sandboxes_apart else AT_WORK_MB
    kept = set()
    for configuration in configurations:
        if configuration not in NEEDED_MB:
            continue
        suffix, needed = NEEDED_MB[configuration]
        folder = built_folder(output_path, suffix)
        kept.add(folder)
        built = folder_mb(folder) if folder else 0
        wanted += needed - built if built < 0.9 * needed else 0
    return wanted, kept


def removable(output_base, output_path, kept):
    """Yields what could go, a line each: folders of other configurations, then of other trees."""
    for name in sorted(os.listdir(output_path)) if os.path.isdir(output_path) else []:
        folder = os.path.join(output_path, name)
        if os.path.isdir(os.path.join(folder, "bin")) and folder not in kept:
            yield "%6d MB  %s (of another configuration)" % (folder_mb(folder), folder)
    parent = os.path.dirname(output_base)
    for name in sorted(os.listdir(parent)):
        folder = os.path.join(parent, name)
        note = os.path.join(folder, "DO_NOT_BUILD_HERE")
        if folder == output_base or not os.path.exists(note):
            continue
        with open(note, encoding="utf-8", errors="replace") as handle:
            tree = handle.read().strip()
        how = "`bazel clean` there" if os.path.isdir(tree) else "which is gone"
        yield "%6d MB  %s (of %s, %s)" % (folder_mb(folder), folder, tree, how)


def check(output_base, output_path, configurations, sandboxes_apart, free_mb):
    """Returns the lines of the report, none if there is enough space."""
    wanted, kept = wanted_mb(output_path, configurations, sandboxes_apart)
    if wanted <= free_mb:
        return []
    return ["%s has %d MB free; what is not built yet wants about %d MB (%s)" %
            (output_base, free_mb, wanted, ", ".join(configurations)),
            "can be removed:"] + list(removable(output_base, output_path, kept)) + [
                "        the disk cache, where a .bazelrc names one (--disk_cache)",
                "or Bazel can write elsewhere: bazel --output_user_root=DIR, as `startup` line of "
                "~/.bazelrc"]


def main():
    if "--help" in sys.argv[1:]:
        print(__doc__)
        return 0
    configurations = [name for name in sys.argv[1:] if not name.startswith("--")]
    info = subprocess.run(["bazel", "info", "output_base", "output_path"], check=False,
                          stdout=subprocess.PIPE, universal_newlines=True)
    if info.returncode:
        return 1  # Bazel has printed the reason
    paths = dict(line.split(": ", 1) for line in info.stdout.splitlines())
    output_base = paths["output_base"]
    free_mb = shutil.disk_usage(output_base).free // 1000000
    lines = check(output_base, paths["output_path"], configurations,
                  "--sandboxes-apart" in sys.argv[1:], free_mb)
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
