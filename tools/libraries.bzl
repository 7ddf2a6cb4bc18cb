"""libraries: one static and one shared library of all that a target consists of.

Each folder is a cc_library of its own; programs outside of Bazel want one to link with.
"""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _contents(dep):
    """Returns (objects, linker flags) of dep."""
    objects = []
    flags = []
    for linked in dep[CcInfo].linking_context.linker_inputs.to_list():
        flags += [flag for flag in linked.user_link_flags if flag not in flags]
        for library in linked.libraries:
            if library.pic_objects:
                objects += library.pic_objects
            elif library.pic_static_library or library.static_library:
                fail("%s is an archive that is not ours to install" % linked.owner)
    return objects, flags

def _libraries_impl(ctx):
    tools = find_cc_toolchain(ctx)
    objects, flags = _contents(ctx.attr.dep)
    static = ctx.actions.declare_file("lib%s.a" % ctx.attr.soname)
    shared = ctx.actions.declare_file("lib%s.so.%s" % (ctx.attr.soname, ctx.attr.version))
    needed = ctx.actions.declare_file(ctx.attr.soname + ".libs")

    # q appends: objects of two folders may have one name, and r would keep the last of these.
    pack = ctx.actions.args()
    pack.add("qcsD")
    pack.add(static)
    pack.add_all(objects)
    ctx.actions.run(
        executable = tools.ar_executable,
        arguments = [pack],
        inputs = objects,
        tools = tools.all_files,
        outputs = [static],
        mnemonic = "PackLibrary",
    )

    abi = "lib%s.so.%s" % (ctx.attr.soname, ctx.attr.abi)
    link = ctx.actions.args()
    link.add_all(["-shared", "-o", shared, "-Wl,-soname," + abi, "-Wl,-z,defs", "-Wl,--as-needed"])
    link.add_all(objects)
    link.add_all(flags)
    link.add("-lm")
    ctx.actions.run(
        executable = tools.compiler_executable,
        arguments = [link],
        inputs = objects,
        tools = tools.all_files,
        outputs = [shared],
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},
        mnemonic = "LinkLibrary",
    )

    ctx.actions.write(needed, " ".join(flags + ["-lm"]) + "\n")
    files = depset([static, shared, needed])
    return [DefaultInfo(files = files, runfiles = ctx.runfiles(transitive_files = files))]

libraries = rule(
    implementation = _libraries_impl,
    doc = "lib<soname>.a, lib<soname>.so.<version> and <soname>.libs, what the first needs beside.",
    attrs = {
        "abi": attr.string(mandatory = True, doc = "the part of the version that breaks programs"),
        "dep": attr.label(mandatory = True, providers = [CcInfo]),
        "soname": attr.string(mandatory = True),
        "version": attr.string(mandatory = True),
        "_cc_toolchain": attr.label(default = Label("@rules_cc//cc:current_cc_toolchain")),
    },
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
)
