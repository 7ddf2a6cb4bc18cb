"""Cases of losses over a grid of their options, which are beside a case's values, as
option.BUILDER: tests/layers/cases/loss.c reads them, so that only this file lists cases."""

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


def signs(case, dtype, *shape):
    return case.given("targets", torch.where(case.draw(*shape) > 0, 1, -1).to(dtype or case.dtype))


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


def difference(case, kind, reduction, beta=1.0, of_a=(4, 7), of_b=(4, 7)):
    a = case.parameter("a", *of_a, scale=1.5)
    b = case.parameter("b", *of_b)
    reduced = REDUCTIONS[reduction]
    if kind == 0:
        loss = F.l1_loss(a, b, reduction=reduced)
    elif kind == 1:
        loss = F.smooth_l1_loss(a, b, reduction=reduced, beta=beta)
    elif kind == 3:
        loss = F.mse_loss(a, b, reduction=reduced)
    else:
        loss = F.huber_loss(a, b, reduction=reduced, delta=beta)
    finish(case, (kind, reduction, beta), "difference", loss)


# Losses whose only option is the reduction: function, and what draws targets; None: a parameter
PLAIN = {
    "mse": (F.mse_loss, None),
}


def only_reduced(case, loss, reduction):
    function, draw_targets = PLAIN[loss]
    x = case.parameter("x", 4, 7, scale=1.5)
    t = draw_targets(case, None, 4, 7) if draw_targets else case.parameter("t", 4, 7)
    finish(case, (reduction,), loss, function(x, t, reduction=REDUCTIONS[reduction]))


def probabilities(case, reduction, weighted, smoothing, shape):
    count = shape[1 if len(shape) > 1 else 0]
    judged = case.parameter("judged", *shape)
    targets = case.given("targets", torch.softmax(case.draw(*shape), 1 if len(shape) > 1 else 0))
    weight = positive(case, "weight", count) if weighted else None
    loss = F.cross_entropy(
        judged, targets, weight, reduction=REDUCTIONS[reduction], label_smoothing=smoothing
    )
    finish(case, (reduction, weighted, smoothing), "probabilities", loss)


def divergence(case, reduction, logarithms, shape, of_targets=None):
    """A third of the targets is 0, where they are no logarithms."""
    judged = case.parameter("judged", *shape)
    shape = of_targets or shape
    targets = torch.softmax(case.draw(*shape), -1)
    if logarithms:
        targets = targets.log()
    else:
        targets = targets * (case.draw(*shape) > -0.4)
    case.given("targets", targets)
    loss = F.kl_div(judged, targets, reduction=(*REDUCTIONS, "batchmean")[reduction],
                    log_target=logarithms)
    finish(case, (reduction, logarithms), "divergence", loss)


def positive_parameter(case, name, *shape):
    value = (case.draw(*shape).abs() + 0.2).requires_grad_()
    case.parameters[name] = value
    case.record("parameter." + name, value)
    return value


def labels(case, *shape):
    """Returns rows of some distinct classes, then -1, then any numbers."""
    rows, classes = (1, *shape)[-2:]
    made = torch.empty(rows, classes, dtype=torch.int64)
    for row in range(rows):
        made[row] = torch.from_numpy(case.random.permutation(classes))
        count = (row * 2) % (classes + 1)
        if count < classes:
            made[row, count] = -1
    return case.given("targets", made.reshape(shape))


MARGINS = ("margin_ranking", "hinge_embedding", "soft_margin", "multi_margin", "multilabel_margin",
           "multilabel_soft_margin", "cosine_embedding", "triplet_margin", "gaussian_nll",
           "poisson_nll", "cosine_similarity", "pairwise_distance")


