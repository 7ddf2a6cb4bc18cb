"""toolkit_test: third_party/cuda/toolkit.bzl, tested as this package is loaded."""

load("//third_party/cuda:toolkit.bzl", "is_new_enough", "toolkit_version")

_NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release %s, V%s.48\n"

def toolkit_test():
    """Fails where a version is read wrong, or a toolkit taken that is too old."""
    for text, version, taken in [
        (_NVCC % ("11.8", "11.8"), (11, 8), False),
        (_NVCC % ("12.4", "12.4"), (12, 4), False),
        (_NVCC % ("12.5", "12.5"), (12, 5), True),
        (_NVCC % ("13.0", "13.0"), (13, 0), True),
        ("", None, False),
        ("release unknown, V?", None, False),
    ]:
        found = toolkit_version(text)
        if found != version or is_new_enough(found) != taken:
            fail("%r is read as %s, taken: %s" % (text, found, is_new_enough(found)))
