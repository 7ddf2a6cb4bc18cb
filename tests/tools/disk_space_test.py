#!/usr/bin/python3
"""tools/disk_space.py requires space for parts that are not built yet, and none otherwise."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.getcwd(), "tools"))
import disk_space  # noqa: E402

ALL = ["plain", "toolkit", "asan_ubsan", "tsan"]


class DiskSpaceTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory()
        self.addCleanup(self.root.cleanup)
        self.base = os.path.join(self.root.name, "this")
        self.output = os.path.join(self.base, "execroot", "tandem", "bazel-out")
        os.makedirs(self.base)
        self.needed = disk_space.NEEDED_MB
        self.addCleanup(setattr, disk_space, "NEEDED_MB", self.needed)
        disk_space.NEEDED_MB = {"plain": ("-opt", 2), "asan_ubsan": ("-asan_ubsan", 4),
                                "tsan": ("-tsan", 3)}

    def write(self, path, megabytes):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as handle:
            handle.write(b"x" * (megabytes * 1000000 + 4096))

    def check(self, free_mb, configurations=ALL, apart=True):
        return disk_space.check(self.base, self.output, configurations, apart, free_mb)

    def test_nothing_built_wants_all(self):
        self.assertEqual(self.check(9), [])
        lines = self.check(8)
        self.assertIn("has 8 MB free", lines[0])
        self.assertIn("about 9 MB (plain, toolkit, asan_ubsan, tsan)", lines[0])

    def test_a_configuration_alone_wants_its_own(self):
        self.assertEqual(self.check(2, ["plain"]), [])
        self.assertIn("about 2 MB (plain)", self.check(1, ["plain"])[0])

    def test_sandboxes_on_the_same_disk_want_room_too(self):
        self.assertEqual(self.check(9 + disk_space.AT_WORK_MB, apart=False), [])
        self.assertNotEqual(self.check(8 + disk_space.AT_WORK_MB, apart=False), [])

    def test_what_is_built_counts(self):
        self.write(os.path.join(self.output, "k8-fastbuild-asan_ubsan", "bin", "a"), 3)
        self.assertEqual(self.check(6), [])
        self.assertIn("about 6 MB", self.check(5)[0])

    def test_a_warm_tree_wants_nothing(self):
        self.write(os.path.join(self.output, "k8-opt", "bin", "a"), 3)
        self.write(os.path.join(self.output, "k8-fastbuild-asan_ubsan", "bin", "a"), 4)
        self.write(os.path.join(self.output, "k8-fastbuild-tsan", "bin", "a"), 5)
        self.assertEqual(self.check(0), [])

    def test_more_than_is_needed_of_one_is_no_room_for_another(self):
        self.write(os.path.join(self.output, "k8-opt", "bin", "a"), 9)
        self.assertIn("about 7 MB", self.check(6)[0])

    def test_what_can_go_is_told(self):
        self.write(os.path.join(self.output, "k8-opt", "bin", "a"), 1)
        self.write(os.path.join(self.output, "k8-fastbuild-fuzz", "bin", "a"), 2)
        for name, tree in (("gone", "/nonexistent/tree"), ("other", self.root.name)):
            self.write(os.path.join(self.root.name, name, "execroot", "b"), 3)
            with open(os.path.join(self.root.name, name, "DO_NOT_BUILD_HERE"), "w",
                      encoding="utf-8") as handle:
                handle.write(tree)
        text = "\n".join(self.check(1))
        self.assertRegex(text, r" 2 MB  \S+/k8-fastbuild-fuzz ")
        self.assertNotIn("k8-opt", text)
        self.assertRegex(text, r" 3 MB  \S+/gone \(of /nonexistent/tree, which is gone\)")
        self.assertRegex(text, r" 3 MB  \S+/other \(of \S+, `bazel clean` there\)")

    def test_nothing_is_added_to_what_bazel_refuses(self):
        """Like a tree whose path contains a space."""
        with open(os.path.join(self.root.name, "bazel"), "w", encoding="utf-8") as refusing:
            refusing.write("#!/bin/sh\necho refused >&2\nexit 36\n")
        os.chmod(refusing.name, 0o755)
        done = subprocess.run([sys.executable, disk_space.__file__, "plain"], check=False,
                              text=True, env={"PATH": self.root.name + ":/usr/bin:/bin"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((done.returncode, done.stdout), (1, "refused\n"))


if __name__ == "__main__":
    unittest.main()
