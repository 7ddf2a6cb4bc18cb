"""The CPU kernels' sources, each compiled once per instruction set and element type."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")

# What the compiler may use; the names stand in TANDEM_CPU_ISA too.
INSTRUCTION_SETS = {
    "baseline": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}

# Repeatable results: no reassociation (-ffast-math stays off); errno and traps are unused.
_COPTS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
]

def kernel_variants(name, real_srcs, typed_srcs, hdrs, deps):
    """Libraries name_ISA, each with one table of kernels.

    Args:
      name: prefix of the libraries.
      real_srcs: compiled for float32 and float64 (TDM_REAL_BITS).
      typed_srcs: compiled once per instruction set.
      hdrs: headers of both.
      deps: of both.
    """
    for isa, options in INSTRUCTION_SETS.items():
        for bits in ["32", "64"]:
            cc_library(
                name = "%s_%s_float%s" % (name, isa, bits),
                srcs = real_srcs + hdrs,
                copts = _COPTS + options,
                local_defines = ["TDM_ISA=" + isa, "TDM_REAL_BITS=" + bits],
                deps = deps,
            )
        cc_library(
            name = "%s_%s" % (name, isa),
            srcs = typed_srcs + hdrs,
            copts = _COPTS + options,
            local_defines = ["TDM_ISA=" + isa],
            deps = deps + [":%s_%s_float%s" % (name, isa, bits) for bits in ["32", "64"]],
        )
