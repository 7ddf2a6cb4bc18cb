#!/usr/bin/python3
"""A rehearsal of tools/gpu_check: packed with the emulated driver, unpacked in a root that has only
glibc and Python of this system, and run there."""
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

HERE = os.getcwd()
PACK = os.path.join(HERE, "tools", "gpu_check_pack.py")
PROGRAM = os.path.join(HERE, "tests", "gpu", "emulated_programs")
# One of each part, the quick ones: this rehearses the check, the tests themselves run elsewhere.
ITEMS = ["conformance.conformance_memory_cuda0_test", "golden.golden_models_cuda_test",
         "random.update_groups_cuda_test", "parallel.comm_cuda_test", "checkpoints", "char_lm",
         "recommender", "transfer", "families.elementwise",
         "memcheck.conformance_memory_cuda0_test", "initcheck.conformance_memory_cuda0_test"]
# Takes compute-sanitizer's options and runs the program, where the real one would watch it.
SANITIZER = """#!/bin/sh
[ "$1" = --tool ] && [ "$3" = --error-exitcode ] || exit 2
[ "$5 $6" = "--target-processes application-only" ] || exit 2
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
"""


def libraries_of(path):
    told = subprocess.run(["ldd", path], stdout=subprocess.PIPE, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", told)


def copy_into(root, path):
    """Copies a file, and its libraries, to the same places below root."""
    for source in [path] + libraries_of(path):
        target = root + source
        if os.path.exists(target):
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target)


def make_root(root):
    """glibc, a shell, Python and its own modules; no library that Tandem is linked with beyond."""
    for path in (sys.executable, "/bin/sh", "/bin/true"):
        copy_into(root, os.path.realpath(path))
    os.symlink(os.path.realpath(sys.executable), root + "/python3")
    if not os.path.exists(root + "/bin"):
        os.makedirs(root + "/bin")
    if not os.path.exists(root + "/bin/sh"):
        os.symlink(os.path.realpath("/bin/sh"), root + "/bin/sh")
    modules = sysconfig.get_paths()["stdlib"]
    shutil.copytree(modules, root + modules, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("__pycache__", "test", "idlelib", "tkinter",
                                                  "site-packages", "dist-packages", "ensurepip"))
    dynamic = os.path.join(modules, "lib-dynload")
    for name in os.listdir(dynamic):
        for library in libraries_of(os.path.join(dynamic, name)):
            copy_into(root, library)
    for folder in ("proc", "dev", "tmp", "tools"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    with open(root + "/tools/compute-sanitizer", "w", encoding="utf-8") as handle:
        handle.write(SANITIZER)
    os.chmod(root + "/tools/compute-sanitizer", 0o755)


class Rehearsal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        cls.root = os.path.join(cls.folder, "root")
        make_root(cls.root)
        packed = os.path.join(cls.root, "gpu_check")
        subprocess.run([sys.executable, PACK, "--program", PROGRAM, "--source", HERE, "--out",
                        packed, "--preset", "0"], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_there(self, *words):
        """Returns (exit code, output, results) of gpu_check/run in the bare root."""
        begin = ("mount --rbind /proc {0}/proc && mount --rbind /dev {0}/dev && exec chroot {0} "
                 "/python3 /gpu_check/run {1}").format(self.root, " ".join(words))
        done = subprocess.run(["unshare", "-rm", "/bin/sh", "-c", begin], text=True,
                              env={"PATH": "/tools:/usr/bin:/bin:/usr/sbin:/sbin", "TMPDIR": "/tmp",
                                   "TANDEM_STAGING_BYTES": "268435456"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        path = os.path.join(self.root, "gpu_check", "results", "results.json")
        results = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as handle:
                results = json.load(handle)["results"]
        return done.returncode, done.stdout, results

    def test_a_part_of_each_sort(self):
        code, printed, results = self.run_there(*ITEMS)
        self.assertEqual(code, 0, printed)
        self.assertEqual(len(results), len(ITEMS), printed)
        self.assertEqual({one["verdict"] for one in results}, {"passed"}, printed)
        with open(os.path.join(self.root, "gpu_check/results/bench/results",
                               "emulated_at_0000_00_00_0_driver_13000.md"),
                  encoding="utf-8") as handle:
            self.assertIn("A rehearsal: this GPU is emulated", handle.read())

    def test_time_that_is_up(self):
        code, printed, results = self.run_there("kernels", "--deadline", "5")
        self.assertEqual(code, 1, printed)
        self.assertEqual(results[0]["detail"], "time is up", printed)

    def test_what_is_not_there(self):
        code, printed, results = self.run_there("job_beside_pytorch", "kernels.nothing")
        self.assertEqual(code, 2, printed)
        self.assertIn("there is no part or item kernels.nothing", printed)
        code, printed, results = self.run_there("job_beside_pytorch")
        self.assertEqual((code, results[0]["verdict"]), (1, "failed"), printed)
        self.assertIn("no PyTorch", results[0]["detail"])


if __name__ == "__main__":
    unittest.main()
