"""The kinds of devices: the build, the walls and the tests of devices read this list.

A kind NAME is the folder devices/NAME with the target of that name, which defines tdm_NAME_kind.
"""

# In the order in which contexts list devices, the host's first; each with the rooms that it stands
# on, as in tests/walls/rooms.bzl.
DEVICE_KINDS = {
    "cpu": ["context", "contract", "host", "topology"],
    "sim": ["context", "contract", "host", "staging", "topology"],
    "cuda": ["context", "contract", "staging", "topology"],
    "described": ["absent", "context", "contract", "machine"],
}

# Those of which the installed library has another target than programs that Bazel builds.
KINDS_APART = {"cuda": ":apart"}

# Those whose devices compute, so that the definition of a device is asked of them.
COMPUTING_KINDS = [kind for kind in DEVICE_KINDS if kind != "described"]
