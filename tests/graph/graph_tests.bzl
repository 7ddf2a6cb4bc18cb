"""Tests of whole graphs: each topic is the program of its file."""

load("@rules_cc//cc:cc_test.bzl", "cc_test")
load("//tests:programs.bzl", "test_programs")

def graph_tests(
        topics,
        deps = [],
        support = "//tests/graph:support",
        size = "small",
        together = None,
        **kwargs):
    """A test `topic_test` of topic_test.c, for each topic.

    Args:
      topics: the names of the files, without "_test.c"
      deps: what they need besides the support for tests of graphs, cmocka and what both bring
      support: the accelerators: simulated ("//tests/graph:support") or emulated GPUs (support_cuda)
      size: of each
      together: the name of one test of all of them; None: each is a test
      **kwargs: of cc_test
    """
    if together:
        test_programs(
            name = together,
            programs = {topic + "_test": topic + "_test.c" for topic in topics},
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
            name = topic + "_test",
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
    """Tests `topic_sim_test` and `topic_cuda_test`: on simulated devices and on emulated GPUs.

    Those of one kind are one test, `sim_tests` and `cuda_tests`.

    Args:
      topics: as of graph_tests
      tags: of all
      cuda_tags: of the tests on emulated GPUs besides
      deps: as of graph_tests
      **kwargs: of test_programs
    """
    for kind, support in {"cuda": ":support_cuda", "sim": ":support"}.items():
        programs = {"%s_%s_test" % (topic, kind): topic + "_test.c" for topic in topics}
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