def margins(case, kind, reduction=0, margin=None, p=0, epsilon=0, swap=False, full=False,
            linear=False, weighted=False, dim=0, keep=False, shape=(6, 5), other=None, dtype=None):
    """other: the shape of the broadcast operand."""
    reduced = dict(reduction=REDUCTIONS[reduction])
    given = {} if margin is None else dict(margin=margin)
    if epsilon:
        given["eps"] = epsilon
    loss_of = getattr(F, kind if kind in ("cosine_similarity", "pairwise_distance")
                      else kind + "_loss")
    second = other or shape
    if kind in ("gaussian_nll", "poisson_nll"):
        given["full"] = full
    if kind in ("multi_margin", "triplet_margin", "pairwise_distance") and p:
        given["p"] = p
    weight = positive(case, "weight", shape[-1]) if weighted else None
    if weighted:
        given["weight"] = weight
    make = positive_parameter if linear else case.parameter
    a = make(case, "a", *shape) if linear else make("a", *shape)
    if kind == "margin_ranking":
        y = loss_of(a, case.parameter("b", *second), signs(case, dtype, *shape), **given, **reduced)
    elif kind in ("hinge_embedding", "soft_margin"):
        y = loss_of(a, signs(case, dtype, *shape), **given, **reduced)
    elif kind == "multi_margin":
        targets = case.ids("targets", 0, shape[-1], *shape[:-1], dtype=dtype or torch.int64)
        y = loss_of(a, targets.long(), **given, **reduced)
    elif kind == "multilabel_margin":
        y = loss_of(a, labels(case, *shape), **reduced)
    elif kind == "multilabel_soft_margin":
        targets = case.given("targets", (case.draw(*shape) > 0).to(case.dtype))
        y = loss_of(a, targets, **given, **reduced)
    elif kind == "cosine_embedding":
        b = case.parameter("b", *second)
        y = loss_of(a, b, signs(case, dtype, *shape[:-1]), **given, **reduced)
    elif kind == "triplet_margin":
        b, c = case.parameter("b", *shape), case.parameter("c", *shape)
        y = loss_of(a, b, c, swap=swap, **given, **reduced)
    elif kind == "gaussian_nll":
        b, c = case.parameter("b", *shape), positive_parameter(case, "c", *second)
        y = loss_of(a, b, c, **given, **reduced)
    elif kind == "poisson_nll":
        targets = case.given("targets", (case.draw(*shape).abs() * 3).round())
        y = loss_of(a, targets, log_input=not linear, **given, **reduced)
    elif kind == "cosine_similarity":
        y = loss_of(a, case.parameter("b", *second), dim=dim, **given)
    else:
        y = loss_of(a, case.parameter("b", *second), keepdim=keep, **given)
    finish(case, (MARGINS.index(kind), reduction, margin is not None, margin or 0, p, epsilon,
                  swap, full, linear, weighted, dim, keep), "margins", y)


def margin_cases():
    cases = {}

    def add(kind, label, **options):
        for reduction in range(3):
            name = "%s_%s%s" % (kind, REDUCTIONS[reduction], label and "_" + label)
            cases[name] = (margins, dict(options, kind=kind, reduction=reduction))

    add("margin_ranking", "")
    add("margin_ranking", "margin", margin=0.4)
    add("margin_ranking", "int", margin=0.4, dtype=torch.int64, other=(1, 5))
    add("hinge_embedding", "")
    add("hinge_embedding", "margin", margin=0.3)
    add("hinge_embedding", "int", dtype=torch.int64)
    add("soft_margin", "")
    add("soft_margin", "int", dtype=torch.int32)
    for p, weighted in itertools.product((1, 2), (False, True)):
        label = "p%d%s" % (p, "_weight" if weighted else "")
        add("multi_margin", label, p=p, weighted=weighted)
        add("multi_margin", label + "_margin", p=p, weighted=weighted, margin=0.5)
    add("multi_margin", "row", shape=(5,))
    add("multi_margin", "int32", dtype=torch.int32)
    add("multilabel_margin", "")
    add("multilabel_margin", "row", shape=(4,))
    add("multilabel_soft_margin", "")
    add("multilabel_soft_margin", "weight", weighted=True)
    add("multilabel_soft_margin", "row", shape=(4,))
    add("cosine_embedding", "")
    add("cosine_embedding", "margin", margin=0.2)
    add("cosine_embedding", "row", shape=(4,))
    add("cosine_embedding", "int", dtype=torch.int64)
    add("triplet_margin", "")
    for p, swap in itertools.product((1, 2, 3), (False, True)):
        add("triplet_margin", "p%d%s" % (p, "_swap" if swap else ""), p=p, swap=swap, margin=0.7)
    add("triplet_margin", "epsilon", epsilon=0.1, shape=(5,))
    for full in (False, True):
        add("gaussian_nll", "full" if full else "", full=full)
        add("gaussian_nll", "full_one" if full else "one", full=full, other=(6, 1))
        add("poisson_nll", "full" if full else "", full=full)
        add("poisson_nll", "full_linear" if full else "linear", full=full, linear=True)
    add("gaussian_nll", "epsilon", epsilon=0.05)
    add("poisson_nll", "epsilon", epsilon=0.05, linear=True)
    for dim, other in itertools.product((0, 1, -1), (None, (5, 1, 1), (1, 3, 1), (5, 3, 1))):
        if other and other[dim] == 1:
            continue  # a vector of one number again and again: its gradient is only rounding
        cases["cosine_similarity_%d_%s" % (dim, other and "x".join(map(str, other)))] = (
            margins, dict(kind="cosine_similarity", reduction=2, dim=dim, shape=(5, 3, 4),
                          other=other))
    cases["cosine_similarity_small_epsilon"] = (
        margins, dict(kind="cosine_similarity", reduction=2, dim=1, epsilon=0.05))
    for p, keep in itertools.product((0, 1, 2, 3, 1.5, float("inf")), (False, True)):
        cases["pairwise_distance_%g%s" % (p, "_keep" if keep else "")] = (
            margins, dict(kind="pairwise_distance", reduction=2, p=p, keep=keep,
                          epsilon=0.01 if keep else 0, other=(5,) if p == 3 else None))
    return cases


