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


def classes(case, kind, reduction, weighted, ignored, smoothing=0.0, dtype=torch.int64,
            shape=(7, 5)):
    """The last class is never a target."""
    count = shape[1 if len(shape) > 1 else 0]
    judged = case.parameter("judged", *shape)
    targets = case.ids("targets", 0, count - 1, *shape[:len(shape) - 1][:1], *shape[2:],
                       dtype=dtype)
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


def probabilities(case, reduction, weighted, smoothing, shape):
    count = shape[1 if len(shape) > 1 else 0]
    judged = case.parameter("judged", *shape)
    targets = case.given("targets", torch.softmax(case.draw(*shape), 1 if len(shape) > 1 else 0))
    weight = positive(case, "weight", count) if weighted else None
    loss = F.cross_entropy(
        judged, targets, weight, reduction=REDUCTIONS[reduction], label_smoothing=smoothing
    )
    finish(case, (reduction, weighted, smoothing), "probabilities", loss)


def divergence(case, reduction, logarithms, shape):
    """A third of the targets is 0, where they are no logarithms."""
    judged = case.parameter("judged", *shape)
    targets = torch.softmax(case.draw(*shape), -1)
    if logarithms:
        targets = targets.log()
    else:
        targets = targets * (case.draw(*shape) > -0.4)
    case.given("targets", targets)
    loss = F.kl_div(judged, targets, reduction=(*REDUCTIONS, "batchmean")[reduction],
                    log_target=logarithms)
    finish(case, (reduction, logarithms), "divergence", loss)


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
    for shape in ((4,), (2, 5, 4), (2, 3, 2, 3), (2, 4, 2, 1, 3)):
        for kind, reduction in itertools.product((0, 1), range(3)):
            name = "%s_%s_%s" % (
                ("nll", "cross_entropy")[kind], REDUCTIONS[reduction], "x".join(map(str, shape))
            )
            ignored = 1 if len(shape) > 1 else -100
            plain = dict(kind=kind, reduction=reduction, weighted=False, ignored=ignored,
                         shape=shape)
            cases[name] = (classes, plain)
            cases[name + "_weight"] = (
                classes, dict(plain, weighted=True, smoothing=0.3 * kind)
            )
    for shape, reduction in itertools.product(((4,), (7, 5), (2, 5, 4), (2, 4, 3, 2)), range(3)):
        for weighted, smoothing in ((False, 0.0), (True, 0.0), (False, 0.2), (True, 1.0)):
            name = "probabilities_%s_%s%s_%g" % (
                "x".join(map(str, shape)), REDUCTIONS[reduction],
                "_weight" if weighted else "", smoothing
            )
            cases[name] = (probabilities, dict(
                reduction=reduction, weighted=weighted, smoothing=smoothing, shape=shape
            ))
    for shape, reduction in itertools.product(((6,), (7, 5), (3, 2, 11)), range(4)):
        for logarithms in (False, True):
            name = "kl_div_%s_%s%s" % (
                "x".join(map(str, shape)), (*REDUCTIONS, "batchmean")[reduction],
                "_log" if logarithms else ""
            )
            cases[name] = (divergence, dict(
                reduction=reduction, logarithms=logarithms, shape=shape
            ))
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
