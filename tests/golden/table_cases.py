"""Cases of tables in bags, of products, and of attention. The options of a case are beside its
values, as option.LAYER, a list of numbers: tests/layers/cases/table.c reads them, so that only this
file lists cases."""

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


def matmul(case, a, b):
    options(case, "matmul")
    case.judge("y", torch.matmul(case.parameter("a", *a), case.parameter("b", *b)))


def transpose(case, shape, first, second):
    options(case, "transpose", first, second)
    case.judge("y", torch.transpose(case.parameter("x", *shape), first, second) * 1)


def interaction(case, shape, with_self):
    """The form of DLRM: the lower triangle of the products of all pairs."""
    options(case, "dot_interaction", with_self)
    x = case.parameter("x", *shape)
    products = torch.bmm(x, x.transpose(1, 2))
    pairs = [(i, j) for i in range(shape[1]) for j in range(i + with_self)]
    case.judge("y", products[:, [i for i, _ in pairs], [j for _, j in pairs]])


def masks(case, queries, keys, batch, causal, padded):
    """attn_mask, key_padding_mask; every query sees a key."""
    causal_mask = torch.ones(queries, keys, dtype=torch.bool).triu(1) if causal else None
    padding = None
    if padded:
        padding = torch.zeros(batch, keys, dtype=torch.bool)
        padding[0, -1] = padding[-1, 1:] = True
        case.given("padding", padding)
    return causal_mask, padding


def given_mask(case, kind, queries, keys, batch, heads):
    """attn_mask as the case's input: 1 bool, 2 added, 3 and 4 the same for each head."""
    shape = (queries, keys) if kind < 3 else (batch * heads, queries, keys)
    if kind % 2:
        mask = case.draw(*shape) > 0.3
        mask[..., 0] = False  # every query sees a key
    else:
        mask = case.draw(*shape) * 2
        mask[..., 1, 1] = float("-inf")
    return case.given("mask", mask)


def attention(case, batch, queries, keys, heads, dim, width, causal, padded, mask=0):
    options(case, "attention", heads, causal, padded, mask)
    q = case.parameter("q", batch, queries, heads * dim)
    k = case.parameter("k", batch, keys, heads * dim)
    v = case.parameter("v", batch, keys, heads * width)
    causal_mask, padding = masks(case, queries, keys, batch, causal, padded)
    scores = torch.einsum("bqhd,bkhd->bhqk", q.view(batch, queries, heads, dim),
                          k.view(batch, keys, heads, dim)) / dim**0.5
    if causal:
        scores = scores.masked_fill(causal_mask, float("-inf"))
    if padded:
        scores = scores.masked_fill(padding[:, None, None], float("-inf"))
    if mask:
        given = given_mask(case, mask, queries, keys, batch, heads)
        given = given.view(batch, heads, queries, keys) if mask > 2 else given
        hidden = given if given.dtype == torch.bool else None
        scores = scores + given if hidden is None else scores.masked_fill(hidden, float("-inf"))
    y = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v.view(batch, keys, heads, width))
    case.judge("y", y.reshape(batch, queries, heads * width))


def multi_head_attention(case, features, heads, queries, keys, batch, batch_first, bias, causal,
                         padded, same, mask=0):
    options(case, "multi_head_attention", heads, batch_first, bias, causal, padded, same, mask)
    layer = case.module("layer", nn.MultiheadAttention(features, heads, bias=bias,
                                                       batch_first=batch_first))

    def rows(name, length):
        shape = (batch, length) if batch_first else (length, batch)
        return case.parameter(name, *shape, features)

    query = rows("query", queries)
    key, value = (query, query) if same else (rows("key", keys), rows("value", keys))
    keys = queries if same else keys
    causal_mask, padding = masks(case, queries, keys, batch, causal, padded)
    if mask:
        given = given_mask(case, mask, queries, keys, batch, heads)
    y, _ = layer(query, key, value, key_padding_mask=padding,
                 attn_mask=given if mask else causal_mask, need_weights=False)
    case.judge("y", y)


def product_cases(cases):
    for a, b in (
        ((3, 4), (4, 2)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (3, 4, 2)), ((1, 3, 4), (5, 4, 2)), ((2, 3, 4), (1, 4, 5)),
        ((1, 2, 3), (2, 1, 3, 2)), ((1, 1), (1, 1))
    ):
        name = "matmul_%s_%s" % tuple("x".join(map(str, shape)) for shape in (a, b))
        cases[name] = (matmul, dict(a=a, b=b))
    for first, second in ((0, 1), (0, 2), (1, 3), (-1, 2), (2, 0), (1, 1)):
        arguments = dict(shape=(2, 3, 4, 5), first=first, second=second)
        cases["transpose_%d_%d" % (first, second)] = (transpose, arguments)
    for shape, with_self in (((2, 3, 4), False), ((3, 5, 2), True), ((1, 2, 7), False)):
        name = "interaction_%dx%dx%d" % shape
        cases[name] = (interaction, dict(shape=shape, with_self=with_self))


def attention_cases(cases):
    for causal, padded in itertools.product((False, True), repeat=2):
        label = ("_causal" if causal else "") + ("_padded" if padded else "")
        for heads in (1, 2):
            cases["attention_%d%s" % (heads, label)] = (attention, dict(
                batch=2, queries=4, keys=4, heads=heads, dim=3, width=2, causal=causal,
                padded=padded
            ))
        for batch_first, bias in itertools.product((False, True), repeat=2):
            name = "mha" + ("_batch_first" if batch_first else "") + ("_bias" if bias else "")
            same = batch_first == bias
            cases[name + label] = (multi_head_attention, dict(
                features=6, heads=3 if bias else 2, queries=3, keys=3 if causal else 5, batch=2,
                batch_first=batch_first, bias=bias, causal=causal, padded=padded, same=same
            ))
    for mask in range(1, 5):
        for causal, padded in ((False, False), (True, True)):
            label = "_mask%d" % mask + ("_causal_padded" if causal else "")
            cases["attention" + label] = (attention, dict(
                batch=2, queries=4, keys=4, heads=2, dim=3, width=2, causal=causal, padded=padded,
                mask=mask
            ))
        cases["mha_mask%d" % mask] = (multi_head_attention, dict(
            features=6, heads=2, queries=3, keys=5, batch=2, batch_first=mask > 2, bias=True,
            causal=False, padded=False, same=False, mask=mask
        ))
    cases["attention_long"] = (attention, dict(
        batch=1, queries=35, keys=35, heads=1, dim=2, width=1, causal=True, padded=False
    ))


def table_cases():
    """name -> (function, its arguments)"""
    cases = {}
    bag_cases(cases)
    product_cases(cases)
    attention_cases(cases)
    return cases
