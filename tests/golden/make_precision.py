#!/usr/bin/python3
"""Writes data/precision.safetensors: the errors of PyTorch's float32 relative
to float64, in reductions, scans, functions like softmax and cross entropy of long and badly scaled
inputs, and in their gradients.

tests/layers/precision_test.c draws the same inputs and weights by the same formulas. Tensor
NAME_KIND_COUNT/error, float32 (2): the error of the result and of the gradient. An error is the
largest difference, relative to the largest element. Rounding errors of a sum that cancels depend on
chance, so that each is the largest over both layouts and SEEDS."""

import functools
import os

import torch
import torch.nn.functional as F

import safetensors_file

COUNTS = (20000, 100000)
SEEDS = (7, 8, 9)
COLUMNS = 3


@functools.lru_cache(None)
def drawn(count, seed):
    """Numbers from -1 to 1 of a linear congruential generator, rounded to float32."""
    values = []
    value = seed
    for _ in range(count):
        value = (value * 1103515245 + 12345) % 2147483648
        values.append(value)
    return (torch.tensor(values).double() / 1073741824 - 1).float().double()


def inputs(kind, count, seed):
    """One row of a kind, rounded to float32."""
    u = drawn(count, seed)
    i = torch.arange(count)
    if kind == "offset":
        x = 1000 + u
    elif kind == "range":
        x = u * torch.tensor([0.001, 0.01, 0.1, 1, 10, 100, 1000]).double()[i % 7]
    elif kind == "signs":
        x = (1 - 2 * (i % 2)) * (10 + 0.01 * u)
    else:
        x = 1 + 0.01 * u
    return x.float().double()


def cross_entropy(x):
    """One row of many classes, or many rows of three."""
    if x.dim() == 1:
        return F.cross_entropy(x[None], torch.tensor([len(x) // 3]))
    return F.cross_entropy(x, torch.arange(len(x)) % COLUMNS)


SCALES = ("offset", "range", "signs")
FUNCTIONS = {
    "sum": (lambda x: x.sum(0), SCALES),
    "mean": (lambda x: x.mean(0), SCALES),
    "norm": (lambda x: torch.linalg.vector_norm(x, 2, 0), SCALES),
    "norm_1": (lambda x: torch.linalg.vector_norm(x, 1, 0), SCALES),
    "variance": (lambda x: torch.var(x, 0, correction=0), SCALES),
    "std": (lambda x: torch.std(x, 0, correction=1), SCALES),
    "normalize": (lambda x: F.normalize(x, 2, 0), SCALES),
    "logsumexp": (lambda x: torch.logsumexp(x, 0), SCALES),
    "softmax": (lambda x: torch.softmax(x, 0), SCALES),
    "log_softmax": (lambda x: torch.log_softmax(x, 0), SCALES),
    "cross_entropy": (cross_entropy, SCALES),
    "cumsum": (lambda x: torch.cumsum(x, 0), SCALES),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 0), SCALES),
    "prod": (lambda x: x.prod(0), ("factors",)),
    "cumprod": (lambda x: torch.cumprod(x, 0), ("factors",)),
}


def computed(function, x, dtype):
    """The result, and the gradient of the sum of its products with drawn weights."""
    x = x.to(dtype).clone().requires_grad_()
    y = function(x)
    weights = drawn(y.numel(), 11).to(dtype).reshape(y.shape)
    (y * weights).sum().backward()
    return y.detach().double(), x.grad.double()


def error(found, wanted):
    return float((found - wanted).abs().max() / wanted.abs().max())


def errors(function, kind, count):
    found = []
    for seed in SEEDS:
        row = inputs(kind, count, seed)
        for x in (row, torch.stack([row * 0.5**j for j in range(COLUMNS)], 1)):
            exact = computed(function, x, torch.float64)
            single = computed(function, x, torch.float32)
            found.append([error(a, b) for a, b in zip(single, exact)])
    return torch.tensor(found, dtype=torch.float32).amax(0)


def main():
    torch.set_num_threads(1)
    recorded = {}
    for name, (function, kinds) in FUNCTIONS.items():
        for kind in kinds:
            for count in COUNTS:
                recorded["%s_%s_%d/error" % (name, kind, count)] = errors(function, kind, count)
    folder = os.path.dirname(os.path.abspath(__file__))
    safetensors_file.write(os.path.join(folder, "data", "precision.safetensors"), recorded)


if __name__ == "__main__":
    main()
