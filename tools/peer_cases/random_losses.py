"""Losses of PyTorch with options and inputs that are drawn: (args, kwargs) of a draw."""

import numpy
import torch
import torch.nn.functional as F


def reduction(r, *more):
    return r.one_of(["mean", "sum", "none", *more])


def classes(logarithms):
    def draw(r):
        count = r.size(8)
        shape = r.one_of([[count], [r.size(6, 0), count], [r.size(6), count, *r.shape(1, 3, 4)]])
        x = r.values(shape, kinds=("plain", "few"))
        x = torch.log_softmax(x.detach(), min(len(shape) - 1, 1)).requires_grad_() if logarithms \
            else x
        kwargs = {"reduction": reduction(r)}
        if r.chance():
            kwargs["weight"] = r.values([count], grad=False).abs() + 0.1
        if not logarithms and r.chance():
            kwargs["label_smoothing"] = r.one_of([0.1, r.real(0, 1), 1.0])
        if not logarithms and r.chance(0.25):
            return [x, torch.softmax(r.values(shape, grad=False), min(len(shape) - 1, 1))], kwargs
        target = r.ids(count, shape[:-1] if len(shape) < 3 else [shape[0], *shape[2:]],
                       torch.int64)
        if r.chance():
            kwargs["ignore_index"] = r.number(0, count - 1) if r.chance() else -7
            target = torch.where(torch.rand(target.shape) < 0.3, kwargs["ignore_index"], target)
        return [x, target], kwargs
    return draw


def alike(*more, **options):
    """Two of one shape; more: reductions; options: their ranges."""
    def draw(r):
        shape = r.shape()
        kwargs = {name: r.one_of([r.real(*some), 1.0, 0.5]) for name, some in options.items()}
        return [r.values(shape), r.values(shape)], {"reduction": reduction(r, *more), **kwargs}
    return draw


def binary(r):
    shape = r.shape()
    kwargs = {"reduction": reduction(r)}
    for name in ("weight", "pos_weight"):
        if r.chance():
            kwargs[name] = r.values(shape[r.number(0, len(shape)):], grad=False).abs()
    return [r.values(shape), torch.rand(shape, dtype=r.dtype)], kwargs


def divergence(r):
    shape, logarithms = r.shape(1), r.chance()
    target = torch.rand(shape, dtype=r.dtype)
    target[torch.rand(shape) < 0.1] = 0 if not logarithms else -1
    return [r.values(shape), target], {"log_target": logarithms,
                                       "reduction": reduction(r, "batchmean")}


def signs(r, shape):
    return torch.from_numpy(numpy.asarray(r.random.choice([-1.0, 1.0], shape))).to(r.dtype)


def ranked(r):
    shape = r.shape()
    return [r.values(shape), r.values(shape), signs(r, shape)], \
        {"reduction": reduction(r), "margin": r.one_of([0.0, 1.0, r.real(-1, 2)])}


def hinged(r):
    shape = r.shape()
    return [r.values(shape), signs(r, shape)], \
        {"reduction": reduction(r), "margin": r.one_of([1.0, 0.0, r.real(-1, 2)])}


def soft_margin(r):
    shape = r.shape()
    return [r.values(shape), signs(r, shape)], {"reduction": reduction(r)}


def multi_margin(r):
    count, alone = r.size(7), r.chance(0.2)
    n = [] if alone else [r.size(6)]
    kwargs = {"reduction": reduction(r), "p": r.number(1, 2), "margin": r.one_of([1.0, 0.5, 2.0])}
    if r.chance():
        kwargs["weight"] = r.values([count], grad=False).abs()
    return [r.values([*n, count]), r.ids(count, n, torch.int64)], kwargs


def multilabel(r):
    count = r.size(7)
    shape = [count] if r.chance(0.2) else [r.size(6), count]
    target = torch.stack([torch.randperm(count) for _ in range(shape[0] if len(shape) > 1 else 1)])
    target[torch.rand(target.shape) < 0.3] = -1
    return [r.values(shape), target.reshape(shape)], {"reduction": reduction(r)}


