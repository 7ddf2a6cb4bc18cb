"""The checks and measurements of tools/gpu_check: parts, each a list of items. An item runs one
program and judges its output. Invariant: an item passes only if its program succeeded and printed
the expected output.
"""
import json
import os
import re
import shutil
import sys

DEVICES = ["conformance_%s_cuda%d_test" % (topic, index)
           for topic in ("copy", "faults", "memory", "queue", "tensor") for index in (0, 1)]
GOLDEN = ["golden_%s_cuda_test" % family for family in
          ("layers", "loss", "moves", "pointwise", "recurrent", "tables", "vision", "models")]
PARALLEL = ["%s_cuda_test" % name for name in
            ("collectives", "comm", "cpp_parallel", "data_parallel", "data_parallel_parts",
             "device_sums", "sparse_refresh")]
RANDOM = ["random_graphs_cuda_test", "chain_models_cuda_test", "fuse_models_cuda_test",
          "update_groups_cuda_test"]
SANITIZED = [name for name in DEVICES if name.endswith("cuda0_test") and "faults" not in name] + [
    "device_kernels_cuda_test", "golden_layers_cuda_test", "golden_vision_cuda_test",
    "golden_recurrent_cuda_test", "golden_tables_cuda_test"]
LANGUAGES = [("english", "american-english"), ("french", "french"), ("german", "ngerman"),
             ("spanish", "spanish"), ("italian", "italian"), ("dutch", "dutch"),
             ("portuguese", "portuguese"), ("swedish", "swedish")]
MIXED = "embedding=cpu:0,*=cuda:0"


class Failed(Exception):
    """Why an item did not pass."""


class Item:
    """One thing to run. begin(check, limit_s) returns a line or lines for the report, or fails.
    `alone`: it is timed, so nothing else may run at the same time."""

    def __init__(self, part, name, limit_s, begin, needs_gpu=True, alone=True):
        self.part, self.name, self.limit_s = part, name, limit_s
        self.begin, self.needs_gpu, self.alone = begin, needs_gpu, alone

    def label(self):
        return self.part if self.name == self.part else "%s.%s" % (self.part, self.name)


def ended_well(words, code, output):
    if code != 0:
        last = output.strip()[-300:]
        raise Failed("%s ended with %d: %s" % (os.path.basename(words[0]), code, last))
    return output


def run(check, words, limit_s, **environment):
    """Returns the output of the program."""
    return ended_well(words, *check.run(words, limit_s, **environment))


# ---- Tests

def run_test(check, name, limit_s, before=(), **environment):
    words = list(before) + [check.path("bin", name)]
    output = run(check, words, limit_s, **environment)
    passed = re.search(r"\[  PASSED  \] (\d+) test", output)
    if not passed:
        raise Failed("%s ended well and tells of no test" % name)
    return "%s cases" % passed.group(1)


def test_items(part, names, limit_s=120):
    return [Item(part, name, limit_s,
                 lambda check, limit, name=name: run_test(check, name, limit), alone=False)
            for name in names]


# ---- compute-sanitizer

def find_sanitizer():
    known = "/usr/local/cuda/bin/compute-sanitizer"
    found = shutil.which("compute-sanitizer") or (known if os.path.exists(known) else None)
    if not found:
        raise Failed("compute-sanitizer is not installed")
    return found


# Children are not watched: tests fork children that end by a signal on purpose, which would be
# reported as an error of the program. Several run at the same time, with a port each, and may use
# CUDA late.
SANITIZER_OPTIONS = ["--target-processes", "application-only", "--launch-timeout", "120",
                     "--max-connections", "64"]


def sanitize(check, tool, name, limit_s):
    """Runs a test with every value in memory of its own, unwritten for initcheck."""
    zones = "unfilled" if tool == "initcheck" else "filled"
    before = [find_sanitizer(), "--tool", tool, "--error-exitcode", "99"] + SANITIZER_OPTIONS
    return run_test(check, name, limit_s, before, TANDEM_RED_ZONES=zones)


