"""Macro for a fuzz target: the program for libFuzzer, and a test that replays its corpus."""

load("@rules_cc//cc:cc_binary.bzl", "cc_binary")
load("@rules_cc//cc:cc_library.bzl", "cc_library")
load("@rules_cc//cc:cc_test.bzl", "cc_test")

def fuzz_target(name, deps, srcs = [], has_threads = False):
    """Defines NAME_fuzz, which links only with --config=fuzz, and NAME_test.

    Args:
      name: name of the target. NAME_fuzz.c is its source, corpus/NAME its inputs, and
        dictionaries/NAME.dict, if it exists, its dictionary.
      deps: libraries that the target calls
      srcs: further source files
      has_threads: True if the target starts threads, so that ThreadSanitizer runs it
    """
    cc_library(
        name = name,
        testonly = True,
        srcs = [name + "_fuzz.c"] + srcs,
        deps = [":support"] + deps,
        alwayslink = True,
    )
    cc_binary(
        name = name + "_fuzz",
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name],
    )
    cc_test(
        name = name + "_test",
        size = "small",
        srcs = ["replay.c"],
        args = ["tests/fuzz/corpus/" + name],
        data = native.glob(["corpus/%s/*" % name]),
        tags = [] if has_threads else ["no-tsan"],
        deps = [
            ":" + name,
            ":support",
        ],
    )
