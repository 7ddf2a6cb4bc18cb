"""Tests with files as arguments, and with files that they need."""

load("@rules_cc//cc:cc_test.bzl", "cc_test")

def _arguments(given):
    return ["$(locations %s)" % label for label in given]

def script_test(name, script, given = [], data = [], size = "small", tags = []):
    """A test that is a script.

    Args:
      name: the test's name
      script: its source
      given: labels whose files are its arguments, in this order
      data: what else it needs
      size: of the test
      tags: of the test, beside no-sanitizer
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
    """A test that starts programs, by //tests/examples:program.

    Args:
      name: the test's name, and that of its source
      given: labels whose files are its arguments, in this order
      args: further ones
      data: what else it needs
      deps: what else it is linked with
      size: of the test
      tags: of the test
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