def sanitizer_items():
    return [Item(tool, name, 500,
                 lambda check, limit, tool=tool, name=name: sanitize(check, tool, name, limit),
                 alone=False)
            for tool in ("memcheck", "racecheck", "initcheck") for name in SANITIZED]


# ---- Models: numbers beside those of the cpu

def word_options(check):
    options = []
    for language, name in LANGUAGES:
        options += ["--words", "%s=%s" % (language, check.path("words", name))]
    return options


def last_number(output, pattern):
    found = re.findall(pattern, output, re.MULTILINE)
    if not found:
        raise Failed("no line is like %s" % pattern)
    return float(found[-1])


def compare_model(check, limit_s, words, places, pattern, apart):
    """Runs a program on the CPU and the GPU. Returns the last match of pattern and both speeds."""
    rows = []
    numbers = []
    for place in places:
        output = run(check, words + ["--place", place], limit_s / len(places))
        numbers.append(last_number(output, pattern))
        speed = re.findall(r"^trained on .*$", output, re.MULTILINE)
        rows.append("%-28s %.5f  %s" % (place, numbers[-1], speed[-1] if speed else ""))
    for number in numbers[1:]:
        if abs(number - numbers[0]) > apart:
            raise Failed("%g on the GPU, %g on the cpu:\n%s" % (number, numbers[0],
                                                              "\n".join(rows)))
    return "\n".join(rows)


def size(check, full, small):
    """A rehearsal on the emulated driver, whose threads are played one by one, is small."""
    return [str(small if check.rehearses else full)]


def main_job(check, limit_s):
    words = [check.path("bin", "distributed_model"), "--epochs", "1", "--words-per-language"]
    words += size(check, 20000, 20) + word_options(check)
    return compare_model(check, limit_s, words, ["*=cpu:0", MIXED, "*=cuda:0"],
                         r"loss ([\d.]+)", 0.02)


def char_lm(check, limit_s):
    words = [check.path("bin", "char_lm"), "--text", check.path("text"), "--epochs", "1",
             "--sample", "20", "--steps"] + size(check, 60, 2)
    if check.rehearses:
        words += ["--batch", "2", "--length", "8", "--hidden", "8", "--embedding", "4",
                  "--characters", "2000"]
    return compare_model(check, limit_s, words, ["*=cpu:0", MIXED],
                         r"bits per character ([\d.]+)", 0.02)


def fashion_cnn(check, limit_s):
    words = [check.path("bin", "fashion_cnn"), "--data", check.path("fashion"), "--epochs", "1",
             "--test-images"] + size(check, 2000, 20) + ["--images"] + size(check, 6000, 16)
    return compare_model(check, limit_s, words, ["*=cpu:0", "*=cuda:0"],
                         r"loss ([\d.]+)", 0.03)


def recommender(check, limit_s):
    words = [check.path("bin", "recommender"), "--epochs", "1", "--samples"]
    words += size(check, 40000, 64) + ["--held-out"] + size(check, 4000, 64)
    if check.rehearses:
        words += ["--tables", "3", "--hidden", "8", "--batch", "32"]
    return compare_model(check, limit_s, words, ["*=cpu:0", "*=cuda:0"], r"loss ([\d.]+)", 0.01)


def job_beside_pytorch(check, limit_s):
    words = [sys.executable, check.path("bench", "main_job.py"), "--program",
             check.path("bin", "distributed_model"), "--peer",
             check.path("bench", "peers", "main_job.py"), "--seeds", "1", "--epochs", "2",
             "--threads", str(min(8, os.cpu_count())), "--place", MIXED,
             "--peer-accelerator", "cuda:0"] + word_options(check)
    return run(check, words, limit_s, TANDEM_CUDA_LOGICAL="1")


# ---- Measurements

def overhead(check, limit_s):
    words = [sys.executable, check.path("bench", "overhead.py"), "--program",
             check.path("bin", "overhead_rows"), "--peer",
             check.path("bench", "peers", "overhead.py"), "--rounds", "1"]
    return run(check, words, limit_s, TANDEM_CUDA_LOGICAL="1")


