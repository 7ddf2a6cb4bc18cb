"""Cases of elements in order, einsum, parts and diagonals of arrays, norms and running products.
The options of a case are beside its values, as option.LAYER, a list of numbers:
tests/layers/cases/arrays.c reads them, so that only this file lists cases."""

import math

import torch

from vision_cases import options


def sort(case, shape, dimension, descending, equals=False):
    """With equals, few different integers: indices are compared, and there are no gradients."""
    options(case, "sort_equals" if equals else "sort", dimension, descending)
    x = case.parameter("x", *shape)
    if equals:
        with torch.no_grad():
            x.copy_(torch.round(x))
        case.record("parameter.x", x)
    values, indices = torch.sort(x, dim=dimension, descending=bool(descending), stable=True)
    case.record("output.indices", indices)
    case.record("output.argsort", indices)
    case.judge("y", values)


def topk(case, shape, k, dimension, largest):
    options(case, "topk", k, dimension, largest)
    values, indices = torch.topk(case.parameter("x", *shape), k, dimension, bool(largest))
    case.record("output.indices", indices)
    case.judge("y", values)


def median(case, shape, dimension, keep):
    options(case, "median", dimension, keep)
    case.judge("y", torch.median(case.parameter("x", *shape), dimension, bool(keep)).values)


def einsum(case, equation, *shapes):
    options(case, "einsum", len(shapes), *map(ord, equation))
    operands = [case.parameter("x%d" % i, *shape) for i, shape in enumerate(shapes)]
    case.judge("y", torch.einsum(equation, *operands) * 1)


def outer(case, a, b):
    options(case, "outer")
    case.judge("y", torch.outer(case.parameter("a", a), case.parameter("b", b)))


def split_evenly(case, shape, dimension, count):
    options(case, "split_evenly", dimension, count)
    parts = torch.chunk(case.parameter("x", *shape), count, dimension)
    for i, part in enumerate(parts):
        case.judge("y%d" % i, part * (i + 1))


def unbind(case, shape, dimension):
    options(case, "unbind", dimension, shape[dimension])
    for i, part in enumerate(torch.unbind(case.parameter("x", *shape), dimension)):
        case.judge("y%d" % i, part * (i + 1))


def diagonal(case, shape, offset, first, second):
    options(case, "diagonal", offset, first, second)
    case.judge("y", torch.diagonal(case.parameter("x", *shape), offset, first, second) * 1)


def trace(case, shape):
    options(case, "trace")
    case.judge("y", torch.trace(case.parameter("x", *shape)))


def meshgrid(case, *sizes):
    options(case, "meshgrid", len(sizes))
    values = [case.parameter("x%d" % i, size) for i, size in enumerate(sizes)]
    for i, grid in enumerate(torch.meshgrid(*values, indexing="ij")):
        case.judge("y%d" % i, grid * 1)


def std(case, shape, correction, keep, dimensions):
    options(case, "std", correction, keep, *dimensions)
    case.judge("y", torch.std(case.parameter("x", *shape), dimensions, correction=correction,
                              keepdim=bool(keep)))


def std_of_equals(case):
    """A row of one number: nothing flows back."""
    options(case, "std_of_equals", 1, 0, 1)
    x = case.parameter("x", 3, 4)
    with torch.no_grad():
        x[1] = 0.75
    case.record("parameter.x", x)
    case.judge("y", torch.std(x, (1,)))


def norm(case, shape, p, keep, dimensions, zeros=False):
    """The option 1000 means infinity. With zeros, a whole row is zero."""
    finite = math.copysign(1000, p) if math.isinf(p) else p
    options(case, "norm_of_zeros" if zeros else "norm", finite, keep, *dimensions)
    x = case.parameter("x", *shape)
    if zeros:
        with torch.no_grad():
            x[0] = 0
        case.record("parameter.x", x)
    # PyTorch takes no dimensions for all of them too, but only from later versions on.
    every = tuple(dimensions) or tuple(range(len(shape)))
    case.judge("y", torch.linalg.vector_norm(x, p, every, bool(keep)))


def normalize(case, shape, p, dimension, epsilon):
    options(case, "normalize", p, dimension, epsilon)
    x = case.parameter("x", *shape)
    case.judge("y", torch.nn.functional.normalize(x, p, dimension, epsilon))


def cumprod(case, shape, dimension, zero=False):
    options(case, "cumprod", dimension)
    x = case.parameter("x", *shape)
    if zero:
        with torch.no_grad():
            x.select(dimension, 1)[0] = 0
        case.record("parameter.x", x)
    case.judge("y", torch.cumprod(x, dimension))


def logcumsumexp(case, shape, dimension, scale):
    options(case, "logcumsumexp", dimension)
    case.judge("y", torch.logcumsumexp(case.parameter("x", *shape, scale=scale), dimension))


