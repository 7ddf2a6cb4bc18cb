"""Cases of losses over a grid of their options, which stand beside a case's values, as
option.BUILDER: tests/layers/loss_cases.c reads them, so that only this file lists cases."""

import itertools

import torch
import torch.nn.functional as F

REDUCTIONS = ("mean", "sum", "none")


def finish(case, options, builder, loss):
    case.record("option." + builder, torch.tensor([float(n) for n in options], dtype=torch.float64))
    if loss.dim() > 0:
        case.judge("y", loss)
    else:
        case.record("output.y", loss)
        case.add(loss)


def positive(case, name, *shape):
    return case.given(name, case.draw(*shape).abs() + 0.1)


def classes(case, kind, reduction, weighted, ignored, smoothing=0.0, dtype=torch.int64):
    """The last class is never a target."""
    rows, count = 7, 5
    judged = case.parameter("judged", rows, count)
    targets = case.ids("targets", 0, count - 1, rows, dtype=dtype)
    weight = positive(case, "weight", count) if weighted else None
    if kind == 0:
        loss = F.nll_loss(
            judged, targets.long(), weight, None, ignored, None, REDUCTIONS[reduction]
        )
    else:
        loss = F.cross_entropy(
            judged, targets.long(), weight, None, ignored, None, REDUCTIONS[reduction], smoothing
        )
    finish(case, (kind, reduction, weighted, ignored, smoothing), "classes", loss)


def binary(case, reduction, weight, pos_weight, scale=1.0):
    shape = (3, 2, 5)
    x = case.parameter("x", *shape, scale=scale)
    targets = case.given("targets", torch.sigmoid(case.draw(*shape) * 2))
    given = {
        name: None if rank is None else positive(case, name, *shape[3 - rank:])
        for name, rank in (("weight", weight), ("pos_weight", pos_weight))
    }
    loss = F.binary_cross_entropy_with_logits(x, targets, reduction=REDUCTIONS[reduction], **given)
    ranks = (-1 if rank is None else rank for rank in (weight, pos_weight))
    finish(case, (reduction, *ranks), "binary", loss)


def difference(case, kind, reduction, beta=1.0):
    a = case.parameter("a", 4, 7, scale=1.5)
    b = case.parameter("b", 4, 7)
    reduced = REDUCTIONS[reduction]
    if kind == 0:
        loss = F.l1_loss(a, b, reduction=reduced)
    elif kind == 1:
        loss = F.smooth_l1_loss(a, b, reduction=reduced, beta=beta)
    else:
        loss = F.huber_loss(a, b, reduction=reduced, delta=beta)
    finish(case, (kind, reduction, beta), "difference", loss)


def loss_cases():
    """name -> (function, its arguments)"""
    cases = {}
    for reduction, weighted, ignored in itertools.product(range(3), (False, True), (-100, 2)):
        name = "%s%s%s" % (
            REDUCTIONS[reduction], "_weight" if weighted else "", "_ignore" if ignored >= 0 else ""
        )
        arguments = dict(reduction=reduction, weighted=weighted, ignored=ignored)
        cases["nll_" + name] = (classes, dict(arguments, kind=0))
        for smoothing in (0.0, 0.1, 1.0) if weighted else (0.1, 0.4):
            cases["cross_entropy_%s_%g" % (name, smoothing)] = (
                classes, dict(arguments, kind=1, smoothing=smoothing)
            )
    narrow = dict(reduction=0, weighted=True, ignored=1, dtype=torch.int32)
    cases["nll_int32"] = (classes, dict(narrow, kind=0))
    cases["cross_entropy_int32"] = (classes, dict(narrow, kind=1, smoothing=0.2))
    ranks = (None, 0, 1, 2, 3)
    for reduction, weight, pos_weight in itertools.product(range(3), ranks, ranks):
        if reduction > 0 and (weight or 0) + (pos_weight or 0) not in (0, 1, 4):
            continue
        name = "binary_%s_%s_%s" % (REDUCTIONS[reduction], weight, pos_weight)
        cases[name] = (binary, dict(reduction=reduction, weight=weight, pos_weight=pos_weight))
    for scale in (0.01, 40.0):
        cases["binary_scale_%g" % scale] = (
            binary, dict(reduction=2, weight=None, pos_weight=1, scale=scale)
        )
    for reduction in range(3):
        cases["l1_" + REDUCTIONS[reduction]] = (difference, dict(kind=0, reduction=reduction))
        for kind, beta in itertools.product((1, 2), (0.3, 1.0, 2.5)):
            name = "%s_%s_%g" % (("smooth_l1", "huber")[kind - 1], REDUCTIONS[reduction], beta)
            cases[name] = (difference, dict(kind=kind, reduction=reduction, beta=beta))
    return cases
