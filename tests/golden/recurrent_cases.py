"""Cases of RNN, LSTM and GRU. The options of a case are beside its values, as option.recurrent, a
list of numbers: tests/layers/cases/recurrent.c reads them, so that only this file lists cases."""

import itertools

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

KINDS = ("tanh", "relu", "lstm", "gru")


def make_layer(kind, *arguments, **options):
    if kind in ("tanh", "relu"):
        return nn.RNN(*arguments, nonlinearity=kind, **options)
    return (nn.LSTM if kind == "lstm" else nn.GRU)(*arguments, **options)


def run(layer, x, states, lengths, batch_first):
    if lengths is None:
        return layer(x, states)
    total = x.shape[1 if batch_first else 0]
    packed = pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted=False)
    y, states = layer(packed, states)
    return pad_packed_sequence(y, batch_first=batch_first, total_length=total)[0], states


def recurrent(case, kind, layers=1, bidirectional=False, batch_first=False, bias=True,
              initial=False, lengths=None, dropout=0, length=4, batch=3):
    features, hidden = 3, 2
    numbers = (
        KINDS.index(kind), layers, bidirectional, batch_first, bias, initial,
        lengths is not None, dropout
    )
    case.record(
        "option.recurrent_in_training" if dropout else "option.recurrent",
        torch.tensor([float(n) for n in numbers], dtype=torch.float64)
    )
    layer = case.module("layer", make_layer(
        kind, features, hidden, layers, bias=bias, batch_first=batch_first, dropout=dropout,
        bidirectional=bidirectional
    ))
    x = case.parameter("x", *((batch, length) if batch_first else (length, batch)), features)
    states = None
    if initial:
        shape = (layers * (1 + bidirectional), batch, hidden)
        states = case.parameter("h0", *shape)
        if kind == "lstm":
            states = (states, case.parameter("c0", *shape))
    of_rows = None
    if lengths is not None:
        of_rows = case.ids("lengths", 1, length + 1, batch, dtype=lengths).to(torch.int64)
    y, states = run(layer, x, states, of_rows, batch_first)
    case.judge("y", y)
    for name, state in zip(("h_n", "c_n"), states if kind == "lstm" else (states,)):
        case.judge(name, state.reshape(-1, hidden))
    layer.eval()
    case.record("evaluated.y", run(layer, x, None if not initial else (
        (case.parameters["h0"], case.parameters["c0"]) if kind == "lstm"
        else case.parameters["h0"]
    ), of_rows, batch_first)[0])


def recurrent_cases():
    """name -> (function, its arguments)"""
    cases = {}
    grid = itertools.product(
        KINDS, (1, 2), (False, True), (False, True), (None, torch.int64, torch.int32)
    )
    for i, (kind, layers, bidirectional, initial, lengths) in enumerate(grid):
        batch_first, bias = i % 2 == 0, i % 5 != 0
        name = "%s_%d" % (kind, layers)
        name += "_bidirectional" if bidirectional else ""
        name += "_batch_first" if batch_first else ""
        name += "_states" if initial else ""
        name += "" if lengths is None else "_lengths%d" % torch.iinfo(lengths).bits
        name += "" if bias else "_without_bias"
        cases[name] = (recurrent, dict(
            kind=kind, layers=layers, bidirectional=bidirectional, batch_first=batch_first,
            bias=bias, initial=initial, lengths=lengths
        ))
    for kind in KINDS:
        cases[kind + "_one_step"] = (recurrent, {"kind": kind, "length": 1})
        cases[kind + "_one_row"] = (recurrent, {"kind": kind, "batch": 1, "bidirectional": True})
        cases[kind + "_dropout"] = (recurrent, {"kind": kind, "layers": 2, "dropout": 1})
    return cases