def multilabel_soft(r):
    shape = r.shape(1, 3, empty=False)
    kwargs = {"reduction": reduction(r)}
    if r.chance():
        kwargs["weight"] = r.values([shape[-1]], grad=False).abs()
    return [r.values(shape), torch.rand(shape, dtype=r.dtype)], kwargs


def cosine_embedding(r):
    shape = r.one_of([[r.size(7)], [r.size(6), r.size(7)]])
    return [r.values(shape), r.values(shape), signs(r, shape[:-1])], \
        {"reduction": reduction(r), "margin": r.one_of([0.0, 0.5, r.real(-1, 1)])}


def triplets(r):
    shape = [r.size(6), r.size(7)]
    return [r.values(shape, kinds=("plain",)) for _ in range(3)], \
        {"reduction": reduction(r), "margin": r.one_of([1.0, r.real(0.1, 2)]),
         "p": r.one_of([2.0, 1.0, 3.0]), "swap": r.chance()}


def poisson(r):
    shape, logarithms = r.shape(), r.chance()
    x = r.values(shape)
    return [x if logarithms else x.detach().abs().requires_grad_(),
            r.values(shape, grad=False).abs().round()], \
        {"log_input": logarithms, "full": r.chance(), "reduction": reduction(r)}


def gaussian(r):
    shape = r.shape(1)
    variance = r.one_of([shape, shape[:-1] + [1], shape[:-1]])
    return [r.values(shape), r.values(shape), (r.values(variance, grad=False).abs() + 0.1)], \
        {"full": r.chance(), "reduction": reduction(r)}


def cosines(r):
    shape = r.shape(1)
    return [r.values(r.broadcast(shape)), r.values(shape)], {"dim": r.dim(shape)}


def distances(r):
    shape = r.shape(1, 3)
    return [r.values(shape), r.values(shape)], {"p": r.one_of([2.0, 1.0, 3.0, 1.5]),
                                                "keepdim": r.chance()}


LOSSES = {
    "nn.functional.cross_entropy": (F.cross_entropy, classes(False)),
    "nn.functional.nll_loss": (F.nll_loss, classes(True)),
    "nn.functional.mse_loss": (F.mse_loss, alike()),
    "nn.functional.l1_loss": (F.l1_loss, alike()),
    "nn.functional.smooth_l1_loss": (F.smooth_l1_loss, alike(beta=(0.1, 3))),
    "nn.functional.huber_loss": (F.huber_loss, alike(delta=(0.1, 3))),
    "nn.functional.binary_cross_entropy_with_logits":
        (F.binary_cross_entropy_with_logits, binary),
    "nn.functional.kl_div": (F.kl_div, divergence),
    "nn.functional.margin_ranking_loss": (F.margin_ranking_loss, ranked),
    "nn.functional.hinge_embedding_loss": (F.hinge_embedding_loss, hinged),
    "nn.functional.soft_margin_loss": (F.soft_margin_loss, soft_margin),
    "nn.functional.multi_margin_loss": (F.multi_margin_loss, multi_margin),
    "nn.functional.multilabel_margin_loss": (F.multilabel_margin_loss, multilabel),
    "nn.functional.multilabel_soft_margin_loss": (F.multilabel_soft_margin_loss, multilabel_soft),
    "nn.functional.cosine_embedding_loss": (F.cosine_embedding_loss, cosine_embedding),
    "nn.functional.triplet_margin_loss": (F.triplet_margin_loss, triplets),
    "nn.functional.poisson_nll_loss": (F.poisson_nll_loss, poisson),
    "nn.functional.gaussian_nll_loss": (F.gaussian_nll_loss, gaussian),
    "nn.functional.cosine_similarity": (F.cosine_similarity, cosines),
    "nn.functional.pairwise_distance": (F.pairwise_distance, distances),
}