def transfer(check, limit_s):
    words = [check.path("bin", "transfer"), "--device", "cpu:0,cuda:0", "--sizes",
             "1K,64K" if check.rehearses else "1K,64K,1M,16M,256M", "--samples", "3", "--save",
             os.path.join(check.out, "transfer.json")]
    if check.rehearses:
        words += ["--case", "host_to_device,device_to_host"]
    return run(check, words, limit_s, TANDEM_CUDA_LOGICAL="1")


def transfer_of_models(check, limit_s):
    words = [check.path("bin", "transfer"), "--model", "--calibrate", "--rounds", "1", "--save",
             os.path.join(check.out, "models.json")] + word_options(check)
    if check.rehearses:
        words += ["--table-rows", "500", "--largest-batch", "16", "--steps", "3"]
    return run(check, words, limit_s, TANDEM_CUDA_LOGICAL="1", TANDEM_LINKS="off")


def read_json(output):
    """The object in the last line of what a program printed, beside whatever it warns of."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    try:
        return json.loads(lines[-1] if lines else output)
    except json.JSONDecodeError:
        raise Failed("no JSON: " + output.strip()[-300:]) from None


def figures_of(output):
    """row -> nanoseconds, of lines "ROW<TAB>NUMBER" beside whatever a program warns of."""
    found = re.findall(r"^([^\t\n]+)\t([\d.]+)$", output, re.MULTILINE)
    if not found:
        raise Failed("no rows: " + output.strip()[-300:])
    return {row: float(taken) for row, taken in found}


def family(check, name, limit_s):
    """One kernel's time beside what memory or arithmetic would take, and beside PyTorch's."""
    words = [check.path("bin", "families"), name, "cuda:0"]
    words += ["--small"] if check.rehearses else []
    ours = read_json(run(check, words, limit_s / 2, TANDEM_CUDA_LOGICAL="1"))
    lines, peer, why = [], {}, None
    if not check.rehearses:
        try:
            answer = run(check, [sys.executable, check.path("bench", "peers", "families.py"), name],
                         limit_s / 2)
            peer = read_json(answer)
            check.limits.update(peer.pop("limits"))
        except Failed as failed:  # our figures are reported nevertheless
            why = failed
    for row, taken in ours.items():
        told = "%-18s %10.1f us" % (row, taken["us"])
        gigabytes = taken["bytes"] / taken["us"] / 1e3
        teraflops = taken["flops"] / taken["us"] / 1e6
        told += "  %8.1f GB/s  %7.2f TFLOP/s" % (gigabytes, teraflops)
        if check.limits:
            bound = max(taken["bytes"] / check.limits["bytes_per_us"],
                        taken["flops"] / check.limits["flops_per_us"])
            if bound > 0:
                told += "  %5.1f %% of its limit" % (100 * bound / taken["us"])
        if row in peer:
            told += "  PyTorch %10.1f us, %5.2f times" % (peer[row], taken["us"] / peer[row])
        lines.append(told)
    if why:
        raise Failed("%s\n%s" % (why, "\n".join(lines)))
    return "\n".join(lines)


def model(check, name, limit_s):
    """A whole model's run and step on the GPU beside PyTorch's, as it is and as a CUDA graph; what
    its kernels take goes into the log. A rehearsal takes the cpu, which is quicker than an
    emulated GPU."""
    device = "cpu:0" if check.rehearses else "cuda:0"
    ours = run(check, [check.path("bin", "model_rows"), "--device", device, name], limit_s / 2,
               TANDEM_CUDA_LOGICAL="1")
    peer, why = {}, None
    if not check.rehearses:
        code, told = check.run([check.path("bin", "model_rows"), "--device", device, "--profile",
                                name], limit_s / 4, TANDEM_CUDA_LOGICAL="1")
        try:
            ended_well(["model_rows --profile"], code, told)
            answer = run(check, [sys.executable, check.path("bench", "peers", "models.py"),
                                 "--device", "cuda:0", name], limit_s / 2)
            peer = figures_of(answer)
        except Failed as failed:  # our figures are reported nevertheless
            why = failed
    lines = []
    for row, taken in figures_of(ours).items():
        told = "%-28s %10.1f us" % (row, taken / 1e3)
        for kind in ("", ", graph"):
            if row + kind in peer:
                theirs = peer[row + kind]
                told += "  PyTorch%s %10.1f us, %5.2f times" % (kind, theirs / 1e3, taken / theirs)
        lines.append(told)
    if why:
        raise Failed("%s\n%s" % (why, "\n".join(lines)))
    return "\n".join(lines)


def same_bits(check, limit_s):
    """Two runs of one training on the GPU leave the same file."""
    told = []
    for program, sizes in (("distributed_model", ["--words-per-language"] + size(check, 2000, 20)),
                           ("fashion_cnn", ["--images"] + size(check, 2000, 16))):
        kept = []
        for turn in range(2):
            path = os.path.join(check.scratch, "%s%d.safetensors" % (program, turn))
            words = [check.path("bin", program), "--epochs", "1", "--place", "*=cuda:0", "--save",
                     path] + sizes
            words += word_options(check) if program == "distributed_model" else \
                ["--data", check.path("fashion"), "--test-images", "20"]
            run(check, words, limit_s / 4)
            with open(path, "rb") as handle:
                kept.append(handle.read())
        if kept[0] != kept[1]:
            raise Failed("two runs of %s left different bits" % program)
        told.append("%s: %d equal bytes" % (program, len(kept[0])))
    return ", ".join(told)


def gpt(check, limit_s):
    words = [check.path("bin", "gpt"), "--text", check.path("text"), "--epochs", "1", "--sample",
             "20", "--steps"]
    words += size(check, 30, 2)
    if check.rehearses:
        words += ["--batch", "2", "--window", "16", "--characters", "2000"]
    return compare_model(check, limit_s, words, ["*=cpu:0", "*=cuda:0"],
                         r"bits per character ([\d.]+)", 0.02)


def trace(check, limit_s):
    """Reports the critical path of the main job's steps on the GPU, and its timeline."""
    words = [check.path("bin", "distributed_model"), "--epochs", "1", "--words-per-language"]
    words += size(check, 5000, 20) + word_options(check)
    words += ["--place", "*=cuda:0", "--trace", os.path.join(check.out, "main_job_trace.json")]
    return run(check, words, limit_s, TANDEM_CUDA_LOGICAL="1")


