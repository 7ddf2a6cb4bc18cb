#!/usr/bin/python3
"""tools/gpu_check_run.py passes only if every requested check ran. A check that fails, is missing,
is too late or cannot run here makes it end with 1, and is named in the report."""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOLS = os.path.join(os.getcwd(), "tools")
GOOD = "#!/bin/sh\necho '[  PASSED  ] 3 test(s).'\n"
BAD = "#!/bin/sh\necho '[  FAILED  ] 1 test(s)'\nexit 1\n"
SILENT = "#!/bin/sh\nexit 0\n"
SLOW = "#!/bin/sh\nsleep 600 &\nsleep 600\n"
# Its children are of another process group, like those of compute-sanitizer.
SLOW_APART = "#!/bin/bash\nset -m\nsleep 600 &\necho $! >>$OUT/apart\nsleep 600\n"
TELLS_MUCH = ("#!/bin/sh\necho the beginning; yes 'an error, and where it was' | head -100000\n"
              "echo '[  PASSED  ] 1 test(s).'\n")
TELLS = "#!/bin/sh\necho \"[  PASSED  ] 1 test(s). $LD_LIBRARY_PATH\"\n"
WITH_GPU = "#!/bin/sh\necho 'GPU: Real 9000 (X)'\n"
WITHOUT_GPU = "#!/bin/sh\necho 'no GPU: there is no cuda:0: no driver'\nexit 1\n"
# Its first number is of the cpu, the others of the GPU.
MODEL = "#!/bin/sh\ncase \"$*\" in *'*=cpu:0'*) echo loss 0.5 ;; *) echo loss %s ;; esac\n"


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))

    def tearDown(self):
        shutil.rmtree(self.folder)

    def pack(self, look=WITH_GPU, **programs):
        """Creates a folder like tools/gpu_check with these programs: name -> text."""
        shutil.copy(os.path.join(TOOLS, "gpu_check_run.py"), os.path.join(self.folder, "run"))
        content = os.path.join(self.folder, "content")
        os.makedirs(os.path.join(content, "bin"))
        for name, text in dict(programs, look=look).items():
            path = os.path.join(content, "bin", name)
            with open(path, "w", encoding="utf-8") as handle:
                handle.write(text)
            os.chmod(path, 0o755)
        with open(os.path.join(content, "version"), "w", encoding="utf-8") as handle:
            handle.write("1234\n")
        shutil.copy(os.path.join(TOOLS, "gpu_check_parts.py"), content)
        with tarfile.open(os.path.join(self.folder, "packed.tar.xz"), "w:xz",
                          preset=0) as packed:
            packed.add(content, ".")
        shutil.rmtree(content)

    def run_it(self, *words, **environment):
        """Returns (exit code, output, the report, results)."""
        out = os.path.join(self.folder, "out")
        done = subprocess.run([sys.executable, os.path.join(self.folder, "run")] + list(words),
                              env=dict(environment, OUT=out, PATH="/usr/bin:/bin"), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        reports = os.path.join(out, "bench", "results")
        report, results = "", []
        if os.path.isdir(reports):
            name, = os.listdir(reports)
            with open(os.path.join(reports, name), encoding="utf-8") as handle:
                report = name + "\n" + handle.read()
            with open(os.path.join(out, "results.json"), encoding="utf-8") as handle:
                results = json.load(handle)["results"]
        return done.returncode, done.stdout, report, results

    def test_all_is_well(self):
        self.pack(device_kernels_cuda_test=GOOD)
        code, printed, report, results = self.run_it("kernels")
        self.assertEqual(code, 0, printed)
        self.assertTrue(report.startswith("real_9000_x.md\n# Real 9000 (X)"), report)
        self.assertIn("- device_kernels_cuda_test: passed, 3 cases", report)
        self.assertNotIn("Failed", report)
        self.assertEqual(len(results), 1)

    def test_a_report_that_cannot_be_written(self):
        self.pack(device_kernels_cuda_test=GOOD, resume_cuda_test=GOOD)
        out = os.path.join(self.folder, "out")
        os.makedirs(out)
        with open(os.path.join(out, "bench"), "w", encoding="utf-8"):
            pass  # where a folder should be
        code, printed, _, _ = self.run_it("kernels", "checkpoints")
        self.assertEqual(code, 1, printed)
        self.assertNotIn("2 of 2 passed", printed)

    def test_a_test_that_fails(self):
        self.pack(device_kernels_cuda_test=BAD, resume_cuda_test=GOOD)
        code, printed, report, results = self.run_it("kernels", "checkpoints")
        self.assertEqual(code, 1)
        self.assertIn("device_kernels_cuda_test ended with 1", printed)
        self.assertIn("- kernels.device_kernels_cuda_test: ", report)
        self.assertEqual([one["verdict"] for one in results], ["failed", "passed"])

    def test_a_test_that_ran_nothing(self):
        self.pack(device_kernels_cuda_test=SILENT)
        self.assertEqual(self.run_it("kernels")[0], 1)

    def test_a_test_that_is_missing(self):
        self.pack()
        code, printed, _, results = self.run_it("kernels")
        self.assertEqual((code, results[0]["verdict"]), (1, "failed"), printed)

    def test_a_test_that_does_not_end(self):
        """A slow test and its children are ended, and later tests are reported as not run."""
        self.pack(device_kernels_cuda_test=SLOW, resume_cuda_test=GOOD)
        # The first check begins if 20 s are left, which a busy machine may not reach.
        for deadline in "22", "40", "80":
            code, printed, report, results = self.run_it("kernels", "checkpoints",
                                                         "--deadline", deadline)
            if results[0]["detail"] != "time is up":
                break
        self.assertEqual(code, 1, printed)
        self.assertIn("ended with 124", results[0]["detail"])
        self.assertEqual(results[1]["detail"], "time is up")
        self.assertIn("- checkpoints.resume_cuda_test: time is up", report)

    def test_a_program_of_another_process_group_does_not_live_on(self):
        self.pack(device_kernels_cuda_test=SLOW_APART)
        self.run_it("kernels", "--limit", "1")
        with open(os.path.join(self.folder, "out", "apart"), encoding="utf-8") as handle:
            pid, = handle.read().split()
        state = "gone"
        if os.path.exists("/proc/%s/stat" % pid):
            with open("/proc/%s/stat" % pid, encoding="utf-8") as handle:
                state = handle.read().rpartition(")")[2].split()[0]
        self.assertIn(state, ("gone", "Z", "X"))

    def test_no_gpu(self):
        self.pack(look=WITHOUT_GPU, device_kernels_cuda_test=GOOD)
        code, printed, report, _ = self.run_it("kernels")
        self.assertEqual(code, 1)
        self.assertIn("no GPU (no GPU: there is no cuda:0: no driver)", printed)
        self.assertTrue(report.startswith("no_gpu.md\n"), report)

    def test_a_model_that_computes_something_else(self):
        self.pack(recommender=MODEL % "0.502")
        self.assertEqual(self.run_it("recommender")[0], 0)
        os.remove(os.path.join(self.folder, "packed.tar.xz"))
        self.pack(recommender=MODEL % "0.9")
        code, printed, _, _ = self.run_it("recommender")
        self.assertEqual(code, 1)
        self.assertIn("0.9 on the GPU, 0.5 on the cpu", printed)

    def test_libraries_that_were_found_already(self):
        """libcuda may be found only by LD_LIBRARY_PATH."""
        self.pack(device_kernels_cuda_test=TELLS)
        self.run_it("kernels", LD_LIBRARY_PATH="/driver/of/this/machine")
        with open(os.path.join(self.folder, "out", "log.txt"), encoding="utf-8") as handle:
            self.assertIn("/driver/of/this/machine", handle.read())

    def test_a_test_that_tells_much(self):
        self.pack(device_kernels_cuda_test=TELLS_MUCH)
        code, printed, _, _ = self.run_it("kernels")
        self.assertEqual(code, 0, printed)
        with open(os.path.join(self.folder, "out", "log.txt"), encoding="utf-8") as handle:
            log = handle.read()
        self.assertLess(len(log), 110000)
        self.assertIn("the beginning", log)
        self.assertIn("characters left out)", log)
        self.assertIn("[  PASSED  ] 1 test(s).", log)

    def test_an_item_that_does_not_exist(self):
        self.pack()
        code, printed, _, _ = self.run_it("everything")
        self.assertEqual(code, 2)
        self.assertIn("there is no part or item everything", printed)


if __name__ == "__main__":
    unittest.main()
