#!/usr/bin/env python3
"""Checks and measures Tandem on a machine with a GPU, from the folder that tools/gpu_check packed.

    gpu_check/run                                everything, until time is up
    gpu_check/run conformance kernels            these parts
    gpu_check/run memcheck.device_kernels_cuda_test --deadline 300
    gpu_check/run --list                         parts and their items

Writes bench/results/GPU.md, results.json and log.txt under $OUT, or under results/ here, anew after
every item: what has run is kept whatever happens. Ends with 1 unless every item asked for was run
and passed: what is missing here, or comes too late, is no success.
"""
import argparse
import concurrent.futures
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE_S = 510  # leaves 30 s of the 540 s that a command has
LOGGED = 50000  # characters of what a program prints that go into the log, from either end
sys.dont_write_bytecode = True


class Check:
    """The properties of this machine, and the results of the items."""

    def __init__(self, folder, out, deadline_s):
        self.folder = folder  # unpacked
        self.out = out
        self.ends = time.monotonic() + deadline_s
        self.results = []
        self.limits = {}  # limits of the GPU as measured by a peer
        self.log = open(os.path.join(out, "log.txt"), "w", encoding="utf-8")
        self.lock = threading.Lock()  # items that only test run beside each other
        self.gpu, self.why_none = None, ""
        self.rehearses = False
        self.scratch = tempfile.mkdtemp()
        self.environment = dict(os.environ, TANDEM_CUDA_LOGICAL="2")
        libraries = find_libraries()
        if libraries:
            libraries += [path for path in [os.environ.get("LD_LIBRARY_PATH")] if path]
            self.environment["LD_LIBRARY_PATH"] = ":".join(libraries)
        with open(self.path("version"), encoding="utf-8") as handle:
            self.version = handle.read().strip()

    def left_s(self):
        return self.ends - time.monotonic()

    def say(self, text):
        print(text, flush=True)
        self.write_log(text)

    def write_log(self, text):
        with self.lock:
            self.log.write(text + "\n")
            self.log.flush()

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def run(self, words, limit_s, **environment):
        """(exit code, output); 124 when it took too long, and then its children are ended too."""
        began = time.monotonic()
        if not os.path.exists(words[0]):
            return 127, "%s is not here" % words[0]
        environment = dict(self.environment, TEST_TMPDIR=tempfile.mkdtemp(dir=self.scratch),
                           **environment)
        self.write_log("> %s" % " ".join(words))  # the last of these, if it never ends
        with tempfile.TemporaryFile() as written:
            started = subprocess.Popen(words, env=environment,
                                       stdout=written, stderr=subprocess.STDOUT, cwd=self.folder,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
            try:
                code = started.wait(timeout=max(limit_s, 1))
            except subprocess.TimeoutExpired:
                end_session(started.pid)
                started.wait()
                code = 124
            written.seek(0)
            output = written.read().decode(errors="replace")
        if code == 124:
            output += "\n(ended after %.0f s)\n" % limit_s
        self.write_log("$ %s\n%s\n-> %d in %.1f s" % (" ".join(words), abridged(output), code,
                                                    time.monotonic() - began))
        return code, output

    def look_for_gpu(self):
        """A GPU is there when the library can copy to it and back."""
        code, output = self.run([self.path("bin", "look")], 120)
        found = re.search(r"^GPU: (.*)$", output, re.MULTILINE)
        if code == 0 and found:
            self.gpu = found.group(1)
            self.rehearses = self.gpu.startswith("emulated")
        else:
            self.why_none = output.strip().splitlines()[-1] if output.strip() else "no output"

    # ---- What was found

    def failures(self):
        return [result for result in self.results if result["verdict"] != "passed"]

    def add(self, item, verdict, seconds, detail):
        self.say("%-9s %s (%.1f s)%s" % (verdict, item.label(), seconds,
                                       "" if verdict == "passed" else ": " + detail))
        with self.lock:
            self.results.append({"part": item.part, "item": item.name, "verdict": verdict,
                                 "seconds": round(seconds, 1), "detail": detail})
            self.write()

    def write(self):
        """Whole files put in place of the old ones, so that none is ever half of one."""
        told = {"gpu": self.gpu, "version": self.version, "results": self.results}
        put(os.path.join(self.out, "results.json"), json.dumps(told, indent=1) + "\n")
        name = re.sub(r"[^a-z0-9]+", "_", (self.gpu or "no GPU").lower()).strip("_")
        put(os.path.join(self.out, "bench", "results", name + ".md"), self.report())

    def report(self):
        lines = ["# %s, %d cores, %s" % (self.gpu or "No GPU", os.cpu_count(),
                                       time.strftime("%Y-%m-%d", time.gmtime())), "",
                 "Written by gpu_check, of version %s." % self.version, ""]
        if self.rehearses:
            lines += ["A rehearsal: this GPU is emulated, and no figure is one of a GPU.", ""]
        if self.failures():
            lines += ["Failed, or not run:", ""]
            lines += ["- %s.%s: %s" % (one["part"], one["item"], one["detail"].splitlines()[0])
                      for one in self.failures()] + [""]
        for part in dict.fromkeys(result["part"] for result in self.results):
            lines += ["## " + part, ""]
            for one in self.results:
                if one["part"] != part:
                    continue
                if "\n" in one["detail"]:
                    lines += ["%s, %s:" % (one["item"], one["verdict"]), "", "```", one["detail"],
                              "```"]
                else:
                    lines.append("- %s: %s, %s, %.1f s" % (one["item"], one["verdict"],
                                                         one["detail"], one["seconds"]))
            lines.append("")
        return "\n".join(lines)


def abridged(output):
    """Its beginning and its end: what watches memory may print megabytes, with which the log would
    be more than comes back from a machine."""
    left_out = len(output) - 2 * LOGGED
    if left_out <= 0:
        return output
    return "%s\n(%d characters left out)\n%s" % (output[:LOGGED], left_out, output[-LOGGED:])


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as handle:
        handle.write(text)
    os.replace(path + ".new", path)


def keep_gpu_open():
    """Keeps the GPU open. Without persistence mode the driver closes a GPU that no process uses,
    and every program would first wait some seconds until it is ready again."""
    try:
        ctypes.CDLL("libcuda.so.1").cuInit(0)
    except OSError:
        pass  # no driver: a rehearsal


def session_of(pid):
    """The session that a process is of; None: it is gone, or is over."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as handle:
            state, _, _, session = handle.read().rpartition(")")[2].split()[:4]
    except OSError:
        return None
    return None if state in "ZX" else int(session)


def end_session(leader):
    """Ends all processes of a session. compute-sanitizer gives what it watches a process group of
    its own, in which the program would live on, and keep the GPU, when its own one is ended."""
    for _ in range(50):
        left = [int(name) for name in os.listdir("/proc")
                if name.isdigit() and session_of(int(name)) == leader]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def find_libraries():
    """The folders of a cuBLAS and of an NCCL that the loader would not find by itself."""
    roots = [os.path.join(path, "nvidia") for path in sys.path] + ["/usr/local/cuda"]
    folders = []
    for library, places in (("libcublas.so.", ("cu13/lib", "cublas/lib", "lib64")),
                            ("libnccl.so.", ("nccl/lib", "lib64"))):
        found = [os.path.join(root, place) for root in roots for place in places]
        found = [folder for folder in found if os.path.isdir(folder) and
                 any(name.startswith(library) for name in os.listdir(folder))]
        folders += [folder for folder in found[:1] if folder not in folders]
    return folders


def run_items(check, items, given, failed):
    """Runs the items in order. Consecutive items of one kind run concurrently, unless timed."""
    while items:
        alone = items[0].alone
        count = 1 if alone else next((i for i, item in enumerate(items) if item.alone), len(items))
        with concurrent.futures.ThreadPoolExecutor(1 if alone else given.jobs) as pool:
            for item in items[:count]:
                item.limit_s = min(item.limit_s, given.limit)
            # Raises an exception that an item did not report itself.
            list(pool.map(lambda item: run_item(check, item, failed), items[:count]))
        items = items[count:]


def run_item(check, item, failed):
    began = time.monotonic()
    if item.needs_gpu and not check.gpu:
        check.add(item, "not run", 0, "no GPU (%s)" % check.why_none)
        return
    if check.left_s() < min(20, item.limit_s):
        check.add(item, "not run", 0, "time is up")
        return
    try:
        detail = item.begin(check, min(item.limit_s, check.left_s()))
        check.add(item, "passed", time.monotonic() - began, detail.strip())
    except failed as why:
        check.add(item, "failed", time.monotonic() - began, str(why))
    except Exception:  # pylint: disable=broad-except
        # What an item could not make sense of is no reason to leave out the others.
        check.add(item, "failed", time.monotonic() - began, traceback.format_exc())


def choose(parser, items, wanted):
    """The items named, in the order of all."""
    for word in wanted:
        if not any(word in (item.part, item.label()) for item in items):
            parser.error("there is no part or item %s; --list names them" % word)
    return [item for item in items
            if not wanted or item.part in wanted or item.label() in wanted]


def read_arguments(parser):
    parser.add_argument("items", nargs="*", metavar="PART[.ITEM]")
    parser.add_argument("--list", action="store_true", help="tell parts and items")
    parser.add_argument("--deadline", type=float, default=DEADLINE_S, metavar="SECONDS",
                        help="items that would begin later are not run (%(default)s)")
    parser.add_argument("--limit", type=float, default=DEADLINE_S, metavar="SECONDS",
                        help="the most that an item may take, where its own is no less")
    parser.add_argument("--jobs", type=int, metavar="N",
                        default=max(1, min(8, (os.cpu_count() or 1) // 2)),
                        help="tests that run beside each other (%(default)s)")
    return parser.parse_args()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    given = read_arguments(parser)
    out = os.environ.get("OUT") or os.path.join(HERE, "results")
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(os.path.join(HERE, "packed.tar.xz")) as packed:
            packed.extractall(folder)
        sys.path.insert(0, folder)
        import gpu_check_parts as parts  # pylint: disable=import-outside-toplevel,import-error
        items = choose(parser, parts.all_items(), given.items)
        if given.list:
            print("\n".join(item.label() for item in items))
            return 0
        os.environ["TANDEM_PEER_PYTHON"] = sys.executable
        check = Check(folder, out, given.deadline)
        check.look_for_gpu()
        check.say("GPU: %s" % (check.gpu or "none: " + check.why_none))
        if check.gpu:
            keep_gpu_open()
        run_items(check, items, given, parts.Failed)
        shutil.rmtree(check.scratch, ignore_errors=True)
        check.say("%d of %d passed" % (len(items) - len(check.failures()), len(items)))
        return 1 if check.failures() else 0


if __name__ == "__main__":
    sys.exit(main())
