"""The CPU kernels' sources, each compiled once per instruction set and precision.

The sources compiled with the same flags become one relocatable object, whose only visible symbol is
its table. So functions may have the same names in all objects, and no call crosses objects.
"""

load("@rules_cc//cc:cc_library.bzl", "cc_library")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

# Compiler options of each instruction set, the widest last. TANDEM_CPU_ISA accepts these names.
INSTRUCTION_SETS = {
    "baseline": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}

# Definitions that set the type of numbers in real.h. The names are those of dtypes.
PRECISIONS = {
    "float32": ["TDM_REAL_BITS=32"],
    "float64": ["TDM_REAL_BITS=64"],
}

# Repeatable results: no reassociation (-ffast-math stays off); errno and traps are unused.
_COPTS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
]

def _instruction_sets_flag_impl(ctx):
    known = [
        "all",
        "narrowest_and_avx2",
        "narrowest_and_widest",
        "narrowest",
        "widest_checked",
    ]
    if ctx.build_setting_value not in known:
        fail("%s: %s is none of %s" % (ctx.label, ctx.build_setting_value, ", ".join(known)))
    return []

instruction_sets_flag = rule(
    implementation = _instruction_sets_flag_impl,
    doc = "Which instruction sets the kernels are compiled for; the processor's best of them runs.",
    build_setting = config.string(flag = True),
)

def _one_object_impl(ctx):
    tools = find_cc_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = tools,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    objects = []
    for linked in ctx.attr.library[CcInfo].linking_context.linker_inputs.to_list():
        if linked.owner == ctx.attr.library.label:
            for library in linked.libraries:
                objects += library.pic_objects
    whole = ctx.actions.declare_file(ctx.label.name + ".pic.o")
    ctx.actions.run_shell(
        command = """set -e
{ld} -r -o {out} {objects}
{objcopy} --keep-global-symbol={symbol} {out}
""".format(
            ld = tools.ld_executable,
            objcopy = tools.objcopy_executable,
            objects = " ".join([object.path for object in objects]),
            out = whole.path,
            symbol = ctx.attr.symbol,
        ),
        inputs = objects,
        tools = tools.all_files,
        outputs = [whole],
        mnemonic = "LinkKernels",
    )
    outputs = cc_common.create_compilation_outputs(
        objects = depset([whole]),
        pic_objects = depset([whole]),
    )
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = tools,
        compilation_outputs = outputs,
        linking_contexts = [dep[CcInfo].linking_context for dep in ctx.attr.deps],
        disallow_dynamic_library = True,
    )
    return [DefaultInfo(files = depset([whole])), CcInfo(linking_context = linking)]

_one_object = rule(
    implementation = _one_object_impl,
    doc = "A library's own objects as one, of which only `symbol` is visible.",
    attrs = {
        "deps": attr.label_list(providers = [CcInfo], doc = "the library's"),
        "library": attr.label(mandatory = True, providers = [CcInfo]),
        "symbol": attr.string(mandatory = True),
        "_cc_toolchain": attr.label(default = Label("@rules_cc//cc:current_cc_toolchain")),
    },
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
)

def _variant(name, table, srcs, copts, defines, headers, deps):
    cc_library(
        name = name + "_objects",
        srcs = srcs,
        copts = _COPTS + copts,
        local_defines = ["TDM_TABLE=" + table] + defines,
        visibility = ["//visibility:private"],
        deps = headers,
    )
    _one_object(
        name = name,
        library = ":%s_objects" % name,
        symbol = table,
        visibility = ["//visibility:private"],
        deps = deps,
    )

def _each(kernels):
    return " ".join(["X(%s)" % kernel.split("/")[-1] for kernel in kernels])

def kernel_variants(
        name,
        srcs,
        stored_kernels,
        stored_srcs,
        real_kernels,
        real_srcs,
        typed_kernels,
        headers,
        deps):
    """Libraries name_ISA, each with the tables tdm_cpu_ISA_PRECISION and tdm_cpu_ISA_typed.

    And name_stored_apart, of which nothing is called: stored_kernels, compiled with a type of its
    own for what is stored, so that the compiler refuses those that take it for what is computed
    with.

    Args:
      name: prefix of the libraries.
      srcs: compiled for every table, headers among them.
      stored_kernels: sources that end with a list of kernels, without their ending; compiled for
        every precision, whatever it stores.
      stored_srcs: what these call, compiled likewise.
      real_kernels: the same of kernels that want operands stored as what is computed with.
      real_srcs: what these call, compiled likewise.
      typed_kernels: the same, compiled once per instruction set.
      headers: what all of them include beside those of srcs; no other change compiles them again.
      deps: what all of them are linked with.
    """
    stored = [kernel + ".c" for kernel in stored_kernels] + stored_srcs
    real = stored + [kernel + ".c" for kernel in real_kernels] + real_srcs
    typed = [kernel + ".c" for kernel in typed_kernels]
    native.genrule(
        name = name + "_sources",
        outs = ["cpu/sources.h"],
        cmd = """cat > $@ <<'END'
/* The sources that have kernels, as the build lists them. */
#ifdef TDM_REAL_BITS
#define TDM_SOURCES(X) %s
#else
#define TDM_SOURCES(X) %s
#endif
END""" % (_each(stored_kernels + real_kernels), _each(typed_kernels)),
    )
    cc_library(
        name = name + "_stored_apart",
        srcs = [src for src in srcs if src.endswith(".h")] + stored,
        copts = ["-O0", "-Werror=incompatible-pointer-types"],
        local_defines = ["TDM_REAL_BITS=32", "TDM_STORED_APART"],
        deps = headers,
    )
    for isa, options in INSTRUCTION_SETS.items():
        parts = []
        for kind, defines in PRECISIONS.items() + [("typed", [])]:
            parts.append("%s_%s_%s" % (name, isa, kind))
            _variant(
                name = parts[-1],
                table = "tdm_cpu_%s_%s" % (isa, kind),
                srcs = srcs + [":cpu/sources.h"] + (real if defines else typed),
                copts = options + (select({
                    ":widest_checked": ["-fno-sanitize=all"],
                    "//conditions:default": [],
                }) if isa == "baseline" else []),
                defines = defines,
                headers = headers,
                deps = deps,
            )
        cc_library(
            name = "%s_%s" % (name, isa),
            deps = [":" + part for part in parts],
        )
