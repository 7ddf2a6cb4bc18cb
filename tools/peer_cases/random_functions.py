"""Functions of PyTorch with options, shapes and values that are drawn: of each what it is, and what
draws (args, kwargs); and builders that torch_ops has not."""

import numpy
import torch
import torch.nn.functional as F

import torch_ops
from random_draws import FLOATS, NUMBERS
from random_losses import LOSSES


# ---- Element by element, and along dimensions: (args, kwargs) of a draw ----

ANY = ("plain", "few", "special")
NUMBERED = ("plain", "few", "limits")  # PyTorch takes a NaN for a number there when it goes back
PLAIN = ("plain", "few")               # what is infinite or NaN depends on the order there


def one(r, kinds=ANY):
    return [r.values(r.shape(), kinds=kinds)], {}


def numbered(r):
    return one(r, NUMBERED)


def two(r, dtypes=FLOATS, kinds=ANY):
    shape, dtype = r.shape(), r.one_of(dtypes)
    return [r.values(r.broadcast(shape), dtype, kinds),
            r.values(r.broadcast(shape), dtype, kinds)], {}


def two_plain(r):
    return two(r, kinds=PLAIN)


def two_numbers(r):
    return two(r, NUMBERS)


def with_numbers(*ranges, kinds=ANY):
    def draw(r):
        numbers = [r.one_of(some) if isinstance(some, list) else r.real(*some) for some in ranges]
        return [r.values(r.shape(), kinds=kinds), *numbers], {}
    return draw


def clamped(r):
    ends = sorted([r.real(-2, 2), float(r.number(-3, 3))])
    ends = [None if r.chance(0.2) else end for end in ends]
    if ends == [None, None]:
        ends[0] = 0.0
    return [r.values(r.shape(), kinds=ANY), *ends], {}


def chosen(r):
    shape, dtype = r.shape(), r.one_of(NUMBERS)
    return [r.values(r.broadcast(shape), dtype, ANY), r.values(r.broadcast(shape), torch.bool),
            r.values(r.broadcast(shape), dtype, ANY)], {}


def filled(r):
    shape, dtype = r.shape(), r.one_of(NUMBERS)
    return [r.values(shape, dtype, ANY), r.values(r.broadcast(shape), torch.bool),
            r.number(-5, 5)], {}


def reduced(r, kinds=ANY):
    shape = r.shape()
    dims = r.dims(shape)
    return [r.values(shape, kinds=kinds)], \
        {"dim": dims or None, "keepdim": bool(dims) and r.chance()}


def spread(r):
    args, kwargs = reduced(r, PLAIN)
    return args, {**kwargs, "correction": r.one_of([0, 1, 1, 2])}


def normed(r):
    args, kwargs = reduced(r, PLAIN)
    return args, {**kwargs, "ord": r.one_of([2, 2.0, 1, 3, 0.5, 1.5])}


def normed_by_extremes(r):
    shape = r.shape(empty=False)
    dims = r.dims(shape)
    return [distinct(r, shape)], {"dim": dims or None, "keepdim": bool(dims) and r.chance(),
                                  "ord": r.one_of([float("inf"), -float("inf")])}


def along(r, kinds=ANY):
    shape = r.shape(1)
    return [r.values(shape, kinds=kinds)], {"dim": r.dim(shape), "keepdim": r.chance()}


def along_kept(r, kinds=ANY):
    shape = r.shape(1)
    return [r.values(shape, kinds=kinds)], {"dim": r.dim(shape)}


def running(r):
    return along_kept(r, PLAIN)


def ordered(r):
    shape = r.shape(1)
    return [r.values(shape, kinds=ANY)], {"dim": r.dim(shape), "descending": r.chance(),
                                          "stable": True}


def distinct(r, shape):
    """Where PyTorch does not say which of equals it finds."""
    count = int(numpy.prod(shape))
    x = torch.from_numpy(r.random.permutation(count) / 7.0).reshape(shape).to(r.dtype)
    return x.requires_grad_()


