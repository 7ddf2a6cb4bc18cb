"""The rooms of folders, each with the rooms that it stands on: what its files may include, and,
with what those stand on in turn, what its target may reach. BUILD and include_test.py read this."""

load("//devices/kinds:kinds.bzl", "DEVICE_KINDS")

# On core and on devices/ itself, whose headers are what kernels and their callers agree on; kinds
# stand beside these.
DEVICE_ROOMS = dict({
    "contract": [],
    "machine": [],
    "topology": [],
    "context": ["contract", "machine", "topology"],
    "staging": ["context", "contract", "topology"],
    "links": ["context", "contract", "network", "staging", "topology"],
    "tensors": ["context", "contract", "staging"],
    "absent": ["context", "contract"],
    "network": ["contract"],
    "groups": ["context", "contract", "network"],
    "creation": [
        "absent",
        "context",
        "contract",
        "groups",
        "links",
        "machine",
        "network",
        "staging",
        "topology",
    ],
    "host": ["context", "contract", "topology"],
    "kinds": ["contract"] + list(DEVICE_KINDS),
}, **DEVICE_KINDS)

# Rooms within kinds, likewise; of the kind that one is in it sees what is listed alone.
KIND_ROOMS = {
    "cpu/kernels": ["host"],
    "cuda/library": [],
    "cuda/kernels": ["cuda/library"],
}

ROOMS_AND_KIND_ROOMS = dict(DEVICE_ROOMS, **KIND_ROOMS)

# Those of them that stand on net/ too; through them, those that stand on them reach it.
ROOMS_ON_NET = ["creation", "network"]

# From the ground up, each on those before it.
GRAPH_ROOMS = [
    "schedule",
    "ir",
    "store",
    "describe",
    "passes",
    "sharding",
    "gradient",
    "collectives",
    "plan",
    "report",
    "run",
    "forecast",
]
