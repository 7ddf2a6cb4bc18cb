#!/usr/bin/env python3
"""Checks and measures Tandem on a machine with a GPU, from the folder that tools/gpu_check packed.

    gpu_check/run                      all parts
    gpu_check/run tests sanitizer      only these

Writes bench/results/GPU.md, transfer.json and log.txt under $OUT, or under results/ here. Ends with
1 unless every part asked for was run and passed: what is missing here is no success.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOPICS = ["copy", "faults", "memory", "queue", "tensor"]
REQUIRED_TESTS = (["conformance_%s_gpu%d_test" % (topic, index)
                   for topic in TOPICS for index in (0, 1)] +
                  ["random_graphs_gpu_test", "device_kernels_gpu_test"])
SANITIZED = re.compile(r"(conformance_(copy|memory|queue|tensor)_gpu0|device_kernels_gpu)_test$")
LANGUAGES = [("english", "american-english"), ("french", "french"), ("german", "ngerman"),
             ("spanish", "spanish"), ("italian", "italian"), ("dutch", "dutch"),
             ("portuguese", "portuguese"), ("swedish", "swedish")]
MIXED = "embedding=cpu:0,*=cuda:0"


class Check:
    """What is known of this machine, and what the parts had to say."""

    def __init__(self, folder, out):
        self.folder = folder  # unpacked
        self.out = out
        self.failures = []
        self.sections = []  # of the report
        self.log = open(os.path.join(out, "log.txt"), "w", encoding="utf-8")
        self.gpu, self.why_none = None, ""
        self.environment = dict(os.environ, TANDEM_CUDA_LOGICAL="2", TEST_TMPDIR=tempfile.mkdtemp())
        libraries = self.find_cublas()
        if libraries:
            self.environment["LD_LIBRARY_PATH"] = libraries

    def say(self, text):
        print(text, flush=True)
        self.log.write(text + "\n")
        self.log.flush()

    def fail(self, what):
        self.failures.append(what)
        self.say("FAILED: " + what)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def run(self, words, timeout_s, **environment):
        """(exit code, output); 124 when it took too long."""
        began = time.monotonic()
        merged = dict(self.environment, **environment)
        self.log.write("$ %s\n" % " ".join(words))
        try:
            done = subprocess.run(words, env=merged, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=timeout_s, check=False,
                                  errors="replace")
            code, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            code = 124
            partial = late.stdout or b""
            if isinstance(partial, bytes):
                partial = partial.decode(errors="replace")
            output = partial + "\n(timed out)\n"
        self.log.write("%s\n-> %d in %.1f s\n" % (output, code, time.monotonic() - began))
        self.log.flush()
        return code, output

    def find_cublas(self):
        """The folder of a cuBLAS that the loader would not find by itself, or None."""
        roots = [os.path.join(path, "nvidia") for path in sys.path] + ["/usr/local/cuda"]
        for root in roots:
            for place in ("cublas/lib", "cu13/lib", "lib64"):
                folder = os.path.join(root, place)
                if os.path.isdir(folder) and any(name.startswith("libcublas.so.")
                                                 for name in os.listdir(folder)):
                    return folder
        return None

    def look_for_gpu(self):
        """A GPU is there when the library can copy to it."""
        code, output = self.run([self.path("bin", "transfer"), "--device", "cpu:0,cuda:0", "--case",
                                 "host_to_device", "--memory", "pinned", "--sizes", "64K",
                                 "--samples", "3"], 120)
        found = re.search(r"^GPU: (.*)$", output, re.MULTILINE)
        if code == 0 and found:
            self.gpu = found.group(1)
        else:
            self.why_none = output.strip().splitlines()[-1] if output.strip() else "no output"


# ---- Parts: each answers nothing, and tells its failures

def run_test(check, name, words, timeout_s):
    code, output = check.run(words + [check.path("tests", name)], timeout_s)
    passed = re.search(r"\[  PASSED  \] (\d+) test", output)
    if code != 0 or not passed:
        check.fail("%s%s ended with %d" % (" ".join(words[:3]) + " " if words else "", name, code))
        return "failed", "-"
    return "passed", passed.group(1)


def part_tests(check):
    """The conformance suite, the kernels' cases and random graphs, on the real driver."""
    rows = ["| test | | cases |", "|---|---|---:|"]
    with open(check.path("tests.list"), encoding="utf-8") as handle:
        names = handle.read().split()
    for missing in sorted(set(REQUIRED_TESTS) - set(names)):
        check.fail("%s is not in the package" % missing)
        rows.append("| %s | missing | |" % missing)
    for name in names:
        rows.append("| %s | %s | %s |" % ((name,) + run_test(check, name, [], 300)))
    check.sections.append("## Tests\n\nTwo logical devices of one GPU.\n\n" + "\n".join(rows))


def find_sanitizer():
    known = "/usr/local/cuda/bin/compute-sanitizer"
    return shutil.which("compute-sanitizer") or (known if os.path.exists(known) else None)


