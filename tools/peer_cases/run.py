#!/usr/bin/python3
"""Runs PyTorch's samples of operations and modules, and ONNX's cases of nodes, with the library.
Prints for every operation how many cases passed, were refused and failed, and the reason of each
failure. A case is refused by the library, or for an argument that the library does not have.

    bazel build //:libraries
    tools/peer_cases/run.py [--library FILE] [--refusals] [--only NAME,...] [ops] [modules] [onnx]
    tools/peer_cases/run.py [--count CASES] [--seed SEED] [--at NUMBER] ... [random] [training]

The second form draws cases: calls of each operation, module, optimizer and schedule
(torch_random.py), or models that are trained for some steps (torch_training.py). --at runs only the
case with this number, which a failure prints. Requires PyTorch 2 and onnx (pip install torch numpy
expecttest onnx)."""

import argparse
import collections
import importlib
import mmap
import os
import pickle
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import binding  # noqa: E402
import cases  # noqa: E402

SUITES = {"ops": "torch_ops", "modules": "torch_modules", "onnx": "onnx_nodes"}
DRAWN = {"random": "torch_random", "training": "torch_training"}
SECONDS = 120  # limit for one operation, and for each CASES cases of a drawn suite
CASES = 2000
UNDER_WAY = mmap.mmap(-1, 256)  # the case that a process of its own is at


def run_case(library, context, case):
    try:
        case.run(library, context)
    except cases.Refused as refused:
        return "refused", str(refused)
    except cases.Failed as failed:
        return "failed", str(failed)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        return "refused", "the harness has no way to say this: %s" % error
    return "passed", ""


def run_group(library, make):
    """Runs all cases of one operation. Returns [(label, verdict, reason)]."""
    context = library.call("context_create", None)
    results = []
    for label, case in make():
        UNDER_WAY[:] = label.encode()[:256].ljust(256)
        if isinstance(case, cases.Refused):
            results.append((label, "refused", str(case)))
        else:
            results.append((label, *run_case(library, context, case)))
    return results


def run_apart(library, make, work=run_group, seconds=SECONDS):
    """In a process of its own, which may end as it likes."""
    UNDER_WAY[:] = b"all".ljust(256)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        os.close(reader)
        with os.fdopen(writer, "wb") as file:
            pickle.dump(work(library, make), file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        label = UNDER_WAY[:].decode().strip()
        return [(label, "failed", "the process ended with status %d" % status)]
    return pickle.loads(data)


def tell(suite, name, results, refusals):
    counts = collections.Counter(verdict for _, verdict, _ in results)
    print("%-8s %-44s %5d passed %5d refused %5d failed"
          % (suite, name, counts["passed"], counts["refused"], counts["failed"]), flush=True)
    reasons = collections.Counter((verdict, reason) for _, verdict, reason in results
                                  if verdict == "failed" or verdict == "refused" and refusals)
    firsts = {(verdict, reason): label for label, verdict, reason in reversed(results)}
    for key, count in reasons.items():
        print("    %s %d times, first %s: %s" % (key[0], count, firsts[key], key[1][:300]))
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=os.path.join(ROOT, "bazel-bin", "libtandem.so.0.3.0"))
    parser.add_argument("--refusals", action="store_true", help="tell why cases were refused")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--count", type=int, default=200, help="cases that are drawn of each")
    parser.add_argument("--seed", type=int, default=0, help="that they are drawn from")
    parser.add_argument("--at", type=int, help="the number of the one to draw")
    parser.add_argument("suites", nargs="*", choices=[[], *DRAWN, *SUITES],
                        help="those of samples unless named")
    given = parser.parse_args()
    library = binding.Library(given.library, ROOT)
    numbers = range(given.count) if given.at is None else range(given.at, given.at + 1)
    seconds = SECONDS * (1 + given.count // CASES)
    total = collections.Counter()
    for suite in given.suites or SUITES:
        counts = collections.Counter()
        module = importlib.import_module({**SUITES, **DRAWN}[suite])
        for name, make in module.groups(*[given.seed, numbers] if suite in DRAWN else []):
            if given.only is None or name in given.only.split(","):
                counts += tell(suite, name, run_apart(library, make, seconds=seconds),
                               given.refusals)
        print("%-8s %-44s %5d passed %5d refused %5d failed\n"
              % (suite, "all", counts["passed"], counts["refused"], counts["failed"]), flush=True)
        total += counts
    sys.exit(1 if total["failed"] else 0)


if __name__ == "__main__":
    main()
