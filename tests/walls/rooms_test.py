#!/usr/bin/python3
"""A room of the product has few files, and no file in it depends on one that depends on it.

A unit is NAME.c or NAME.cu with NAME.h, and NAME_state.h, which its files share. It depends on
another unit if one of its files includes that unit's header. Public headers belong to all
folders and do not count.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
from include_test import INCLUDE, IS_PUBLIC  # noqa: E402
from source_tree import C_ENDINGS, read_files, verdict  # noqa: E402

MOST_FILES = 30
PRODUCT = re.compile(r"(core|devices|net|graph|layers|data|checkpoint)/")

# A folder with kernels of one family for one kind.
FAMILY = re.compile(r"devices/kernels/(\w+)/(?:cpu|cuda)")

# Larger ones, in which each file can be understood without the others.
LARGER = {
    "core": "small units of which each stands alone; nothing below them would divide them",
}


def unit_of(name):
    """The unit of a file, by its name without the folder."""
    stem = name.rsplit(".", 1)[0]
    return stem[:-len("_state")] if name.endswith("_state.h") else stem


def circle_in(below):
    """Returns units of below (each with its dependencies) that form a circle; [] for none."""
    done = set()

    def search(unit, path):
        if unit in path:
            return path[path.index(unit):]
        if unit in done:
            return []
        for other in sorted(below.get(unit, ())):
            circle = search(other, path + [unit])
            if circle:
                return circle
        done.add(unit)
        return []

    return next((circle for circle in (search(unit, []) for unit in sorted(below)) if circle), [])


def units_below(room, files):
    """Each unit of a room to the units of it that its files include."""
    below = {}
    for name, text in files:
        for header in INCLUDE.findall(text):
            folder, _, included = header.rpartition("/")
            if folder != room or IS_PUBLIC.fullmatch(header):
                continue
            if unit_of(included) != unit_of(name):
                below.setdefault(unit_of(name), set()).add(unit_of(included))
    return below


def check(room, files):
    """The complaints about one room, of (name, text) of its files."""
    complaints = []
    if room in LARGER:
        if len(files) <= MOST_FILES:
            complaints.append("%s: no larger than other rooms, so no exception" % room)
    elif len(files) > MOST_FILES:
        complaints.append("%s: %d files, over %d: give some of them a room of their own" %
                          (room, len(files), MOST_FILES))
    circle = circle_in(units_below(room, files))
    if circle:
        complaints.append("%s: %s stand on one another" % (room, " -> ".join(circle + circle[:1])))
    return complaints


def check_families(rooms):
    """Each family of kernels has both kinds, and its layers have a folder of the same name."""
    families = {kernels.group(1) for kernels in map(FAMILY.fullmatch, rooms) if kernels}
    families |= {room.split("/")[1] for room in rooms if room.startswith("layers/")}
    return ["%s: is missing, so the family %s is incomplete" % (wanted % family, family)
            for family in sorted(families) for wanted in (
                "devices/kernels/%s/cpu", "devices/kernels/%s/cuda", "layers/%s")
            if wanted % family not in rooms]


def check_rules():
    """The rules must refuse these, or the test could not fail."""
    if len(check_families({"devices/kernels/a/cpu": [], "layers/b": []})) != 4:
        return ["the rules let incomplete families"]
    many = [("f%d.c" % i, "") for i in range(MOST_FILES + 1)]
    circle = [("a.c", '#include "graph/x/b.h"\n'), ("b.h", '#include "graph/x/c_state.h"\n'),
              ("c.c", '#include "graph/x/a.h"\n')]
    return ["the rules let %s" % what for what, files in (("many files", many), ("circles", circle))
            if not check("graph/x", files)]


def main():
    rooms = {}
    for path, text in read_files(C_ENDINGS):
        if PRODUCT.match(path):
            room, name = os.path.split(path)
            rooms.setdefault(room, []).append((name, text))
    complaints = check_rules() + check_families(rooms)
    complaints += ["%s: is no room any more" % room for room in LARGER if room not in rooms]
    for room, files in sorted(rooms.items()):
        complaints += check(room, files)
    return verdict(complaints, sum(len(files) for files in rooms.values()))


if __name__ == "__main__":
    sys.exit(main())
