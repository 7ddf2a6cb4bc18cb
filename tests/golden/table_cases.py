"""Cases of tables in bags. The options of a case stand beside its values, as option.LAYER, a list
of numbers: tests/layers/table_cases.c reads them, so that only this file lists cases."""

import itertools

import torch
import torch.nn as nn

from vision_cases import options

MODES = ("mean", "sum", "max")


def bag(case, mode, rows, dim, bags, length, padding=None, ends=False, scaled=False, sparse=False,
        wide=True):
    """length 0: by offsets, with an empty bag and one of one id."""
    offsets = None
    dtype = torch.int64 if wide else torch.int32
    if length == 0:
        starts = [0, 3, 3, 4, 9][:bags] + ([11] if ends else [])
        offsets = case.given("offsets", torch.tensor(starts, dtype=dtype))
    ids = case.ids("ids", 0, rows, *((bags, length) if length else (11,)), dtype=dtype)
    options(case, "embedding_bag", MODES.index(mode), rows, dim, length == 0, ends, scaled,
            padding is not None, padding or 0, sparse)
    layer = nn.EmbeddingBag(rows, dim, mode=mode, padding_idx=padding, include_last_offset=ends,
                            sparse=sparse)
    case.module("layer", layer)
    scales = case.parameter("scales", *ids.shape) if scaled else None
    case.judge("y", layer(ids, offsets, per_sample_weights=scales))


def bag_cases(cases):
    grid = itertools.product(MODES, (0, 4), (None, 2, -1), (False, True))
    for mode, length, padding, sparse in grid:
        if sparse and mode == "max":
            continue
        name = "bag_%s_%s" % (mode, "rows" if length else "offsets")
        name += "" if padding is None else "_padding%d" % padding
        name += "_sparse" if sparse else ""
        arguments = dict(mode=mode, rows=7, dim=5, bags=4 if length else 5, length=length,
                         padding=padding, sparse=sparse)
        cases[name] = (bag, arguments)
        if mode == "sum":
            cases[name + "_scaled"] = (bag, dict(arguments, scaled=True))
        if not length:
            cases[name + "_ends"] = (bag, dict(arguments, ends=True))
    cases["bag_narrow"] = (bag, dict(mode="mean", rows=9, dim=1, bags=3, length=2, wide=False))
    cases["bag_wide"] = (bag, dict(mode="sum", rows=4, dim=37, bags=5, length=0, wide=False))


def table_cases():
    """name -> (function, its arguments)"""
    cases = {}
    bag_cases(cases)
    return cases
