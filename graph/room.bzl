"""room: a room of graph/, all sources and headers of its folder as one target."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")

def room(name, deps = [], hdrs = []):
    """The target of a folder that stands on core, on devices and on deps, and includes no kind.

    Args:
      name: the folder's
      deps: what else it stands on
      hdrs: headers that are made
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
