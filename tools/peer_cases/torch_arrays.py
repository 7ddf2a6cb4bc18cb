"""Builders of PyTorch's operations on arrays: elements in order, products by equations, diagonals,
parts, norms, and what is put together of the library's functions as a program would."""

import numpy

from arguments import as_vector, cast, dims_of, is_array, only, put_together, shape_of
from cases import Refused


# ---- Order ----

def sort(g, x, dim=-1, descending=False, stable=False):
    indices = g.none()
    return g.sort(x, dim, descending, indices), indices


def topk(g, x, k, dim=-1, largest=True, sorted=True):
    indices = g.none()
    return g.topk(x, k, dim, largest, indices), indices


def kthvalue(g, x, k, dim=-1, keepdim=False):
    indices = g.none()
    values = g.topk(x, k, dim, False, indices)
    size = shape_of(g, values)[dim]
    picked = [g.slice(one, dim, size - 1, size, 1) for one in (values, indices)]
    return picked if keepdim else [g.squeeze(one, dim) for one in picked]


def median(g, x, dim=None, keepdim=False):
    if dim is not None:
        return kthvalue(g, x, (shape_of(g, x)[dim] + 1) // 2, dim, keepdim)
    return g.median(as_vector(g, x), 0, False)


# ---- Products ----

def einsum(g, operands, equation):
    operands = list(operands) if isinstance(operands, (list, tuple)) else [operands]
    return g.einsum(equation, *g.list_of(operands))


def matmul(g, a, b):
    first, second = len(shape_of(g, a)), len(shape_of(g, b))
    if min(first, second) < 1:
        raise Refused("a number")
    y = g.matmul(g.unsqueeze(a, 0) if first == 1 else a, g.unsqueeze(b, -1) if second == 1 else b)
    y = g.squeeze(y, -1) if second == 1 else y
    return g.squeeze(y, -1 if second == 1 else -2) if first == 1 else y


def scaled_sum(g, x, product, beta, alpha):
    """beta x + alpha product."""
    product = product if alpha == 1 else g.mul_scalar(product, float(alpha))
    if beta == 0:
        return product
    return g.add(x if beta == 1 else g.mul_scalar(x, float(beta)), product)


def add_product(multiply):
    def build(g, x, a, b, beta=1, alpha=1):
        return scaled_sum(g, x, multiply(g, a, b), beta, alpha)
    return build


def batches_summed(g, a, b):
    return g.sum(g.matmul(a, b), [0], 1, False)


def multi_dot(g, matrices):
    y = matrices[0]
    for matrix in matrices[1:]:
        y = matmul(g, y, matrix)
    return y


def tensordot(g, a, b, dims=2):
    if isinstance(dims, int):
        dims = [list(range(a.ndim - dims, a.ndim)), list(range(dims))]
    of_a, of_b = ([one % x.ndim for one in dims_of(some)] for some, x in zip(dims, (a, b)))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in range(a.ndim)]
    right = [left[of_a[of_b.index(i)]] if i in of_b else next(letters) for i in range(b.ndim)]
    kept = [c for i, c in enumerate(left) if i not in of_a]
    kept += [c for i, c in enumerate(right) if i not in of_b]
    equation = "%s,%s->%s" % ("".join(left), "".join(right), "".join(kept))
    return g.einsum(equation, *g.list_of([a, b]))


def vecdot(g, a, b, dim=-1):
    return g.sum(g.mul(a, b), [dim], 1, False)


# ---- Parts ----

def unbind(g, x, dim=0):
    count = x.shape[dim]
    parts = (g.library.types["tdm_value"] * max(count, 1))()
    g.library.call("unbind", g.graph, g.name(), g.value(x), dim, count, parts)
    return list(parts)[:count]


