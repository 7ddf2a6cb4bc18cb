"""Cases of what recurrent layers have besides their sequences (projections, single sequences,
cells), of attention with more than queries, keys and values, and of layers made of layers. The
options of a case are beside its values, as option.LAYER, a list of numbers:
tests/layers/cases/blocks.c reads them, so that only this file lists cases."""

import itertools

import torch
import torch.nn as nn

from recurrent_cases import KINDS, make_layer, run
from vision_cases import options

FEATURES, HIDDEN, PROJECTED = 3, 4, 2


def projected(case, layers, bidirectional, batch_first, bias, initial, lengths):
    options(case, "projected", layers, bidirectional, batch_first, bias, initial, lengths)
    layer = case.module("layer", nn.LSTM(
        FEATURES, HIDDEN, layers, bias=bias, batch_first=batch_first, bidirectional=bidirectional,
        proj_size=PROJECTED
    ))
    length, batch = 5, 3
    x = case.parameter("x", *((batch, length) if batch_first else (length, batch)), FEATURES)
    states, of_rows, count = None, None, layers * (1 + bidirectional)
    if initial:
        states = (case.parameter("h0", count, batch, PROJECTED),
                  case.parameter("c0", count, batch, HIDDEN))
    if lengths:
        of_rows = case.ids("lengths", 1, length + 1, batch)
    y, (h_n, c_n) = run(layer, x, states, of_rows, batch_first)
    case.judge("y", y)
    case.judge("h_n", h_n.reshape(-1, PROJECTED))
    case.judge("c_n", c_n.reshape(-1, HIDDEN))


def sequence(case, kind, bidirectional, initial):
    """One, without a batch."""
    options(case, "sequence", KINDS.index(kind), bidirectional, initial)
    layer = case.module("layer", make_layer(kind, FEATURES, HIDDEN, 2, bidirectional=bidirectional))
    x, states, count = case.parameter("x", 5, FEATURES), None, 2 * (1 + bidirectional)
    if initial:
        states = case.parameter("h0", count, HIDDEN)
        if kind == "lstm":
            states = (states, case.parameter("c0", count, HIDDEN))
    y, states = layer(x, states)
    case.judge("y", y)
    for name, state in zip(("h_n", "c_n"), states if kind == "lstm" else (states,)):
        case.judge(name, state.reshape(-1))


def cell(case, kind, bias, initial, single):
    options(case, "cell", KINDS.index(kind), bias, initial)
    make = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}.get(kind)
    layer = make(FEATURES, HIDDEN, bias) if make else nn.RNNCell(FEATURES, HIDDEN, bias, kind)
    case.module("layer", layer)
    batch = () if single else (2,)
    x, states = case.parameter("x", *batch, FEATURES), None
    if initial:
        states = case.parameter("h", *batch, HIDDEN)
        if kind == "lstm":
            states = (states, case.parameter("c", *batch, HIDDEN))
    after = layer(x, states)
    for name, state in zip(("h_n", "c_n"), after if kind == "lstm" else (after,)):
        case.judge(name, state)


def heads(case, itself=False, keys=6, values=6, batch_first=False, bias=True, bias_kv=False,
          zero=False, causal=False, mask="", padding=False, weights=0, single=False):
    """mask: "bool", "real", "by_head"; weights: 1 their mean over heads, 2 each head's."""
    numbers = (itself, batch_first, bias, bias_kv, zero, causal, bool(mask), padding, weights)
    options(case, "heads", *numbers)
    batch, queries, count = 2, 4, 4 if itself else 5
    layer = case.module("layer", nn.MultiheadAttention(
        6, 2, bias=bias, add_bias_kv=bias_kv, add_zero_attn=zero, kdim=keys, vdim=values,
        batch_first=batch_first
    ))

    def shape(length, features):
        if single:
            return (length, features)
        return (batch, length, features) if batch_first else (length, batch, features)

    query = case.parameter("query", *shape(queries, 6))
    key = query if itself else case.parameter("key", *shape(count, keys))
    value = query if itself else case.parameter("value", *shape(count, values))
    given = None
    if mask == "real":
        given = case.fed("mask", queries, count)
    elif mask:
        hidden = case.draw(*((2 * (1 if single else batch),) if mask == "by_head" else ()),
                           queries, count) > 0.5
        hidden[..., 0] = False
        given = case.given("mask", hidden)
    left_out = None
    if padding:
        left_out = torch.zeros(*(() if single else (batch,)), count, dtype=torch.bool)
        left_out[..., -1] = True
        case.given("padding", left_out)
    if causal:
        given = torch.ones(queries, count, dtype=torch.bool).triu(1)
    if left_out is not None and given is not None and given.dtype != torch.bool:
        left_out = torch.zeros(left_out.shape, dtype=case.dtype).masked_fill(left_out, -torch.inf)
    y, seen = layer(query, key, value, key_padding_mask=left_out, need_weights=weights > 0,
                    attn_mask=given, average_attn_weights=weights == 1)
    case.judge("y", y)
    if weights:
        case.judge("weights", seen)


