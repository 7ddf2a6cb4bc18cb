"""Defines room: the target of a folder of graph/."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")

def room(name, deps = [], hdrs = []):
    """Compiles all sources and headers of a folder, with core, devices and deps, but no kind.

    Args:
      name: name of the folder
      deps: further dependencies
      hdrs: generated headers
    """
    cc_library(
        name = name,
        srcs = native.glob(["*.c"]),
        hdrs = native.glob(["*.h"]) + hdrs,
        linkopts = ["-lm"],
        visibility = ["//visibility:public"],
        deps = [
            "//core",
            "//devices",
            "//devices:interface",
            "//graph:public",
        ] + deps,
    )