MODELS = ["words 30", "words 65536", "chain of 100", "elements 32", "elements 2048",
          "elements 65536", "lenet 64", "lenet 4096", "resnet 16", "resnet 256", "lstm 64",
          "bag 2048", "recommender 2048", "gpt 2", "gpt 64"]
FAMILIES = ["overhead", "elementwise", "matmul", "batched", "convolution", "attention", "norms",
            "softmax", "reductions"]


def single(part, begin, limit_s, needs_gpu=True):
    return [Item(part, part, limit_s, begin, needs_gpu)]


def all_items():
    items = test_items("conformance", DEVICES)
    items += test_items("kernels", ["device_kernels_cuda_test"])
    items += test_items("golden", GOLDEN)
    items += test_items("random", RANDOM)
    items += test_items("parallel", PARALLEL)
    items += test_items("checkpoints", ["resume_cuda_test"])
    items += test_items("nccl", ["nccl_cuda_test"])
    items += single("main_job", main_job, 300) + single("char_lm", char_lm, 200)
    items += single("fashion_cnn", fashion_cnn, 300) + single("recommender", recommender, 300)
    items += single("gpt", gpt, 200) + single("same_bits", same_bits, 200)
    items += single("trace", trace, 100)
    items += single("transfer", transfer, 400)
    items += single("transfer_of_models", transfer_of_models, 300)
    items += [Item("families", name, 100,
                   lambda check, limit, name=name: family(check, name, limit))
              for name in FAMILIES]
    items += [Item("models", name, 120, lambda check, limit, name=name: model(check, name, limit))
              for name in MODELS]
    items += single("overhead", overhead, 300, needs_gpu=False)
    items += single("job_beside_pytorch", job_beside_pytorch, 500)
    return items + sanitizer_items()
