"""Cases of layers, functions and losses: each a function that builds on a Case."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def embedding(case, shape=(6,), padding=None, sparse=False, dtype=torch.int64, twice=False):
    rows, dim = 7, 5
    layer = nn.Embedding(rows, dim, padding_idx=padding, sparse=sparse)
    case.module("layer", layer)
    ids = case.ids("ids", 0, rows, *shape, dtype=dtype)
    case.judge("y", layer(ids))
    if twice:
        case.judge("z", layer(case.ids("other_ids", 0, rows, 4, dtype=dtype)))


def linear(case, shape=(4, 7), out=5, bias=True, twice=False):
    layer = case.module("layer", nn.Linear(shape[-1], out, bias=bias))
    case.judge("y", layer(case.parameter("x", *shape)))
    if twice:
        case.judge("z", layer(case.parameter("other_x", 3, shape[-1])))


def rnn(case, layers=1, relu=False, batch_first=False, h0=False, length=5, batch=3):
    features, hidden = 4, 6
    nonlinearity = "relu" if relu else "tanh"
    layer = case.module(
        "layer", nn.RNN(
            features, hidden, layers, nonlinearity=nonlinearity, batch_first=batch_first
        )
    )
    shape = (batch, length, features) if batch_first else (length, batch, features)
    x = case.parameter("x", *shape)
    first = case.parameter("h0", layers, batch, hidden) if h0 else None
    y, h_n = layer(x, first)
    case.judge("y", y)
    for i in range(layers):
        case.judge("h_n%d" % i, h_n[i])


def rnn_last_step(case):
    layer = case.module("layer", nn.RNN(4, 6))
    y, _ = layer(case.parameter("x", 5, 3, 4))
    case.judge("y", y[-1])


def function(case, call=None, shape=(4, 7)):
    case.judge("y", call(case.parameter("x", *shape)))


def add(case, same=False):
    x = case.parameter("x", 4, 7)
    case.judge("y", x + (x if same else case.parameter("b", 4, 7)))


def cast(case):
    other = torch.float64 if case.dtype == torch.float32 else torch.float32
    x = case.parameter("x", 4, 7)
    # Values that both dtypes have, so that the cast itself is exact.
    with torch.no_grad():
        x.copy_(x.to(torch.float32))
    case.record("parameter.x", x)
    case.judge("y", torch.tanh(x.to(other).to(case.dtype)))


def shared(case):
    """One value with three consumers: their adjoints are summed."""
    x = case.parameter("x", 4, 7)
    y = torch.tanh(x)
    case.judge("y", torch.relu(y) + torch.sigmoid(y))
    case.judge("z", F.softmax(y, -1))


def cross_entropy(case, reduction="mean", ignored=None, dtype=torch.int64, use_default=False):
    logits = case.parameter("logits", 9, 5, scale=2.0)
    targets = torch.from_numpy(case.random.randint(0, 5, 9)).to(dtype)
    if ignored is not None:
        targets[::4] = ignored
    case.given("targets", targets)
    ignore_index = ignored if ignored is not None and not use_default else -100
    loss = F.cross_entropy(logits, targets.long(), reduction=reduction, ignore_index=ignore_index)
    finish_loss(case, loss)


def mse(case, reduction="mean"):
    a = case.parameter("a", 3, 4)
    finish_loss(case, F.mse_loss(a, case.parameter("b", 3, 4), reduction=reduction))


def finish_loss(case, loss):
    if loss.dim() == 0:
        case.record("output.y", loss)
        case.add(loss)
    else:
        case.judge("y", loss)


def layer_cases():
    """name -> (function, its arguments)"""
    cases = {
        "embedding": (embedding, {}),
        "embedding_scalar": (embedding, {"shape": ()}),
        "embedding_2d": (embedding, {"shape": (3, 4)}),
        "embedding_int32": (embedding, {"dtype": torch.int32}),
        "embedding_padding": (embedding, {"shape": (12,), "padding": 2}),
        "embedding_padding_negative": (embedding, {"shape": (12,), "padding": -1}),
        "embedding_tied": (embedding, {"twice": True}),
        "embedding_sparse": (embedding, {"shape": (3, 4), "sparse": True}),
        "embedding_sparse_padding": (embedding, {"shape": (12,), "padding": 2, "sparse": True}),
        "embedding_sparse_tied": (embedding, {"sparse": True, "twice": True}),
        "linear": (linear, {}),
        "linear_1d": (linear, {"shape": (7,)}),
        "linear_3d": (linear, {"shape": (2, 3, 7)}),
        "linear_4d": (linear, {"shape": (2, 2, 3, 7)}),
        "linear_one": (linear, {"shape": (1, 1), "out": 1}),
        "linear_wide": (linear, {"shape": (19, 33), "out": 17}),
        "linear_without_bias": (linear, {"bias": False}),
        "linear_tied": (linear, {"twice": True}),
        "rnn_last_step": (rnn_last_step, {}),
        "rnn_one_step": (rnn, {"length": 1}),
        "rnn_one_row": (rnn, {"batch": 1}),
        "relu": (function, {"call": torch.relu}),
        "tanh": (function, {"call": torch.tanh}),
        "sigmoid": (function, {"call": torch.sigmoid}),
        "add": (add, {}),
        "add_same": (add, {"same": True}),
        "cast": (cast, {}),
        "shared": (shared, {}),
        "reshape": (function, {"call": lambda x: x.reshape(2, 7, 2).tanh()}),
        "reshape_infer": (function, {"call": lambda x: x.reshape(7, -1).tanh()}),
        "select_first": (function, {"call": lambda x: x.select(0, 1), "shape": (3, 4, 5)}),
        "select_middle": (function, {"call": lambda x: x.select(1, -1), "shape": (3, 4, 5)}),
        "select_last": (function, {"call": lambda x: x.select(-1, 2), "shape": (3, 4, 5)}),
        "last_step": (function, {"call": lambda x: x[-1], "shape": (3, 4, 5)}),
        "swap_2d": (function, {"call": lambda x: x.transpose(0, 1)}),
        "swap_3d": (function, {"call": lambda x: x.transpose(0, 1), "shape": (3, 4, 5)}),
    }
    for layers in (1, 2, 3):
        for relu in (False, True):
            for batch_first in (False, True):
                for h0 in (False, True):
                    name = "rnn_%d_%s" % (layers, "relu" if relu else "tanh")
                    name += ("_batch_first" if batch_first else "") + ("_h0" if h0 else "")
                    options = dict(layers=layers, relu=relu, batch_first=batch_first, h0=h0)
                    cases[name] = (rnn, options)
    for name, call in (("softmax", F.softmax), ("log_softmax", F.log_softmax)):
        for dimension, shape in ((0, (6,)), (0, (4, 7)), (-1, (4, 7)), (1, (3, 4, 5))):
            along = lambda x, call=call, dimension=dimension: call(x, dimension)
            label = "%s_%dd_%d" % (name, len(shape), dimension % len(shape))
            cases[label] = (function, {"call": along, "shape": shape})
    for reduction in ("mean", "sum", "none"):
        cases["mse_" + reduction] = (mse, {"reduction": reduction})
        cases["cross_entropy_" + reduction] = (cross_entropy, {"reduction": reduction})
        ignoring = {"reduction": reduction, "ignored": 3}
        cases["cross_entropy_%s_ignore" % reduction] = (cross_entropy, ignoring)
        default = {"reduction": reduction, "ignored": -100, "use_default": True}
        cases["cross_entropy_%s_default_ignore" % reduction] = (cross_entropy, default)
    cases["cross_entropy_int32"] = (cross_entropy, {"dtype": torch.int32})
    return cases
