"""The rooms of folders, each with its dependencies: the headers that its files may include and,
with their dependencies in turn, the targets that its target may reach. BUILD and include_test.py
read this."""

load("//devices/kinds:kinds.bzl", "DEVICE_KINDS")

# They depend on core and on devices/ itself, whose headers kernels and their callers share. Kinds
# are separate.
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

# Rooms within kinds, likewise. A room may use only the listed parts of its kind.
KIND_ROOMS = {
    "cuda/library": [],
}

# The kernels of a kind, which are in devices/kernels/FAMILY/KIND/, likewise.
KERNEL_ROOMS = {
    "cpu": ["host"],
    "cuda": ["cuda/library"],
}

ROOMS_AND_KIND_ROOMS = dict(DEVICE_ROOMS, **KIND_ROOMS)

# Those of them that also depend on net/; their dependents reach it through them.
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