def part_sanitizer(check):
    """compute-sanitizer's memcheck and racecheck over the same tests."""
    sanitizer = find_sanitizer()
    if not sanitizer:
        check.fail("compute-sanitizer is not installed")
        return
    rows = ["| test | memcheck | racecheck |", "|---|---|---|"]
    for name in sorted(filter(SANITIZED.match, os.listdir(check.path("tests")))):
        verdicts = [run_test(check, name, [sanitizer, "--tool", tool, "--error-exitcode", "99"],
                             600)[0] for tool in ("memcheck", "racecheck")]
        rows.append("| %s | %s | %s |" % (name, verdicts[0], verdicts[1]))
    check.sections.append("## compute-sanitizer\n\n" + "\n".join(rows))


def word_options(check):
    options = []
    for language, name in LANGUAGES:
        options += ["--words", "%s=%s" % (language, check.path("words", name))]
    return options


def section(check, title, what, code, output):
    """The output of a benchmark as a section; its failure as one."""
    if code != 0:
        check.fail("%s ended with %d: %s" % (what, code, output.strip()[-300:]))
    check.sections.append("## %s\n\n```\n%s\n```" % (title, output.strip()))


def part_job(check):
    """The main job on cpu:0 and cuda:0, PyTorch beside it on the same two, in turns."""
    words = [sys.executable, check.path("bench", "main_job.py"), "--program",
             check.path("bin", "distributed_model"), "--peer",
             check.path("bench", "peers", "main_job.py"), "--seeds", "2", "--threads",
             str(min(8, os.cpu_count()))] + word_options(check)
    if check.gpu:
        words += ["--place", MIXED, "--peer-accelerator", "cuda:0"]
    section(check, "Main job", "the main job", *check.run(words, 560, TANDEM_CUDA_LOGICAL="1"))


def part_overhead(check):
    """What runs cost beside their arithmetic, PyTorch beside it."""
    words = [sys.executable, check.path("bench", "overhead.py"), "--program",
             check.path("bin", "overhead_rows"), "--peer",
             check.path("bench", "peers", "overhead.py"), "--rounds", "2"]
    section(check, "Overhead", "overhead", *check.run(words, 560, TANDEM_CUDA_LOGICAL="1"))


def part_transfer(check):
    """Copies beside the driver's own, and the models' transfers beside their prediction."""
    words = [check.path("bin", "transfer"), "--json", os.path.join(check.out, "transfer.json")]
    words += ["--device", "cpu:0,cuda:0"] if check.gpu else ["--sizes", "1K,64K,1M,16M"]
    section(check, "Transfers", "transfer", *check.run(words, 580, TANDEM_CUDA_LOGICAL="1"))
    words = [check.path("bin", "transfer"), "--model", "--calibrate", "--json",
             os.path.join(check.out, "models.json")] + word_options(check)
    section(check, "Transfers of models", "transfer --model",
            *check.run(words, 300, TANDEM_CUDA_LOGICAL="1", TANDEM_LINKS="off"))


PARTS = {"tests": (part_tests, True), "sanitizer": (part_sanitizer, True), "job": (part_job, False),
         "overhead": (part_overhead, False), "transfer": (part_transfer, False)}


# ---- All of it

def write_report(check, version):
    folder = os.path.join(check.out, "bench", "results")
    os.makedirs(folder, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "_", (check.gpu or "no GPU").lower()).strip("_")
    path = os.path.join(folder, name + ".md")
    head = ["# %s, %d cores, %s" % (check.gpu or "No GPU", os.cpu_count(),
                                   time.strftime("%Y-%m-%d", time.gmtime())),
            "", "Written by gpu_check, of version %s." % version, ""]
    verdict = ["Failed, or not run:", ""] + ["- " + text for text in check.failures] + [""]
    with open(path, "w", encoding="utf-8") as handle:
        handle.write("\n".join(head + (verdict if check.failures else []) +
                               ["\n\n".join(check.sections)]) + "\n")
    return path


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="of: " + ", ".join(PARTS))
    given = parser.parse_args()
    unknown = [name for name in given.parts if name not in PARTS]
    if unknown:
        parser.error("there is no part %s; there are %s" % (unknown[0], ", ".join(PARTS)))
    return given


def run_parts(check, names):
    for name in names:
        part, needs_gpu = PARTS[name]
        check.say("---- %s: %s" % (name, part.__doc__.splitlines()[0]))
        if needs_gpu and not check.gpu:
            check.fail("%s: not run: no GPU (%s)" % (name, check.why_none))
            continue
        count = len(check.failures)
        part(check)
        check.say("%s: %s" % (name, "passed" if len(check.failures) == count else "failed"))


def main():
    given = read_arguments()
    out = os.environ.get("OUT") or os.path.join(HERE, "results")
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(os.path.join(HERE, "packed.tar.xz")) as packed:
            packed.extractall(folder)
        os.environ["TANDEM_PEER_PYTHON"] = sys.executable
        check = Check(folder, out)
        check.look_for_gpu()
        check.say("GPU: %s" % (check.gpu or "none: " + check.why_none))
        run_parts(check, given.parts or list(PARTS))
        if not check.gpu:
            check.fail("figures of the other parts are of no GPU")
        with open(check.path("version"), encoding="utf-8") as handle:
            version = handle.read().strip()
        check.say("report: " + write_report(check, version))
        shutil.rmtree(check.environment["TEST_TMPDIR"], ignore_errors=True)
        check.say("%d failures" % len(check.failures))
        return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