def chunk(g, x, chunks, dim=0):
    whole = x.shape[dim]
    each = -(-whole // chunks)
    sizes = [min(each, whole - at) for at in range(0, whole, max(each, 1))]
    parts = (g.library.types["tdm_value"] * max(len(sizes), 1))()
    g.library.call("split", g.graph, g.name(), g.value(x), dim, sizes, len(sizes), parts)
    return list(parts)


def diagonal(g, x, offset=0, dim1=0, dim2=1):
    return g.diagonal(x, offset, dim1, dim2)


def meshgrid(g, values, *others, indexing="ij"):
    values = list(values) if isinstance(values, (list, tuple)) else [values, *others]
    values, count = g.list_of([as_vector(g, x) for x in values])
    out = (g.library.types["tdm_value"] * count)()
    g.library.call("meshgrid", g.graph, g.name(), values, count, out)
    return [g.transpose(one, 0, 1) if indexing == "xy" and count > 1 else one for one in out]


def squeeze(g, x, dim=None):
    shape = shape_of(g, x)
    dims = range(len(shape)) if dim is None else dims_of(dim)
    dims = sorted({one % max(len(shape), 1) for one in dims if len(shape)} &
                  {i for i, size in enumerate(shape) if size == 1}, reverse=True)
    y = x if dims else g.reshape(x, g.shape(*shape))
    for one in dims:
        y = g.squeeze(y, one)
    return y


def unflatten(g, x, dim, sizes):
    shape, dim = list(x.shape), dim % x.ndim
    sizes = list(sizes)
    if -1 in sizes:
        rest = -int(numpy.prod(sizes))
        sizes[sizes.index(-1)] = shape[dim] // max(rest, 1)
    return g.reshape(x, g.shape(*shape[:dim], *sizes, *shape[dim + 1:]))


def movedim(g, x, source, destination):
    source, destination = ([one % x.ndim for one in dims_of(some)]
                           for some in (source, destination))
    rest = iter(i for i in range(x.ndim) if i not in source)
    order = [source[destination.index(i)] if i in destination else next(rest)
             for i in range(x.ndim)]
    return g.permute(x, order, len(order))


def turned(g, x):
    if x.ndim < 2:
        return g.reshape(x, g.shape(*x.shape))
    return g.permute(x, list(reversed(range(x.ndim))), x.ndim)


def reshaped(g, x, shape):
    return g.reshape(x, g.shape(*shape))


def at_least(rank):
    """The shape that hstack and the like see a tensor in."""
    return lambda x: [1] * (rank - x.ndim) + list(x.shape)


def stacked(shape, dim):
    def build(g, arrays):
        values = [reshaped(g, x, shape(x)) for x in arrays]
        along = 0 if dim == 1 and len(shape(arrays[0])) == 1 else dim
        return put_together(g, "concat", values, along)
    return build


def take_along(g, x, index, dim=None):
    if dim is None:
        return g.gather(as_vector(g, x), 0, as_vector(g, index % x.size))
    whole = [max(a, b) for a, b in zip(x.shape, index.shape)]
    whole[dim] = x.shape[dim]
    each = [*whole[:dim % x.ndim], index.shape[dim], *whole[dim % x.ndim + 1:]]
    places = numpy.ascontiguousarray(numpy.broadcast_to(index % x.shape[dim], each))
    return g.gather(g.expand(x, g.shape(*whole)), dim, places)


def repeat_interleave(g, x, repeats, dim=None, output_size=None):
    if dim is None:
        x, dim = as_vector(g, x), 0
    count = shape_of(g, x)[dim]
    places = numpy.repeat(numpy.arange(count), repeats if isinstance(repeats, int)
                          else numpy.broadcast_to(repeats, count))
    return g.index_select(x, dim, places)


def slice_of(g, x, dim=0, start=None, end=None, step=1):
    begin, stop, step = slice(start, end, step).indices(x.shape[dim])
    return g.slice(x, dim, begin, stop, step)


# ---- Along dimensions ----

def deviation(layer, mean_too=False):
    def build(g, x, dim=None, unbiased=None, correction=None, keepdim=False):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None or unbiased else 0
        dims = dims_of(dim)
        spread = getattr(g, layer)(x, dims, len(dims), float(correction), keepdim)
        return [spread, g.mean(x, dims, len(dims), keepdim)] if mean_too else spread
    return build


def vector_norm(g, x, ord=2, dim=None, keepdim=False, dtype=None):
    dims = dims_of(dim)
    return g.norm(cast(g, x, dtype), float(ord), dims, len(dims), keepdim)


def norm(g, x, p=2, dim=None, keepdim=False, dtype=None):
    if p in (None, "fro"):
        p = 2
    if isinstance(p, str):
        raise Refused("p=%s" % p)
    return vector_norm(g, x, p, dim, keepdim, dtype)


def normalize(g, x, p=2.0, dim=1, eps=1e-12, out=None):
    size = g.norm(x, float(p), [dim], 1, True)
    return g.div(x, g.clamp(size, float(eps), float("inf")))


def extremes(layer):
    """amax and amin: a dimension after the other."""
    def build(g, x, dim=None, keepdim=False):
        rank = len(shape_of(g, x))
        dims = dims_of(dim) or list(range(rank))
        x = x if dims else reshaped(g, x, shape_of(g, x))
        for one in sorted((one % max(rank, 1) for one in dims), reverse=True):
            x = getattr(g, layer)(x, one, keepdim, g.none())
        return x
    return build


def running(layer):
    def build(g, x, dim, **given):
        return getattr(g, layer)(cast(g, x, given.pop("dtype", None)), dim)
    return build


def logaddexp(g, a, b):
    a, b = numpy.broadcast_arrays(a, b) if a.shape == b.shape else (g.expand_as(x, g.add(a, b))
                                                                    for x in (a, b))
    return g.logsumexp(put_together(g, "stack", [a, b], 0), [0], 1, False)


# ---- Element by element ----

def multiplied(sign):
    def build(g, x, a, b, value=1):
        pairs = g.mul(a, b) if sign > 0 else g.div(a, b)
        return g.add(x, pairs if value == 1 else g.mul_scalar(pairs, float(value)))
    return build


def lerp(g, a, b, weight):
    step = g.sub(b, a)
    return g.add(a, g.mul(step, weight) if is_array(weight) else g.mul_scalar(step, float(weight)))


def celu(g, x, alpha=1.0, **given):
    only(given, inplace=False)
    y = g.elu(g.mul_scalar(x, 1 / alpha), 1.0)
    return g.mul_scalar(y, float(alpha))


def selu(g, x, **given):
    only(given, inplace=False)
    return g.mul_scalar(g.elu(x, 1.6732632423543772), 1.0507009873554805)


def softsign(g, x):
    return g.div(x, g.add_scalar(g.abs(x), 1.0))


def hardshrink(g, x, lambd=0.5):
    beyond = g.compare_scalar(g.abs(x), g.constant("TDM_GREATER"), float(lambd))
    return g.where(beyond, x, g.mul_scalar(x, 0.0))


def softshrink(g, x, lambd=0.5):
    return g.mul(g.sign(x), g.relu(g.add_scalar(g.abs(x), -float(lambd))))


def threshold(g, x, threshold, value, **given):
    only(given, inplace=False)
    beyond = g.compare_scalar(x, g.constant("TDM_GREATER"), float(threshold))
    return g.where(beyond, x, numpy.full((), value, x.dtype))


def powers_of_ten(g, x, decimals=0):
    """Rounds to this many decimals."""
    y = g.round(g.mul_scalar(x, 10.0 ** decimals))
    return g.mul_scalar(y, 10.0 ** -decimals)


def of_numbers(build):
    """A number is a vector of one to PyTorch's operations along a dimension."""
    def build_any(g, x, *given, **named):
        if not is_array(x) or x.ndim > 0:
            return build(g, x, *given, **named)
        made = build(g, as_vector(g, x), *given, **named)
        if not isinstance(made, (list, tuple)):
            return reshaped(g, made, [])
        return [reshaped(g, one, []) for one in made]
    return build_any


def rotate(layer_dims):
    return lambda g, x: g.flip(x, layer_dims, len(layer_dims))


def pixels(factor_down):
    def build(g, x, factor=None, upscale_factor=None, downscale_factor=None):
        factor = factor or upscale_factor or downscale_factor
        *lead, channels, height, width = x.shape
        count = len(lead)
        if factor_down:
            shape = [*lead, channels, height // factor, factor, width // factor, factor]
            order = [*range(count), count, count + 2, count + 4, count + 1, count + 3]
            made = [*lead, channels * factor * factor, height // factor, width // factor]
        else:
            shape = [*lead, channels // factor ** 2, factor, factor, height, width]
            order = [*range(count), count, count + 3, count + 1, count + 4, count + 2]
            made = [*lead, channels // factor ** 2, height * factor, width * factor]
        return reshaped(g, g.permute(reshaped(g, x, shape), order, len(order)), made)
    return build


def channel_shuffle(g, x, groups):
    n, channels, *rest = x.shape
    y = reshaped(g, x, [n, groups, channels // groups, *rest])
    return reshaped(g, g.transpose(y, 1, 2), list(x.shape))


BUILDERS = {
    "round/decimals_0": powers_of_ten, "round/decimals_3": powers_of_ten,
    "round/decimals_neg_3": powers_of_ten,
    "sort": sort, "topk": topk, "kthvalue": kthvalue, "median": median,
    "argsort": lambda g, x, dim=-1, descending=False, stable=False: g.argsort(x, dim, descending),
    "msort": lambda g, x: g.sort(x, 0, False, g.none()),
    "einsum": einsum, "outer": lambda g, a, b: g.outer(a, b), "tensordot": tensordot,
    "matmul": matmul, "mm": matmul, "bmm": matmul, "mv": matmul, "dot": matmul, "vdot": matmul,
    "__rmatmul__": lambda g, a, b: matmul(g, b, a),
    "inner": lambda g, a, b: tensordot(g, a, b, ([-1], [-1])) if a.ndim and b.ndim else g.mul(a, b),
    "addmm": add_product(matmul), "addmv": add_product(matmul), "baddbmm": add_product(matmul),
    "addbmm": add_product(batches_summed), "addr": add_product(lambda g, a, b: g.outer(a, b)),
    "linalg.multi_dot": multi_dot, "linalg.vecdot": vecdot,
    "unbind": unbind, "chunk": chunk, "unsafe_chunk": chunk, "diagonal": diagonal,
    "diagonal_copy": diagonal, "linalg.diagonal":
        lambda g, x, offset=0, dim1=-2, dim2=-1: g.diagonal(x, offset, dim1, dim2),
    "trace": lambda g, x: g.diagonal_sum(x), "meshgrid": meshgrid,
    "squeeze": squeeze, "squeeze_copy": squeeze, "unflatten": unflatten, "movedim": movedim,
    "unsqueeze_copy": lambda g, x, dim: g.unsqueeze(x, dim), "slice": slice_of,
    "transpose_copy": lambda g, x, first, second: g.transpose(x, first, second),
    "T": turned, "t": turned, "t_copy": turned, "mT": lambda g, x: g.transpose(x, -2, -1),
    "permute_copy": lambda g, x, dims: g.permute(x, list(dims), len(dims)),
    "ravel": as_vector, "reshape_as": lambda g, x, like: reshaped(g, x, like.shape),
    "view_as": lambda g, x, like: reshaped(g, x, like.shape),
    "view_copy": lambda g, x, *shape: reshaped(
        g, x, shape[0] if isinstance(shape[0], (list, tuple)) else shape),
    "broadcast_to": lambda g, x, shape: g.expand(x, g.shape(*shape)),
    "expand_copy": lambda g, x, *shape: g.expand(
        x, g.shape(*(shape[0] if isinstance(shape[0], (list, tuple)) else shape))),
    "hstack": stacked(at_least(1), 1), "vstack": stacked(at_least(2), 0),
    "dstack": stacked(lambda x: [1] * (2 - x.ndim) + list(x.shape) + [1] if x.ndim < 2
                      else list(x.shape) + [1] * (3 - x.ndim), 2),
    "column_stack": stacked(lambda x: list(x.shape) if x.ndim > 1 else [x.size, 1], 1),
    "take_along_dim": take_along, "repeat_interleave": repeat_interleave,
    "fliplr": rotate([1]), "flipud": rotate([0]), "tile": lambda g, x, dims: g.repeat(
        x, [1] * (x.ndim - len(dims)) + list(dims), max(x.ndim, len(dims))),
    "std": deviation("std"), "std_mean": deviation("std", True),
    "var_mean": deviation("variance", True),
    "linalg.vector_norm": vector_norm, "norm": norm, "nn.functional.normalize": normalize,
    "amax": extremes("max"), "amin": extremes("min"),
    "aminmax": lambda g, x, dim=None, keepdim=False: [
        extremes(layer)(g, x, dim, keepdim) for layer in ("min", "max")],
    "cumprod": running("cumprod"), "logcumsumexp": running("logcumsumexp"),
    "logaddexp": logaddexp, "addcmul": multiplied(1), "addcdiv": multiplied(-1), "lerp": lerp,
    "reciprocal": lambda g, x: g.pow(x, -1.0), "true_divide": lambda g, a, b: g.div(a, b),
    "exp2": lambda g, x: g.exp(g.mul_scalar(x, float(numpy.log(2)))),
    "hypot": lambda g, a, b: g.sqrt(g.add(g.square(a), g.square(b))),
    "deg2rad": lambda g, x: g.mul_scalar(x, float(numpy.pi / 180)),
    "rad2deg": lambda g, x: g.mul_scalar(x, float(180 / numpy.pi)),
    "clamp_min": lambda g, x, low: g.maximum(x, low) if is_array(low) else
        g.clamp(x, float(low), float("inf")),
    "clamp_max": lambda g, x, high: g.minimum(x, high) if is_array(high) else
        g.clamp(x, float("-inf"), float(high)),
    "nn.functional.celu": celu, "nn.functional.selu": selu, "nn.functional.softsign": softsign,
    "nn.functional.hardshrink": hardshrink, "nn.functional.softshrink": softshrink,
    "nn.functional.threshold": threshold,
    "nn.functional.tanhshrink": lambda g, x: g.sub(x, g.tanh(x)),
    "nn.functional.logsigmoid": lambda g, x: g.neg(g.softplus(g.neg(x), 1.0, 40.0)),
    "nn.functional.softmin": lambda g, x, dim, dtype=None: g.softmax(
        g.neg(cast(g, x, dtype)), dim),
    "nn.functional.pixel_shuffle": pixels(False), "nn.functional.pixel_unshuffle": pixels(True),
    "nn.functional.channel_shuffle": channel_shuffle,
}
