"""Every repository that the build finds on the system, and the Debian package that brings it."""

load("//third_party:pkg_config.bzl", "pkg_config")
load("//third_party/cuda:cuda_configure.bzl", "cuda_configure")

def system_repositories():
    """Declares the libraries (each has :lib) and @local_cuda."""
    pkg_config(name = "uv", modules = ["libuv"], debian = "libuv1-dev")
    pkg_config(name = "hwloc", modules = ["hwloc"], debian = "libhwloc-dev")
    pkg_config(name = "cmocka", modules = ["cmocka"], debian = "libcmocka-dev")
    pkg_config(name = "zlib", modules = ["zlib"], debian = "zlib1g-dev")
    pkg_config(name = "sodium", modules = ["libsodium"], debian = "libsodium-dev")
    pkg_config(name = "jansson", modules = ["jansson"], debian = "libjansson-dev")

    # Debian's oneDNN has no .pc file.
    pkg_config(
        name = "onednn",
        modules = ["dnnl"],
        header = "oneapi/dnnl/dnnl.h",
        linkopts = ["-ldnnl"],
        debian = "libdnnl-dev",
    )
    pkg_config(
        name = "http_parser",
        modules = ["http_parser"],
        header = "http_parser.h",
        linkopts = ["-lhttp_parser"],
        debian = "libhttp-parser-dev",
    )

    # Each is what one plug-in of net/ is made for; neither is needed.
    pkg_config(name = "openmpi", modules = ["ompi-c"], debian = "libopenmpi-dev", optional = True)
    pkg_config(name = "mpich", modules = ["mpich"], debian = "libmpich-dev", optional = True)
    cuda_configure(name = "local_cuda")