def ctc(case, reduction, lengths, targets, blank=0, zero_infinity=False, shape=(9, 4, 5),
        dtype=torch.int64):
    """lengths: of inputs; targets: a list of labels for each, padded by -7, which is no class."""
    x = case.parameter("x", *shape)
    made = torch.full((len(targets), max(map(len, targets)) + 1), -7)
    for row, labels in enumerate(targets):
        made[row, :len(labels)] = torch.tensor(labels)
    counts = torch.tensor([len(labels) for labels in targets])
    steps = torch.tensor(lengths)
    if len(shape) == 2:
        made, counts, steps = made[0], counts[0], steps[0]
    case.given("targets", made.to(dtype))
    case.given("steps", steps.to(dtype))
    case.given("counts", counts.to(dtype))
    read = made.clamp(0) if len(shape) == 3 else made[:counts]
    loss = F.ctc_loss(torch.log_softmax(x, -1), read, steps, counts, blank,
                      REDUCTIONS[reduction], zero_infinity)
    finish(case, (reduction, blank, zero_infinity), "ctc", loss)


def ctc_cases():
    cases = {}
    plain = dict(lengths=(9, 7, 9, 1), targets=((1, 2, 3), (2, 2), (4, 4, 4, 1), (3,)))
    for reduction in range(3):
        name = "ctc_" + REDUCTIONS[reduction]
        cases[name] = (ctc, dict(plain, reduction=reduction))
        cases[name + "_blank"] = (ctc, dict(
            reduction=reduction, blank=3, dtype=torch.int32, lengths=(9, 8, 9, 5),
            targets=((1, 2, 0), (2, 2), (4, 4, 4, 1), (0, 0))
        ))
        cases[name + "_empty"] = (ctc, dict(
            plain, reduction=reduction, targets=((1, 2, 3), (), (4, 4), ())
        ))
        cases[name + "_hopeless"] = (ctc, dict(
            plain, reduction=reduction, zero_infinity=True, lengths=(9, 2, 4, 9)
        ))
        cases[name + "_stepless"] = (ctc, dict(
            plain, reduction=reduction, zero_infinity=True, lengths=(0, 7, 0, 9),
            targets=((1, 2, 3), (2, 2), (), (4,))
        ))
        cases[name + "_alone"] = (ctc, dict(
            reduction=reduction, shape=(6, 4), lengths=(6,), targets=((1, 1, 3),)
        ))
    cases["ctc_wide"] = (ctc, dict(
        reduction=0, shape=(24, 3, 12), lengths=(24, 19, 22),
        targets=tuple(tuple((row + 5 * i * i) % 11 + 1 for i in range(12)) for row in range(3))
    ))
    return cases


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
    for loss, reduction in itertools.product(PLAIN, range(3)):
        cases["%s_%s" % (loss, REDUCTIONS[reduction])] = (
            only_reduced, dict(loss=loss, reduction=reduction)
        )
    for reduction in range(3):
        cases["l1_" + REDUCTIONS[reduction]] = (difference, dict(kind=0, reduction=reduction))
        for kind, beta in itertools.product((1, 2), (0.3, 1.0, 2.5)):
            name = "%s_%s_%g" % (("smooth_l1", "huber")[kind - 1], REDUCTIONS[reduction], beta)
            cases[name] = (difference, dict(kind=kind, reduction=reduction, beta=beta))
        cases["smooth_l1_%s_0" % REDUCTIONS[reduction]] = (
            difference, dict(kind=1, reduction=reduction, beta=0.0)
        )
    broadcast = (((4, 1), ()), ((4, 7), (7,)), ((4, 7), (4, 1)), ((7,), (4, 7)), ((4, 1), (1, 7)))
    for (place, (of_a, of_b)), reduction in itertools.product(enumerate(broadcast), range(3)):
        for kind in range(4):
            name = "broadcast_%d_%s_%s" % (
                place, ("l1", "smooth_l1", "huber", "mse")[kind], REDUCTIONS[reduction]
            )
            cases[name] = (difference, dict(
                kind=kind, reduction=reduction, beta=0.3, of_a=of_a, of_b=of_b
            ))
    for reduction in range(4):
        cases["broadcast_divergence_%d" % reduction] = (divergence, dict(
            reduction=reduction, logarithms=False, shape=(4, 7), of_targets=(7,)
        ))
    cases.update(margin_cases())
    cases.update(ctc_cases())
    return cases