def largest(r):
    shape = r.shape(1, empty=False)
    dim = r.dim(shape)
    return [distinct(r, shape), r.number(1, shape[dim])], {"dim": dim, "largest": r.chance()}


def middle(r):
    shape = r.shape(1, empty=False)
    x = distinct(r, shape)
    if r.chance(0.2):
        x.data[torch.rand(shape) < 0.1] = float("nan")
    return [x], {"dim": r.dim(shape), "keepdim": r.chance()}


# ---- Moves ----

def any_of(r, shape):
    return r.values(shape, r.one_of(NUMBERS), ANY)


def sliced(r):
    shape = r.shape(1)
    dim = r.number(0, len(shape) - 1)
    ends = [None if r.chance(0.2) else r.number(-9, 9) for _ in range(2)]
    return [any_of(r, shape), dim, *ends, r.one_of([1, 1, 2, 3, 5, -1, -2, -3])], {}


def take_slice(x, dim, start, end, step):
    places = range(*slice(start, end, step).indices(x.shape[dim]))
    return x.index_select(dim, torch.tensor(list(places), dtype=torch.int64))


def permuted(r):
    shape = r.shape()
    order = list(range(len(shape)))
    r.random.shuffle(order)
    return [any_of(r, shape), [i - len(shape) if r.chance(0.3) else i for i in order]], {}


def flipped(r):
    shape = r.shape()
    return [any_of(r, shape), r.dims(shape)], {}


def rolled(r):
    shape = r.shape(1, empty=False)
    return [any_of(r, shape), r.number(-20, 20), r.dim(shape)], {}


def triangle(r):
    return [r.values(r.shape(2), kinds=ANY), r.number(-8, 8)], {}


def exchanged(r):
    shape = r.shape(1)
    return [any_of(r, shape), r.dim(shape), r.dim(shape)], {}


def joined(r):
    shape, dtype = r.shape(1), r.one_of(NUMBERS)
    dim = r.number(0, len(shape) - 1)
    parts = [r.values([r.size(5, 0) if i == dim else size for i, size in enumerate(shape)], dtype)
             for _ in range(r.number(1, 5))]
    return [parts], {"dim": dim - len(shape) if r.chance() else dim}


def stacked(r):
    shape, dtype = r.shape(0, 3), r.one_of(NUMBERS)
    return [[r.values(shape, dtype) for _ in range(r.number(1, 5))]], \
        {"dim": r.number(-len(shape) - 1, len(shape))}


def expanded(r):
    shape = r.shape()
    more = [r.size(4) for _ in range(r.number(0, 2))]
    wanted = [r.size(4, 0) if size == 1 else -1 if r.chance(0.3) else size for size in shape]
    return [any_of(r, shape), *more, *wanted], {}


def repeated(r):
    shape = r.shape(0, 3)
    return [any_of(r, shape), *[r.number(0 if r.chance(0.1) else 1, 3)
                                for _ in range(len(shape) + r.number(0, 2))]], {}


def padded(mode):
    def draw(r):
        rank = r.number(1, 3)
        lead = r.shape(0 if mode == "constant" else 1, 2)
        if mode != "constant":
            lead = lead[:2]
        shape = lead + [r.size(6, 0 if mode == "constant" else 1) for _ in range(rank)]
        least = -3 if mode == "constant" else 0
        amounts = [r.number(least, 4) for _ in range(2 * rank)]
        x = r.values(shape, r.one_of(NUMBERS) if mode == "constant" else None)
        return [x, amounts, mode], {"value": r.number(-3, 3)} if mode == "constant" else {}
    return draw


def gathered(r):
    shape = r.shape(1, empty=False)
    dim = r.dim(shape)
    index = [r.size(5, 0) if i == dim % len(shape) else r.number(1, size)
             for i, size in enumerate(shape)]
    return [any_of(r, shape), dim, r.ids(shape[dim], index, torch.int64)], {}


def selected(r):
    shape = r.shape(1, empty=False)
    dim = r.dim(shape)
    return [any_of(r, shape), dim, r.ids(shape[dim], [r.size(9, 0)])], {}


