"""A fuzz target: what libFuzzer runs, and the test that replays its corpus in every build."""

load("@rules_cc//cc:cc_binary.bzl", "cc_binary")
load("@rules_cc//cc:cc_library.bzl", "cc_library")
load("@rules_cc//cc:cc_test.bzl", "cc_test")

def fuzz_target(name, deps, srcs = [], has_threads = False):
    """Makes NAME_fuzz, which only links under --config=fuzz, and NAME_test.

    Args:
      name: NAME_fuzz.c is the target, corpus/NAME its inputs, NAME.dict (if it is there) its words.
      deps: what it calls.
      srcs: further sources.
      has_threads: whether ThreadSanitizer has anything to see.
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
