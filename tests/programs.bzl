"""test_programs: several test programs in one executable, which is linked once.

`bazel test //...` runs the one; each is a test of its own as well, for who names it.
"""

load("@rules_cc//cc:cc_library.bzl", "cc_library")
load("@rules_cc//cc:cc_test.bzl", "cc_test")

def _main_of(name):
    return name + "_main"

_TABLE = """#include "tests/programs.h"

{declarations}
const test_program test_programs[] = {{
{rows}
}};
const int test_program_count = sizeof test_programs / sizeof test_programs[0];
"""

def _program_table_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".c")
    ctx.actions.write(out, _TABLE.format(
        declarations = "".join(["int %s();\n" % _main_of(name) for name in ctx.attr.programs]),
        rows = "\n".join([
            "    {\"%s\", (int (*)(int, char **))%s}," % (name, _main_of(name))
            for name in ctx.attr.programs
        ]),
    ))
    return [DefaultInfo(files = depset([out]))]

_program_table = rule(
    implementation = _program_table_impl,
    attrs = {"programs": attr.string_list(mandatory = True)},
)

def test_programs(
        name,
        programs,
        deps,
        size = "medium",
        shards = 1,
        defines = {},
        tags = [],
        **kwargs):
    """A test of several programs, which runs each as a process of its own.

    Args:
      name: name of the test
      programs: dictionary from the name of each program's test to its source file
      deps: dependencies of all, without duplicates
      size: size of the test
      shards: number of concurrent parts
      defines: definitions for only one program's source, by the program's name
      tags: tags of all tests
      **kwargs: attributes data and env of all tests
    """
    parts = []
    for program, source in programs.items():
        part = program + "_part"
        parts.append(":" + part)
        cc_library(
            name = part,
            testonly = True,
            srcs = [source],
            copts = ["-Wno-missing-prototypes"],  # for main, which the macro renames
            local_defines = defines.get(program, []) + ["main=" + _main_of(program)],
            tags = ["manual"],
            deps = deps + ["//tests:options"],
        )
        cc_test(
            name = program,
            size = "small",
            srcs = ["//tests:program_main.c"],
            local_defines = ["PROGRAM=" + _main_of(program)],
            tags = tags + ["manual"],
            deps = [":" + part],
            **kwargs
        )
    table = name + "_table"
    _program_table(
        name = table,
        testonly = True,
        programs = programs.keys(),
    )
    cc_test(
        name = name,
        size = size,
        srcs = [":" + table],
        copts = ["-Wno-strict-prototypes"],  # main has arguments or none
        shard_count = shards if shards > 1 else None,
        tags = tags + ["together"],
        deps = parts + ["//tests:programs"],
        **kwargs
    )
