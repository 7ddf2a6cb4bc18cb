"""The kinds of devices: the build, the walls and the tests of devices read this list.

A kind NAME is the folder devices/NAME with the target of that name, which defines tdm_NAME_kind.
"""

# In the order in which contexts list devices, the host's first; each with the rooms that it depends
# on, as in tests/walls/rooms.bzl.
DEVICE_KINDS = {
    "cpu": ["context", "contract", "host", "topology"],
    "sim": ["context", "contract", "host", "staging", "topology"],
    "cuda": ["context", "contract", "staging", "topology"],
    "described": ["absent", "context", "contract", "machine"],
}

# Kinds with different targets for the installed library and for programs that Bazel builds.
KINDS_APART = {"cuda": ":apart"}

# Kinds whose devices compute, which therefore have to pass the conformance suite.
COMPUTING_KINDS = [kind for kind in DEVICE_KINDS if kind != "described"]