def scattered(r):
    shape = r.shape(1, 3, empty=False)
    dim = r.dim(shape)
    index = [r.size(9, 0) if i == dim % len(shape) else r.number(1, size)
             for i, size in enumerate(shape)]
    more = [size + r.number(0, 2) for size in index]
    return [r.values(shape), dim, r.ids(shape[dim], index, torch.int64), r.values(more)], {}


def diagonals(r):
    shape = r.shape(2, empty=False)
    first, second = (int(i) for i in r.random.choice(len(shape), 2, False))
    return [r.values(shape)], {"offset": r.number(-5, 5), "dim1": first, "dim2": second}


def cast_to(r):
    """Draws numbers that every dtype can represent; PyTorch does not define other casts."""
    shape, dtype = r.shape(), r.one_of([*NUMBERS, torch.bool])
    x = r.values(shape, r.one_of(NUMBERS), ("plain", "few"))
    return [x.detach(), dtype], {}


# ---- Products ----

def matrices(r):
    lead, (m, k, n) = r.shape(0, 2, 4), [r.size(r.one_of([9, 40]), 0) for _ in range(3)]
    return [r.values([*r.broadcast(lead), m, k]), r.values([*r.broadcast(lead), k, n])], {}


def equations(r):
    letters = {letter: r.size(5, 0) for letter in "abcde"}
    count = r.number(1, 3)
    terms = [[r.one_of("abcde") for _ in range(r.number(0, 4))] for _ in range(count)]
    dots = r.chance(0.3)
    lead = r.shape(1, 2, 3) if dots else []
    known = sorted({letter for term in terms for letter in term})
    r.random.shuffle(known)
    result = known[:r.number(0, len(known))]
    equation = ",".join("".join(term) + ("..." if dots else "") for term in terms)
    if r.chance(0.8):
        equation += "->" + ("..." if dots else "") + "".join(result)
    if dots and len(lead) + 4 > 6:
        raise ValueError
    return [[r.values([letters[one] for one in term] + r.broadcast(lead)) for term in terms],
            equation], {}


# ---- Images ----

def batched(r, sizes, channels):
    return [channels, *sizes] if r.chance(0.15) else [r.size(4, 0), channels, *sizes]


def per_axis(r, rank, least, most):
    return [r.number(least, most) for _ in range(rank)]


