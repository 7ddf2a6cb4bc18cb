"""emulated_cuda_library: .cu files compiled for the host, for tests to execute."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")

def emulated_cuda_library(
        name,
        srcs,
        deps,
        copts = [],
        grid = "//tests/devices/cuda_emulation:grid",
        **kwargs):
    """A cc_library of .cu files, whose words of CUDA are grid_cuda.h's.

    Args:
      name: the name
      srcs: labels of exported .cu files; each becomes a translation unit that includes it
      deps: cc_library targets
      copts: more flags
      grid: the library that runs blocks
      **kwargs: the other attributes of cc_library
    """
    units = []
    for src in srcs:
        path = src.lstrip("/").replace(":", "/")
        unit = "%s_%s.cc" % (name, path.split("/")[-1].split(".")[0])
        native.genrule(
            name = unit + "_source",
            testonly = True,
            outs = [unit],
            cmd = "echo '#include \"%s\"' > $@" % path,
        )
        units.append(unit)
    cc_library(
        name = name,
        testonly = True,
        srcs = units,
        copts = ["-fno-strict-aliasing"] + copts,
        local_defines = [
            "TDM_CUDA_HOST_WORDS=\\\"tests/devices/cuda_emulation/grid_cuda.h\\\"",
        ],
        textual_hdrs = srcs,
        deps = deps + [grid],
        **kwargs
    )
