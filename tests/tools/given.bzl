"""Macros for tests that receive files as arguments."""

load("@rules_cc//cc:cc_test.bzl", "cc_test")

def _arguments(given):
    return ["$(locations %s)" % label for label in given]

def script_test(name, script, given = [], data = [], size = "small", tags = []):
    """Defines a test that is a script.

    Args:
      name: name of the test
      script: source file of the script
      given: labels whose files are the arguments of the script, in this order
      data: further files that the script reads
      size: size of the test
      tags: tags of the test in addition to no-sanitizer
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = [script],
        args = _arguments(given),
        data = given + data,
        tags = tags + ["no-sanitizer"],
    )

def program_test(name, given = [], args = [], data = [], deps = [], size = "small", tags = []):
    """Defines a test that starts programs with //tests/examples:program.

    Args:
      name: name of the test, and of its source file without ".c"
      given: labels whose files are the first arguments of the test, in this order
      args: further arguments
      data: further files that the test reads
      deps: further libraries
      size: size of the test
      tags: tags of the test
    """
    cc_test(
        name = name,
        size = size,
        srcs = [name + ".c"],
        args = _arguments(given) + args,
        data = given + data,
        tags = tags,
        deps = deps + [
            "//tests/examples:program",
            "@cmocka//:lib",
        ],
    )