def convolved(rank, transposed=False):
    def draw(r):
        groups = r.one_of([1, 1, 1, 2, 3])
        into, out = groups * r.size(9 if rank < 3 else 3), groups * r.size(9)
        kernel = per_axis(r, rank, 1, 4)
        x = r.values(batched(r, [r.size(12 if rank < 3 else 6) for _ in kernel], into))
        parts = [out, into // groups] if not transposed else [into, out // groups]
        kwargs = {"stride": per_axis(r, rank, 1, 3), "padding": per_axis(r, rank, 0, 3),
                  "dilation": per_axis(r, rank, 1, 3), "groups": groups}
        if transposed:
            kwargs["output_padding"] = per_axis(r, rank, 0, 2)
        elif r.chance(0.15):
            kwargs["padding"], kwargs["stride"] = "same", 1
        bias = r.values([out]) if r.chance(0.7) else None
        return [x, r.values([*parts, *kernel]), bias], kwargs
    return draw


def pooled(rank, average):
    def draw(r):
        kernel = per_axis(r, rank, 1, 4)
        x = r.values(batched(r, [r.size(12 if rank < 3 else 6) for _ in kernel], r.size(4)),
                     kinds=("plain", "few") if average else ("plain", "few", "special"))
        kwargs = {"stride": per_axis(r, rank, 1, 4) if r.chance(0.8) else None,
                  "padding": [r.number(0, size // 2) for size in kernel], "ceil_mode": r.chance()}
        if average:
            kwargs["count_include_pad"] = r.chance()
            if rank > 1 and r.chance(0.3):
                kwargs["divisor_override"] = r.number(1, 7)
        else:
            kwargs.update(dilation=per_axis(r, rank, 1, 3), return_indices=True)
            starts = [-pad % step for pad, step in zip(kwargs["padding"], kwargs["dilation"])]
            if any(start >= size for start, size in zip(starts, x.shape[-rank:])):
                raise ValueError  # PyTorch's index is outside of x, and so is what it adds to
        return [x, kernel], kwargs
    return draw


def shared_out(rank, average):
    def draw(r):
        sizes = [r.size(12 if rank < 3 else 6) for _ in range(rank)]
        x = r.values(batched(r, sizes, r.size(4)))
        return [x, per_axis(r, rank, 1, 9)], {} if average else {"return_indices": True}
    return draw


def resized(r):
    mode = r.one_of(["nearest", "linear", "bilinear", "trilinear", "bicubic"])
    rank = {"linear": 1, "trilinear": 3, "nearest": r.number(1, 3)}.get(mode, 2)
    x = r.values([r.size(3), r.size(3), *[r.size(9 if rank < 3 else 5) for _ in range(rank)]])
    corners = {} if mode == "nearest" else {"align_corners": r.chance()}
    return [x], {"size": per_axis(r, rank, 1, 40 if rank == 1 else 14), "mode": mode, **corners}


# ---- Attention ----

def attention(r):
    n, heads, queries, keys = r.size(3), r.number(1, 4), r.size(9), r.size(9)
    q = r.values([n, heads, queries, dim := r.size(9)])
    k, v = r.values([n, heads, keys, dim]), r.values([n, heads, keys, r.size(9)])
    kwargs = {"is_causal": r.chance(0.4)}
    if not kwargs["is_causal"] and r.chance():
        mask = r.values(r.one_of([[queries, keys], [n, heads, queries, keys]]),
                        r.one_of([torch.bool, r.dtype]), ("plain",), False)
        if mask.dtype == torch.bool:
            mask[..., 0] = True  # a query that sees no key has 0 here
        kwargs["attn_mask"] = mask
    if r.chance(0.3):
        kwargs["scale"] = r.real(0.1, 2)
    return [q, k, v], kwargs


def local_response(r):
    return [r.values(r.shape(3, 4), kinds=("plain",)), r.number(1, 5)], \
        {"alpha": r.real(0.01, 2), "beta": r.real(0.3, 1.5), "k": r.real(0.5, 2)}


def functional(name):
    return getattr(F, name)


FUNCTIONS = {
    **LOSSES,
    **{name: (getattr(torch, name), one) for name in
       "neg abs sin cos erf floor round sign exp log sqrt rsqrt tanh sigmoid square".split()},
    **{"nn.functional." + name: (functional(name), one) for name in
       "relu silu hardsigmoid mish".split()},
    "nn.functional.hardswish": (F.hardswish, numbered), "nn.functional.relu6": (F.relu6, numbered),
    "nn.functional.hardtanh": (F.hardtanh, with_numbers((-2, 0), (0.1, 2), kinds=NUMBERED)),
    "nn.functional.gelu": (F.gelu, lambda r: (
        one(r, PLAIN)[0], {"approximate": r.one_of(["none", "tanh"])})),
    "nn.functional.leaky_relu": (F.leaky_relu, with_numbers((-1, 1))),
    "nn.functional.elu": (F.elu, with_numbers((0.1, 3), kinds=NUMBERED)),
    "nn.functional.celu": (F.celu, with_numbers((0.1, 3), kinds=NUMBERED)),
    "nn.functional.softplus": (F.softplus, with_numbers((0.1, 3), [20, 1.0, 0.0])),
    "nn.functional.glu": (F.glu, along_kept),
    "clamp": (torch.clamp, clamped),
    "pow": (torch.pow, with_numbers([-2, -1, -0.5, 0, 0.5, 1, 2, 3, 1.5, -3, 4, 0.25])),
    **{name: (getattr(torch, name), two_numbers) for name in
       "add sub mul maximum minimum eq ne lt le gt ge".split()},
    "div/no_rounding_mode": (torch.div, two_plain), "remainder": (torch.remainder, two_plain),
    "power": (torch.pow, two), "where": (lambda a, c, b: torch.where(c, a, b), chosen),
    "masked_fill": (torch.masked_fill, filled),
    "sum": (torch.sum, reduced), "mean": (torch.mean, reduced),
    "var": (torch.var, spread), "std": (torch.std, spread),
    "linalg.vector_norm": (torch.linalg.vector_norm, normed),
    "linalg.vector_norm/extremes": (torch.linalg.vector_norm, normed_by_extremes),
    **{name: (getattr(torch, name), along) for name in
       "max min argmax argmin logsumexp".split()},
    "prod": (torch.prod, lambda r: along(r, PLAIN)),
    **{name: (getattr(torch, name), along_kept) for name in
       "cumsum softmax log_softmax".split()},
    "cumprod": (torch.cumprod, running), "logcumsumexp": (torch.logcumsumexp, running),
    "sort": (torch.sort, ordered), "argsort": (torch.argsort, ordered),
    "topk": (torch.topk, largest), "slice": (take_slice, sliced),
    "median": (lambda x, dim, keepdim: torch.median(x, dim, keepdim).values, middle),
    "permute": (torch.permute, permuted), "flip": (torch.flip, flipped),
    "roll": (torch.roll, rolled), "triu": (torch.triu, triangle), "tril": (torch.tril, triangle),
    "transpose": (torch.transpose, exchanged), "cat": (torch.cat, joined),
    "stack": (torch.stack, stacked), "expand": (lambda x, *sizes: x.expand(*sizes), expanded),
    "repeat": (lambda x, *times: x.repeat(*times), repeated),
    **{"nn.functional.pad/" + mode: (F.pad, padded(mode)) for mode in
       ("constant", "reflect", "replicate", "circular")},
    "gather": (torch.gather, gathered), "index_select": (torch.index_select, selected),
    "scatter_add": (torch.scatter_add, scattered), "diagonal": (torch.diagonal, diagonals),
    "to": (lambda x, dtype: x.to(dtype), cast_to),
    "matmul": (torch.matmul, matrices),
    "einsum": (lambda operands, equation: torch.einsum(equation, operands), equations),
    **{"nn.functional.conv%dd" % rank: (functional("conv%dd" % rank), convolved(rank))
       for rank in (1, 2, 3)},
    **{"nn.functional.conv_transpose%dd" % rank:
       (functional("conv_transpose%dd" % rank), convolved(rank, True)) for rank in (1, 2, 3)},
    **{"nn.functional.%s_pool%dd" % (kind, rank):
       (functional("%s_pool%dd" % (kind, rank)), pooled(rank, kind == "avg"))
       for kind in ("max", "avg") for rank in (1, 2, 3)},
    **{"nn.functional.adaptive_%s_pool%dd" % (kind, rank):
       (functional("adaptive_%s_pool%dd" % (kind, rank)), shared_out(rank, kind == "avg"))
       for kind in ("max", "avg") for rank in (1, 2, 3)},
    "nn.functional.interpolate": (F.interpolate, resized),
    "nn.functional.scaled_dot_product_attention": (F.scaled_dot_product_attention, attention),
    "nn.functional.local_response_norm": (F.local_response_norm, local_response),
}


def interpolate(g, x, size, mode, align_corners=False):
    name = {"nearest": "NEAREST", "bicubic": "CUBIC"}.get(mode, "LINEAR")
    return g.interpolate(x, list(size), len(size), g.constant("TDM_INTERPOLATE_" + name),
                         align_corners)


def cut(g, x, dim, start, end, step):
    """An end that is left open is TDM_TO_THE_END, or TDM_TO_THE_BEGINNING."""
    if start is None:
        start = 0 if step > 0 else -1
    if end is None:
        end = 2**63 - 1 if step > 0 else -2**63
    return g.slice(x, dim, start, end, step)


OWN_BUILDERS = {
    "slice": cut, "median": lambda g, x, dim, keepdim: g.median(x, dim, keepdim),
    "power": torch_ops.binary("power"), "nn.functional.interpolate": interpolate,
    "to": lambda g, x, dtype: g.cast(x, g.constant("TDM_" + str(dtype)[6:].upper())),
}
