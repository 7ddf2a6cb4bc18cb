#!/usr/bin/python3
"""No file includes a header from beyond a wall: core <- devices <- graph <- layers, data on
devices, checkpoint on graph and data, and net on core, below the rooms that connect ranks.

The build graph has the same walls (see BUILD in this folder), but does not detect a header that
another target happens to provide. The first rule whose folder fits a file is the one that
counts. Public headers are included as programs do it, tandem/core/core.h, and only they.
"""
import re
import sys

sys.dont_write_bytecode = True
from source_tree import C_ENDINGS, read_file, read_files, verdict  # noqa: E402

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"|<(?=tandem/))([^">]+)[">]', re.MULTILINE)
GRAPH = "graph/[^/]*"
LAYERS = "layers/(layers|%s)" % "|".join(
    re.findall(r'"tandem/layers/(\w+)\.h"', read_file("layers/layers.h")))
PUBLIC = "(checkpoint/checkpoint|core/core|devices/(devices|kernel|properties)|%s|%s|data/data)" % (
    GRAPH, LAYERS)
IS_PUBLIC = re.compile(r"%s\.h|tandem\.h" % PUBLIC)


# Headers that the kernels of all kinds share: NAME.h and FAMILY/NAME.h in devices/kernels.
KERNEL_HEADERS = r"devices/kernels/((?!(cpu|cuda)/)[^/]+/)?[^/]*"


def room_rules(folder, rooms):
    """Returns a rule for each room of folder, which depends on core, the folder and its rooms."""
    on_net = ROOMS["ROOMS_ON_NET"]
    beside = "%s/[^/]*|%s" % (folder, KERNEL_HEADERS)
    return [("%s/%s/.*" % (folder, room),
             "core/.*|%s|%s/(%s)/.*%s%s" % (
                 beside, folder, "|".join([room] + below), "|net/.*" if room in on_net else "",
                 "|devices/kernels/cpu/kernels.h" if room == "cpu" else ""))
            for room, below in rooms.items()]


ROOMS = {"load": lambda *names: None}
for listed in ("devices/kinds/kinds.bzl", "tests/walls/rooms.bzl"):
    exec(read_file(listed), ROOMS)

# Folders above devices/ may include the rooms without kinds.
ABOVE_DEVICES = (r"core/.*|%s|devices/(?!(host|kernels|%s|kinds|creation)/).*" %
                 (KERNEL_HEADERS, "|".join(ROOMS["DEVICE_KINDS"])))
BELOW_GRAPH = ABOVE_DEVICES + "|net/.*"

# (which files, what they may include)
RULES = [(re.compile(files), re.compile(headers)) for files, headers in (
    *((r"graph/%s/.*" % room,
       r"%s|%s\.h|graph/(%s)/.*" % (BELOW_GRAPH, GRAPH, "|".join(ROOMS["GRAPH_ROOMS"][:i + 1])))
      for i, room in enumerate(ROOMS["GRAPH_ROOMS"])),
    (r"tandem\.h", PUBLIC + r"\.h"),
    (r"core/core\.h", r"$^"),
    (r"%s\.h" % PUBLIC, PUBLIC + r"\.h"),
    (r"core/.*", r"core/.*"),
    (r"devices/[^/]*|" + KERNEL_HEADERS, r"core/.*|devices/[^/]*|" + KERNEL_HEADERS),
    *((r"devices/kernels/(.*/)?%s/.*" % kind,
       r"core/.*|devices/[^/]*|%s|devices/kernels/(.*/)?%s/.*|devices/(%s)/.*" % (
           KERNEL_HEADERS, kind, "|".join(below)))
      for kind, below in ROOMS["KERNEL_ROOMS"].items()),
    *room_rules("devices", ROOMS["KIND_ROOMS"]),
    *room_rules("devices", ROOMS["DEVICE_ROOMS"]),
    (r"net/.*", r"core/.*|net/.*"),
    (r"graph/.*", BELOW_GRAPH + r"|graph/.*"),
    (r"layers/.*", ABOVE_DEVICES + r"|graph/.*|layers/.*"),
    (r"data/safetensors/.*", ABOVE_DEVICES + r"|data/safetensors/.*|data/data\.h"),
    (r"data/.*", ABOVE_DEVICES + r"|data/.*"),
    (r"checkpoint/.*", ABOVE_DEVICES + r"|graph/.*|data/.*|checkpoint/.*"),
    (r"(tools/(draw|options|progress))/.*", r"tandem\.h|tools/(draw|options|progress)/.*\.h"),
    (r"examples/.*", r"tandem\.h|(examples|tools/options|tools/progress)/.*\.(h|inc)"),
)]


def check(path, text):
    """The complaints about one file."""
    complaints = []
    allowed = next((headers for files, headers in RULES if files.fullmatch(path)), None)
    for match in INCLUDE.finditer(text):
        header = match.group(1)
        public = header.startswith("tandem/")
        header = header[len("tandem/"):] if public else header
        where = "%s:%d: includes %s" % (path, text.count("\n", 0, match.start(1)) + 1, header)
        if allowed and not allowed.fullmatch(header):
            complaints.append(where + ", which is behind a wall")
        elif bool(IS_PUBLIC.fullmatch(header)) != public:
            complaints.append(where + (", which is not public" if public else
                                       ", which is public: tandem/" + header))
        elif header.endswith((".c", ".cu")):
            complaints.append(where + ", which is no header")
    return complaints


def check_rules():
    """The rules must refuse these, or the test could not fail."""
    planted = (
        ("devices/context/lookup.c", "devices/staging/pool.h"),
        ("net/endpoint.c", "devices/devices.h"), ("devices/links/table.c", "net/transport.h"),
        ("data/loader.c", "net/transport.h"),
        ("core/status.c", "devices/contract/device.h"), ("devices/registry.c", "graph/graph.h"),
        ("devices/cpu/cpu.c", "devices/sim/sim.h"), ("graph/plan/plan.c", "devices/cpu/cpu.h"),
        ("graph/plan/plan.c", "layers/layers.h"), ("layers/products/linear.c", "devices/sim/sim.h"),
        ("data/loader.c", "graph/graph.h"), ("examples/first_model.c", "core/core.h"),
        ("graph/graph.h", "graph/plan/plan.h"), ("data/loader.c", "checkpoint/checkpoint.h"),
        ("graph/plan/plan.h", "graph/run/session.h"), ("graph/store/store.c", "graph/plan/plan.h"),
        ("checkpoint/checkpoint.c", "layers/layers.h"), ("tests/core/map_test.c", "core/map.c"),
        ("examples/first_model.c", "tandem/core/core.h"), ("graph/plan/plan.c", "core/core.h"),
        ("graph/plan/plan.c", "tandem/core/status.h"), ("bench/timing.c", "tandem.h"),
        ("devices/cuda/library/opened.c", "devices/cuda/gpu.h"),
        ("data/safetensors/read.c", "data/dataset.h"),
        ("devices/kernels/updates/cuda/updates.cu", "devices/contract/device.h"),
        ("devices/kernels/updates/cuda/updates.cu", "devices/kernels/tables/cpu/sorted_ids.h"),
        ("devices/kernels/updates/cpu/updates.c", "devices/cpu/memory.h"),
        ("devices/kernels/updates/optimizers.h", "devices/kernels/cpu/vector.h"),
        ("layers/products/linear.c", "devices/kernels/products/cpu/product.h"),
    )
    return ["the rules let %s include %s" % pair
            for pair in planted if not check(pair[0], '#include "%s"\n' % pair[1])]


def main():
    complaints = check_rules()
    files_count = 0
    for path, text in read_files(C_ENDINGS):
        files_count += 1
        complaints += check(path, text)
    return verdict(complaints, files_count)


if __name__ == "__main__":
    sys.exit(main())
