"""The rooms of folders, each with the rooms that it stands on: what its files may include, and,
with what those stand on in turn, what its target may reach. BUILD and include_test.py read this."""

# On core and on devices/ itself, whose headers are what kernels and their callers agree on.
DEVICE_ROOMS = {
    "contract": [],
    "machine": [],
    "topology": [],
    "context": ["contract", "machine", "topology"],
    "staging": ["context", "contract", "topology"],
    "links": ["context", "contract", "staging", "topology"],
    "tensors": ["context", "contract", "staging"],
    "absent": ["context", "contract"],
    "network": ["contract"],
    "creation": [
        "absent",
        "context",
        "contract",
        "links",
        "machine",
        "network",
        "staging",
        "topology",
    ],
    "host": ["context", "contract", "topology"],
    "cpu": ["context", "contract", "host", "topology"],
    "sim": ["context", "contract", "host", "staging", "topology"],
    "cuda": ["context", "contract", "staging", "topology"],
    "described": ["absent", "context", "contract", "machine"],
    "kinds": ["contract", "cpu", "cuda", "described", "sim"],
}

# Those of them that stand on net/ too.
ROOMS_ON_NET = ["creation", "network"]

# From the ground up, each on those before it.
GRAPH_ROOMS = [
    "schedule",
    "ir",
    "store",
    "describe",
    "passes",
    "plan",
    "report",
    "run",
    "forecast",
]
