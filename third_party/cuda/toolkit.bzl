"""Which CUDA toolkits will do."""

# cuBLAS's products with 64-bit sizes came with 12.0, cudaGetDriverEntryPointByVersion with 12.5.
LEAST_VERSION = (12, 5)

def toolkit_version(text):
    """Returns the version that `nvcc --version` prints.

    Args:
      text: what it printed

    Returns:
      (major, minor), or None where there is none to be found
    """
    release = text.partition("release ")[2].partition(",")[0]
    major, _, minor = release.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None

def is_new_enough(version):
    return version != None and version >= LEAST_VERSION