def order_cases(cases):
    for i, (shape, dimension, descending) in enumerate((
            ((9,), 0, 0), ((4, 5), 0, 1), ((4, 5), -1, 0), ((2, 70, 3), 1, 1), ((2, 3, 4), 2, 1))):
        cases["sort_%d" % i] = (sort, dict(
            shape=shape, dimension=dimension, descending=descending
        ))
    for descending in (0, 1):
        cases["sort_equals_%d" % descending] = (sort, dict(
            shape=(3, 40), dimension=1, descending=descending, equals=True
        ))
    for i, (shape, k, dimension, largest) in enumerate((
            ((9,), 1, 0, 1), ((4, 50), 3, 1, 1), ((4, 5), 4, 0, 0), ((2, 30, 3), 5, -2, 0))):
        cases["topk_%d" % i] = (topk, dict(shape=shape, k=k, dimension=dimension, largest=largest))
    for i, (shape, dimension, keep) in enumerate((((9,), 0, 0), ((4, 6), 1, 1), ((3, 5, 2), 1, 0))):
        cases["median_%d" % i] = (median, dict(shape=shape, dimension=dimension, keep=keep))


EQUATIONS = (
    ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("i,i->", (5,), (5,)),
    ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("ij", (2, 3)), ("ba", (2, 3)), ("ii->i", (4, 4)),
    ("ii", (4, 4)), ("iji->j", (3, 2, 3)), ("i,j->ij", (3,), (4,)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)), ("bn,anm,bm->ba", (2, 3), (4, 3, 5), (2, 5)),
    ("...ij,...jk->...ik", (2, 3, 4, 5), (3, 5, 2)), ("...i,...i", (2, 3, 4), (2, 3, 4)),
    ("b...d,d...->b...", (2, 3, 4), (4, 1)), ("ij,ij->j", (3, 4), (1, 4)),
    ("abc,cde->abde", (2, 3, 4), (4, 2, 3)), ("ab,bc,cd,de->ae", (2, 3), (3, 4), (4, 2), (2, 5)),
    ("Ab,bA", (2, 3), (3, 2)), (" i j , k -> k i ", (2, 3), (4,)),
    ("aab,bc->ac", (3, 3, 2), (2, 4)),
)


def arrays_cases():
    """name -> (function, its arguments)"""
    cases = {}
    order_cases(cases)
    for i, (equation, *shapes) in enumerate(EQUATIONS):
        cases["einsum_%d" % i] = (
            lambda case, told=equation, sizes=tuple(shapes): einsum(case, told, *sizes), {}
        )
    cases["outer"] = (outer, dict(a=3, b=5))
    for i, (dimension, count) in enumerate(((0, 2), (1, 3), (-1, 4), (1, 1))):
        cases["split_evenly_%d" % i] = (split_evenly, dict(
            shape=(4, 7, 10), dimension=dimension, count=count
        ))
    for dimension in (0, 1, -1):
        cases["unbind_%d" % (dimension % 3)] = (unbind, dict(shape=(2, 3, 4), dimension=dimension))
    for i, (shape, offset, first, second) in enumerate((
            ((4, 4), 0, 0, 1), ((3, 5), 2, 0, 1), ((5, 3), -3, 0, 1), ((3, 2, 4), 1, 0, -1),
            ((2, 4, 3), -1, 2, 1))):
        cases["diagonal_%d" % i] = (diagonal, dict(
            shape=shape, offset=offset, first=first, second=second
        ))
    cases["trace_0"] = (trace, dict(shape=(4, 4)))
    cases["trace_1"] = (trace, dict(shape=(3, 5)))
    cases["meshgrid_1"] = (lambda case: meshgrid(case, 4), {})
    cases["meshgrid_3"] = (lambda case: meshgrid(case, 2, 3, 4), {})
    for i, (correction, keep, dimensions) in enumerate(((1, 0, (1,)), (0, 1, (0, 2)), (2, 0, ()))):
        cases["std_%d" % i] = (std, dict(
            shape=(3, 4, 5), correction=correction, keep=keep,
            dimensions=dimensions or (0, 1, 2)
        ))
    cases["std_of_equals"] = (std_of_equals, {})
    for i, (p, keep, dimensions) in enumerate((
            (2, 0, ()), (2, 1, (1,)), (1, 0, (0, 2)), (3, 0, (2,)), (1.5, 1, (1,)),
            (math.inf, 0, (1,)), (-math.inf, 1, (2, 0)))):
        cases["norm_%d" % i] = (norm, dict(shape=(3, 4, 5), p=p, keep=keep, dimensions=dimensions))
    cases["norm_of_zeros"] = (norm, dict(shape=(3, 5), p=2, keep=0, dimensions=(1,), zeros=True))
    for i, (p, dimension, epsilon) in enumerate(((1.5, 1, 1e-12), (2, -1, 100.0), (1, 0, 0.01),
                                                 (3, 2, 0.0))):
        cases["normalize_%d" % i] = (normalize, dict(shape=(3, 4, 5), p=p, dimension=dimension,
                                                     epsilon=epsilon))
    for i, (shape, dimension, zero) in enumerate((((7,), 0, False), ((3, 8), 1, True),
                                                  ((4, 3, 2), 0, False))):
        cases["cumprod_%d" % i] = (cumprod, dict(shape=shape, dimension=dimension, zero=zero))
    for i, (shape, dimension, scale) in enumerate((((7,), 0, 1.0), ((3, 8), 1, 40.0),
                                                   ((4, 3, 2), -2, 3.0))):
        cases["logcumsumexp_%d" % i] = (logcumsumexp, dict(
            shape=shape, dimension=dimension, scale=scale
        ))
    return cases