def bilinear(case, shape, bias):
    options(case, "bilinear", bias)
    layer = case.module("layer", nn.Bilinear(3, 4, 5, bias=bias))
    case.judge("y", layer(case.parameter("a", *shape, 3), case.parameter("b", *shape, 4)))


def transformer(case, decoder, gelu, norm_first, batch_first, causal, padding):
    options(case, "transformer", decoder, gelu, norm_first, batch_first, causal, padding)
    make = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
    layer = case.module("layer", make(
        6, 2, 8, 0.0, "gelu" if gelu else "relu", batch_first=batch_first, norm_first=norm_first
    ))
    batch, length, more = 2, 4, 3
    x = case.parameter("x", *((batch, length) if batch_first else (length, batch)), 6)
    mask = torch.ones(length, length, dtype=torch.bool).triu(1) if causal else None
    left_out = None
    if padding:
        left_out = torch.zeros(batch, more if decoder else length, dtype=torch.bool)
        left_out[1, -1] = True
        case.given("padding", left_out)
    if decoder:
        memory = case.parameter("memory", *((batch, more) if batch_first else (more, batch)), 6)
        y = layer(x, memory, tgt_mask=mask, memory_key_padding_mask=left_out)
    else:
        y = layer(x, src_mask=mask, src_key_padding_mask=left_out)
    case.judge("y", y)


def heads_cases(cases):
    grid = (
        dict(keys=3, values=5), dict(keys=3, values=5, batch_first=True, bias=False, weights=1),
        dict(keys=6, values=5, mask="bool"), dict(bias_kv=True), dict(zero=True, weights=2),
        dict(bias_kv=True, zero=True, padding=True, mask="bool"),
        dict(bias_kv=True, zero=True, causal=True, itself=True, weights=1),
        dict(bias_kv=True, keys=3, values=4, mask="real", padding=True, weights=1,
             batch_first=True),
        dict(weights=1), dict(weights=2, itself=True, causal=True, padding=True),
        dict(weights=1, mask="by_head"), dict(weights=2, mask="real"),
        dict(single=True), dict(single=True, weights=2, padding=True, batch_first=True),
        dict(single=True, itself=True, mask="by_head", bias_kv=True, weights=1),
    )
    for i, told in enumerate(grid):
        cases["heads_%d" % i] = (heads, told)


def blocks_cases():
    """name -> (function, its arguments)"""
    cases = {}
    grid = itertools.product((1, 2), (False, True), (False, True), (False, True))
    for i, (layers, bidirectional, initial, lengths) in enumerate(grid):
        cases["projected_%d" % i] = (projected, dict(
            layers=layers, bidirectional=bidirectional, batch_first=i % 3 == 0, bias=i % 5 != 0,
            initial=initial, lengths=lengths
        ))
    for i, (kind, bidirectional) in enumerate(itertools.product(KINDS, (False, True))):
        cases["sequence_%d" % i] = (sequence, dict(
            kind=kind, bidirectional=bidirectional, initial=i % 3 != 0
        ))
    for i, (kind, initial, single) in enumerate(
            itertools.product(KINDS, (False, True), (False, True))):
        cases["cell_%d" % i] = (cell, dict(
            kind=kind, bias=i % 4 != 1, initial=initial, single=single
        ))
    heads_cases(cases)
    cases["bilinear_0"] = (bilinear, dict(shape=(2,), bias=True))
    cases["bilinear_1"] = (bilinear, dict(shape=(2, 3), bias=False))
    cases["bilinear_2"] = (bilinear, dict(shape=(), bias=True))
    for i, (decoder, norm_first, causal) in enumerate(
            itertools.product((False, True), (False, True), (False, True))):
        cases["transformer_%d" % i] = (transformer, dict(
            decoder=decoder, gelu=i % 3 == 1, norm_first=norm_first, batch_first=i % 2 == 0,
            causal=causal, padding=i in (1, 4, 6, 7)
        ))
    return cases
