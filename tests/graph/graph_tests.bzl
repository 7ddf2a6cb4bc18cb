"""Macros for tests of whole graphs. Each topic is a program with one source file."""

load("@rules_cc//cc:cc_test.bzl", "cc_test")
load("//tests:programs.bzl", "test_programs")

def _name_of(topic):
    return topic.split("/")[-1]

def graph_tests(
        topics,
        deps = [],
        support = "//tests/graph:support",
        size = "small",
        together = None,
        **kwargs):
    """Defines a test `topic_test` from topic_test.c for each topic.

    Args:
      topics: paths of the source files, without "_test.c"; the last part names the test
      deps: dependencies in addition to `support`, //graph and cmocka
      support: library that selects the accelerators: simulated ones ("//tests/graph:support") or
        emulated GPUs (support_cuda)
      size: size of each test
      together: name of one test that contains all topics; None: each topic is a test of its own
      **kwargs: further attributes of cc_test
    """
    if together:
        test_programs(
            name = together,
            programs = {_name_of(topic) + "_test": topic + "_test.c" for topic in topics},
            deps = [
                support,
                "//graph",
                "@cmocka//:lib",
            ] + deps,
            **kwargs
        )
        return
    for topic in topics:
        cc_test(
            name = _name_of(topic) + "_test",
            size = size,
            srcs = [topic + "_test.c"],
            deps = [
                support,
                "//graph",
                "@cmocka//:lib",
            ] + deps,
            **kwargs
        )

def graph_tests_of_kinds(topics, tags = [], cuda_tags = [], deps = [], **kwargs):
    """Defines `topic_sim_test` and `topic_cuda_test`: on simulated devices and on emulated GPUs.

    The test `sim_tests` contains all tests on simulated devices, `cuda_tests` all on emulated GPUs.

    Args:
      topics: paths of the source files, without "_test.c"; the last part names the test
      tags: tags of all tests
      cuda_tags: additional tags of the tests on emulated GPUs
      deps: dependencies in addition to `support`, //graph and cmocka
      **kwargs: further attributes of test_programs
    """
    for kind, support in {"cuda": ":support_cuda", "sim": ":support"}.items():
        programs = {"%s_%s_test" % (_name_of(topic), kind): topic + "_test.c" for topic in topics}
        test_programs(
            name = kind + "_tests",
            defines = {
                program: ["TEST_KIND=\\\"%s\\\"" % kind]
                for program in programs
            },
            programs = programs,
            deps = [
                "//graph",
                "//tests/graph" + support,
                "@cmocka//:lib",
            ] + deps,
            tags = tags + (cuda_tags if kind == "cuda" else []),
            **kwargs
        )
