#!/usr/bin/python3
"""tools/gpu_check_run.py passes only when everything ran: what fails, is missing, or cannot run
here makes it end with 1 and is named in the report."""
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
RUN = os.path.join(os.getcwd(), "tools", "gpu_check_run.py")
sys.path.insert(0, os.path.dirname(RUN))
from gpu_check_run import REQUIRED_TESTS  # noqa: E402

GOOD = "#!/bin/sh\necho '[  PASSED  ] 3 test(s).'\n"
BAD = "#!/bin/sh\necho '[  FAILED  ] 1 test(s)'\nexit 1\n"
SILENT = "#!/bin/sh\nexit 0\n"
WITH_GPU = "#!/bin/sh\necho 'GPU: Emulated 9000 (X)'\n"
WITHOUT_GPU = "#!/bin/sh\necho 'transfer: there is no cuda:0: no driver'\nexit 1\n"


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))

    def tearDown(self):
        shutil.rmtree(self.folder)

    def pack(self, files):
        """A folder as tools/gpu_check makes it, of these programs: path -> text."""
        shutil.copy(RUN, os.path.join(self.folder, "run"))
        content = os.path.join(self.folder, "content")
        for path, text in files.items():
            full = os.path.join(content, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as handle:
                handle.write(text)
            os.chmod(full, 0o755)
        with tarfile.open(os.path.join(self.folder, "packed.tar.xz"), "w:xz") as packed:
            packed.add(content, ".")
        shutil.rmtree(content)

    def files(self, transfer=WITH_GPU, **tests):
        """A complete package whose tests pass but for those given."""
        texts = dict({name: GOOD for name in REQUIRED_TESTS}, **tests)
        texts = {name: text for name, text in texts.items() if text}
        files = {"tests/" + name: text for name, text in texts.items()}
        return dict(files, **{"bin/transfer": transfer, "tests.list": "\n".join(texts),
                              "version": "1234\n"})

    def run_it(self, *parts):
        """(exit code, what it printed, the report)."""
        out = os.path.join(self.folder, "out")
        done = subprocess.run([sys.executable, os.path.join(self.folder, "run")] + list(parts),
                              env={"OUT": out, "PATH": "/usr/bin:/bin"}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        reports = os.path.join(out, "bench", "results")
        report = ""
        if os.path.isdir(reports):
            name, = os.listdir(reports)
            with open(os.path.join(reports, name), encoding="utf-8") as handle:
                report = name + "\n" + handle.read()
        return done.returncode, done.stdout, report

    def test_all_is_well(self):
        self.pack(self.files())
        code, printed, report = self.run_it("tests")
        self.assertEqual(code, 0, printed)
        self.assertTrue(report.startswith("emulated_9000_x.md\n# Emulated 9000 (X)"), report)
        self.assertIn("| device_kernels_gpu_test | passed | 3 |", report)
        self.assertNotIn("Failed", report)

    def test_a_test_that_fails(self):
        self.pack(self.files(device_kernels_gpu_test=BAD))
        code, printed, report = self.run_it("tests")
        self.assertEqual(code, 1)
        self.assertIn("FAILED: device_kernels_gpu_test ended with 1", printed)
        self.assertIn("- device_kernels_gpu_test ended with 1", report)

    def test_a_test_that_ran_nothing(self):
        self.pack(self.files(device_kernels_gpu_test=SILENT))
        self.assertEqual(self.run_it("tests")[0], 1)

    def test_a_test_that_is_missing(self):
        self.pack(self.files(device_kernels_gpu_test=None))
        code, _, report = self.run_it("tests")
        self.assertEqual(code, 1)
        self.assertIn("device_kernels_gpu_test is not in the package", report)

    def test_no_gpu(self):
        self.pack(self.files(transfer=WITHOUT_GPU))
        code, printed, report = self.run_it("tests")
        self.assertEqual(code, 1)
        self.assertIn("tests: not run: no GPU (transfer: there is no cuda:0: no driver)", printed)
        self.assertTrue(report.startswith("no_gpu.md\n"), report)

    def test_a_benchmark_that_fails(self):
        self.pack(dict(self.files(), **{"bench/overhead.py": "raise SystemExit('no PyTorch')"}))
        code, printed, _ = self.run_it("overhead")
        self.assertEqual(code, 1)
        self.assertIn("overhead ended with 1: no PyTorch", printed)

    def test_a_part_that_does_not_exist(self):
        self.pack(self.files())
        code, printed, _ = self.run_it("everything")
        self.assertEqual(code, 2)
        self.assertIn("there is no part everything", printed)


if __name__ == "__main__":
    unittest.main()
