"""ONNX's cases of single nodes (onnx.backend.test.case.node). Inputs that say shapes, axes and the
like are read when the graph is built, as an importer of such files would."""

import numpy
import onnx
from onnx.backend.test.case.node import collect_testcases

from cases import Case, Refused
from torch_arrays import matmul as product
from torch_layers import options_of, spatial


class Node:
    """One node: its attributes, and its inputs as arrays, None where left out."""

    def __init__(self, proto, arrays):
        self.proto = proto
        self.attributes = {one.name: onnx.helper.get_attribute_value(one)
                           for one in proto.attribute}
        self.inputs = [arrays.get(name) if name else None for name in proto.input]
        self.asked = set()

    def get(self, name, default=None):
        self.asked.add(name)
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def input(self, index):
        return self.inputs[index] if index < len(self.inputs) else None

    def ints(self, name, index=None):
        """An attribute, or since some version an input, of integers."""
        given = self.get(name)
        if given is None and index is not None and self.input(index) is not None:
            given = numpy.atleast_1d(self.input(index)).tolist()
        return None if given is None else [int(one) for one in numpy.atleast_1d(given)]

    def finish(self):
        left = set(self.attributes) - self.asked
        if left:
            raise Refused("attributes " + ", ".join(sorted(left)))


def unary(layer, *numbers):
    return lambda g, n: getattr(g, layer)(n.input(0), *numbers)


def binary(layer):
    def build(g, n):
        value = n.input(0)
        for other in n.inputs[1:]:
            value = getattr(g, layer)(value, other)
        return value if len(n.inputs) > 1 else g.reshape(value, g.shape(*n.input(0).shape))
    return build


def comparison(relation):
    return lambda g, n: g.compare(n.input(0), g.constant(relation), n.input(1))


def reduction(layer, before=None, after=None):
    def build(g, n):
        x = n.input(0)
        axes = n.ints("axes", 1)
        keep = bool(n.get("keepdims", 1))
        if not axes and n.get("noop_with_empty_axes", 0):
            raise Refused("no axes")
        if axes is not None and not axes:
            axes = None
        if before:
            x = before(g, x)
        axes = list(range(n.input(0).ndim)) if axes is None else axes
        if layer in ("sum", "mean", "prod", "logsumexp"):
            y = getattr(g, layer)(x, axes, len(axes), keep)
        else:
            y = x
            for axis in sorted((axis % n.input(0).ndim for axis in axes), reverse=True):
                made = [g.library.types["tdm_value"]()] if layer in ("max", "min") else []
                y = getattr(g, layer)(y, axis, keep, *made)
        return after(g, y) if after else y
    return build


def extreme(layer):
    def build(g, n):
        if n.get("select_last_index", 0):
            raise Refused("select_last_index")
        return getattr(g, layer)(n.input(0), n.get("axis", 0), bool(n.get("keepdims", 1)))
    return build


def computed_pads(n, rank):
    """Those of auto_pad: as many as make ceil(size / stride) windows, the odd one on one side."""
    kernel = n.ints("kernel_shape") or list(n.input(1).shape[2:])
    strides, dilations = n.ints("strides") or [1] * rank, n.ints("dilations") or [1] * rank
    before, after = [], []
    for size, extent, stride, dilation in zip(n.input(0).shape[2:], kernel, strides, dilations):
        whole = max((-(-size // stride) - 1) * stride + dilation * (extent - 1) + 1 - size, 0)
        small = whole // 2
        lower = n.get("auto_pad") == "SAME_LOWER"
        before.append(whole - small if lower else small)
        after.append(small if lower else whole - small)
    return before + after


def window(n, rank):
    """Symmetric pads of a window; others are refused."""
    pads = n.ints("pads") or [0] * (2 * rank)
    if n.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        if n.proto.op_type == "ConvTranspose":
            raise Refused("auto_pad")
        pads = computed_pads(n, rank)
    if pads[:rank] != pads[rank:]:
        raise Refused("pads that differ on both sides")
    return {"stride": n.ints("strides") or [1] * rank, "padding": pads[:rank],
            "dilation": n.ints("dilations") or [1] * rank}


def rank_of(n):
    rank = n.input(0).ndim - 2
    if rank not in (1, 2, 3):
        raise Refused("%d spatial dimensions" % rank)
    return rank


def convolution(transposed):
    def build(g, n):
        rank, weight = rank_of(n), n.input(1)
        n.get("kernel_shape")
        groups = n.get("group", 1)
        members = window(n, rank)
        if transposed:
            if n.get("output_shape"):
                raise Refused("output_shape")
            members["output_padding"] = n.ints("output_padding") or [0] * rank
        g.named("c.weight", weight)
        g.named("c.bias", n.input(2))
        kind = "conv_transpose" if transposed else "conv"
        options = options_of(g, kind, rank, groups=groups, without_bias=n.input(2) is None,
                             **members)
        out = weight.shape[1] * groups if transposed else weight.shape[0]
        return spatial(g, "%s%dd" % (kind, rank), rank, n.input(0), weight.shape[2:], options,
                       out, "c")
    return build


def pool(layer):
    def build(g, n):
        rank = rank_of(n)
        members = window(n, rank)
        members["ceil"] = bool(n.get("ceil_mode", 0))
        if layer == "avg_pool":
            members["exclude_padding"] = not n.get("count_include_pad", 0)
            if members.pop("dilation") != [1] * rank:
                raise Refused("dilation")
        if n.get("storage_order", 0):
            raise Refused("storage_order")
        if len(n.proto.output) > 1:
            raise Refused("indices over images and channels")
        return spatial(g, "%s%dd" % (layer, rank), rank, n.input(0), n.ints("kernel_shape"),
                       options_of(g, "pool", rank, **members))
    return build


def whole_pool(layer):
    def build(g, n):
        axes = list(range(2, n.input(0).ndim))
        if layer == "mean":
            return g.mean(n.input(0), axes, len(axes), True)
        y = n.input(0)
        for axis in axes:
            y = g.max(y, axis, True, g.library.types["tdm_value"]())
        return y
    return build


def gemm(g, n):
    a, b = n.input(0), n.input(1)
    a = g.transpose(a, 0, 1) if n.get("transA", 0) else a
    b = g.transpose(b, 0, 1) if n.get("transB", 0) else b
    y = g.mul_scalar(g.matmul(a, b), float(n.get("alpha", 1.0)))
    if n.input(2) is None:
        return y
    return g.add(y, g.mul_scalar(n.input(2), float(n.get("beta", 1.0))))


def matmul(g, n):
    return product(g, n.input(0), n.input(1))


def clip(g, n):
    low, high = n.input(1), n.input(2)
    return g.clamp(n.input(0), float("-inf") if low is None else float(low),
                   float("inf") if high is None else float(high))


def slice_of(g, n):
    x = n.input(0)
    starts, ends = n.ints("starts", 1), n.ints("ends", 2)
    axes = n.ints("axes", 3) or list(range(len(starts)))
    steps = n.ints("steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        size = n.input(0).shape[axis]
        begin, stop, step = slice(start, end, step).indices(size)
        end = -2**63 if step < 0 and stop < 0 else stop
        x = g.slice(x, axis, begin, end, step)
    return x


def split(g, n):
    x, axis = n.input(0), n.get("axis", 0)
    count = n.get("num_outputs") or len(n.proto.output)
    whole = x.shape[axis]
    sizes = n.ints("split", 1)
    if sizes is None:
        each = -(-whole // count)
        sizes = [min(each, whole - at) for at in range(0, whole, each)]
    parts = (g.library.types["tdm_value"] * len(sizes))()
    g.library.call("split", g.graph, g.name(), g.value(x), axis, sizes, len(sizes), parts)
    return list(parts)


def reshape(g, n):
    shape = n.ints("shape", 1)
    x = n.input(0)
    if not n.get("allowzero", 0):
        shape = [x.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return g.reshape(x, g.shape(*shape))


def squeeze(g, n):
    x = n.input(0)
    axes = n.ints("axes", 1)
    axes = [i for i, size in enumerate(x.shape) if size == 1] if axes is None else axes
    y = x
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        y = g.squeeze(y, axis)
    return y


def unsqueeze(g, n):
    axes = n.ints("axes", 1)
    rank = n.input(0).ndim + len(axes)
    y = n.input(0)
    for axis in sorted(axis % rank for axis in axes):
        y = g.unsqueeze(y, axis)
    return y


def flatten(g, n):
    x, axis = n.input(0), n.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    rows = int(numpy.prod(x.shape[:axis]))
    return g.reshape(x, g.shape(rows, int(numpy.prod(x.shape[axis:]))))


def expand(g, n):
    x, shape = n.input(0), n.ints("shape", 1)
    shape = numpy.broadcast_shapes(tuple(shape), x.shape)
    return g.expand(x, g.shape(*shape))


def pad(g, n):
    x = n.input(0)
    mode = {"constant": "CONSTANT", "reflect": "REFLECT", "edge": "REPLICATE",
            "wrap": "CIRCULAR"}[n.get("mode", "constant")]
    pads = n.ints("pads", 1)
    axes = n.ints("axes", 3) or list(range(x.ndim))
    count = len(axes)
    both = {axis % x.ndim: (pads[i], pads[count + i]) for i, axis in enumerate(axes)}
    first = min((axis for axis, pair in both.items() if pair != (0, 0)), default=0)
    amounts = [one for axis in range(x.ndim - 1, first - 1, -1)
               for one in both.get(axis, (0, 0))]
    value = n.input(2)
    return g.pad(x, amounts, len(amounts), g.constant("TDM_PAD_" + mode),
                 0.0 if value is None else float(value))


def gather(g, n):
    x, index, axis = n.input(0), n.input(1), n.get("axis", 0)
    if index.ndim == 0:
        return g.select(x, axis, int(index))
    index = numpy.where(index < 0, index + x.shape[axis], index)
    flat = g.index_select(x, axis, g.reshape(index, g.shape(index.size)))
    axis %= x.ndim
    return g.reshape(flat, g.shape(*x.shape[:axis], *index.shape, *x.shape[axis + 1:]))


def gather_elements(g, n):
    x, axis, index = n.input(0), n.get("axis", 0), n.input(1)
    return g.gather(x, axis, numpy.where(index < 0, index + x.shape[axis], index))


def scatter(g, n):
    if n.get("reduction", "none") != "add":
        raise Refused("reduction")
    if (n.input(1) < 0).any():
        raise Refused("indices that are negative")
    return g.scatter_add(n.input(0), n.get("axis", 0), n.input(1), n.input(2))


def layer_norm(g, n):
    x, axis = n.input(0), n.get("axis", -1)
    if len(n.proto.output) > 1:
        raise Refused("mean and deviation as outputs")
    n.get("stash_type")
    g.named("n.weight", n.input(1))
    g.named("n.bias", n.input(2))
    options = g.options("layer_norm_options", epsilon=n.get("epsilon", 1e-5),
                        without_bias=n.input(2) is None)
    return g.layer_norm_with(x, x.ndim - axis % x.ndim, options, name="n")


def rms_norm(g, n):
    x, axis = n.input(0), n.get("axis", -1)
    n.get("stash_type")
    g.named("n.weight", n.input(1))
    options = g.options("rms_norm_options", epsilon=n.get("epsilon", 1e-5))
    return g.rms_norm_with(x, x.ndim - axis % x.ndim, options, name="n")


def group_norm(g, n):
    n.get("stash_type")
    g.named("n.weight", n.input(1))
    g.named("n.bias", n.input(2))
    options = g.options("group_norm_options", epsilon=n.get("epsilon", 1e-5))
    return g.group_norm_with(n.input(0), n.get("num_groups"), options, name="n")


def instance_norm(g, n):
    g.named("n.weight", n.input(1))
    g.named("n.bias", n.input(2))
    options = g.options("instance_norm_options", epsilon=n.get("epsilon", 1e-5), affine=True)
    return g.instance_norm_with(n.input(0), options, name="n")


def batch_norm(g, n):
    if n.get("training_mode", 0) or len(n.proto.output) > 1:
        raise Refused("training_mode")
    n.get("momentum")
    g.named("n.weight", n.input(1))
    g.named("n.bias", n.input(2))
    g.state["n.running_mean"], g.state["n.running_var"] = n.input(3), n.input(4)
    return g.batch_norm_with(n.input(0), g.options("batch_norm_options",
                                                   epsilon=n.get("epsilon", 1e-5)), name="n")


def softmax(layer):
    def build(g, n):
        return getattr(g, layer)(n.input(0), n.get("axis", -1))
    return build


def prelu(g, n):
    x, slope = n.input(0), n.input(1)
    return g.where(g.compare_scalar(x, g.constant("TDM_LESS"), 0.0), g.mul(x, slope), x)


def triangle(g, n):
    k = int(n.input(1)) if n.input(1) is not None else 0
    return (g.triu if n.get("upper", 1) else g.tril)(n.input(0), k)


def one_hot(g, n):
    ids, depth, values = n.inputs
    if n.get("axis", -1) != -1 or (ids < 0).any() or values.tolist() != [0, 1]:
        raise Refused("axis, values or indices")
    return g.one_hot(ids, int(depth))


def cast(g, n):
    kinds = {1: "TDM_FLOAT32", 11: "TDM_FLOAT64", 6: "TDM_INT32", 7: "TDM_INT64"}
    n.get("saturate"), n.get("round_mode")
    if n.get("to") not in kinds:
        raise Refused("to another dtype")
    return g.cast(n.input(0), g.constant(kinds[n.get("to")]))


def span(g, n):
    start, limit, step = (one.item() for one in n.inputs)
    return g.arange(g.dtype(n.input(0)), float(start), float(limit), float(step))


def cumsum(g, n):
    if n.get("exclusive", 0) or n.get("reverse", 0):
        raise Refused("exclusive or reverse")
    return g.cumsum(n.input(0), int(n.input(1)))


def gelu(g, n):
    return g.gelu(n.input(0)) if n.get("approximate", "none") == "none" else g.gelu_tanh(n.input(0))


def power(g, n):
    if n.input(0).dtype != n.input(1).dtype:
        raise Refused("two dtypes")
    return g.power(n.input(0), n.input(1))


def mod(g, n):
    if n.get("fmod", 0):
        raise Refused("fmod")
    return g.remainder(n.input(0), n.input(1))


def cross_entropy(layer):
    def build(g, n):
        if len(n.proto.output) > 1:
            raise Refused("log_prob as an output")
        members = {}
        if n.input(2) is not None:
            members["weight"] = g.value(n.input(2))
        ignored = n.get("ignore_index")
        if ignored is not None:
            members["ignore_index"] = ignored
        name = "TDM_LOSS_" + n.get("reduction", "mean").upper()
        options = g.options("loss_options", reduction=g.constant(name), **members)
        return getattr(g, layer + "_with")(n.input(0), n.input(1), options)
    return build


def einsum(g, n):
    return g.einsum(n.get("equation"), *g.list_of(n.inputs))


def topk(g, n):
    indices = g.none()
    n.get("sorted")
    largest = bool(n.get("largest", 1))
    return [g.topk(n.input(0), int(n.input(1)[0]), n.get("axis", -1), largest, indices), indices]


def resize(g, n):
    """Builds PyTorch's interpolate: nearest of the position below, linear and cubic by half pixels
    or corners, to sizes."""
    x, scales, sizes = n.input(0), n.input(2), n.ints("sizes", 3)
    mode, place = n.get("mode", "nearest"), n.get("coordinate_transformation_mode", "half_pixel")
    if n.get("antialias", 0) or n.get("exclude_outside", 0) or n.get("axes"):
        raise Refused("antialias, exclude_outside or axes")
    if n.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refused("keep_aspect_ratio_policy")
    if sizes is None:
        exact = [float(scale) * size for scale, size in zip(scales, x.shape)]
        sizes = [int(one) for one in exact]
        if sizes != exact:
            raise Refused("scales that lead between sizes")
    if list(sizes[:2]) != list(x.shape[:2]):
        raise Refused("batch or channels")
    corners = place == "align_corners"
    known = {("nearest", "asymmetric"): "NEAREST", ("linear", "half_pixel"): "LINEAR",
             ("linear", "align_corners"): "LINEAR", ("cubic", "half_pixel"): "CUBIC",
             ("cubic", "align_corners"): "CUBIC"}
    if (mode, place) not in known:
        raise Refused("mode=%s, %s" % (mode, place))
    if mode == "nearest" and n.get("nearest_mode", "round_prefer_floor") != "floor":
        raise Refused("nearest_mode")
    if mode == "cubic" and n.get("cubic_coeff_a", -0.75) != -0.75:
        raise Refused("cubic_coeff_a")
    return g.interpolate(x, sizes[2:], len(sizes) - 2,
                         g.constant("TDM_INTERPOLATE_" + known[mode, place]), corners)


def depth_to_space(g, n):
    x, size = n.input(0), n.get("blocksize")
    batch, depth, height, width = x.shape
    if n.get("mode", "DCR") == "DCR":
        shape, order = [batch, size, size, depth // size ** 2, height, width], [0, 3, 4, 1, 5, 2]
    else:
        shape, order = [batch, depth // size ** 2, size, size, height, width], [0, 1, 4, 2, 5, 3]
    y = g.permute(g.reshape(x, g.shape(*shape)), order, 6)
    return g.reshape(y, g.shape(batch, depth // size ** 2, height * size, width * size))


def space_to_depth(g, n):
    x, size = n.input(0), n.get("blocksize")
    batch, depth, height, width = x.shape
    y = g.reshape(x, g.shape(batch, depth, height // size, size, width // size, size))
    y = g.permute(y, [0, 3, 5, 1, 2, 4], 6)
    return g.reshape(y, g.shape(batch, depth * size ** 2, height // size, width // size))


def lp_norm(g, n):
    x, axis = n.input(0), n.get("axis", -1)
    size = g.norm(x, float(n.get("p", 2)), [axis], 1, True)
    zero = g.compare_scalar(size, g.constant("TDM_EQUAL"), 0.0)
    return g.div(x, g.masked_fill(size, zero, 1.0))


def mean_variance(g, n):
    axes = n.ints("axes") or [0, 2, 3]
    centred = g.sub(n.input(0), g.mean(n.input(0), axes, len(axes), True))
    spread = g.sqrt(g.mean(g.square(centred), axes, len(axes), True))
    return g.div(centred, g.add_scalar(spread, 1e-9))


def selu(g, n):
    alpha, gamma = n.get("alpha", 1.6732632423543772), n.get("gamma", 1.0507009873554805)
    return g.mul_scalar(g.elu(n.input(0), float(alpha)), float(gamma))


def celu(g, n):
    alpha = float(n.get("alpha", 1.0))
    return g.mul_scalar(g.elu(g.mul_scalar(n.input(0), 1 / alpha), 1.0), alpha)


def shrink(g, n):
    x, bias, lambd = n.input(0), float(n.get("bias", 0.0)), float(n.get("lambd", 0.5))
    above = g.compare_scalar(x, g.constant("TDM_GREATER"), lambd)
    below = g.compare_scalar(x, g.constant("TDM_LESS"), -lambd)
    zeros = numpy.zeros((), x.dtype)
    return g.where(above, g.add_scalar(x, -bias), g.where(below, g.add_scalar(x, bias), zeros))


def thresholded(g, n):
    x = n.input(0)
    above = g.compare_scalar(x, g.constant("TDM_GREATER"), float(n.get("alpha", 1.0)))
    return g.where(above, x, numpy.zeros((), x.dtype))


def cumprod(g, n):
    if n.get("exclusive", 0) or n.get("reverse", 0):
        raise Refused("exclusive or reverse")
    return g.cumprod(n.input(0), int(n.input(1)))


def joined(g, n):
    values = [g.value(one) for one in n.inputs]
    return g.concat(values, len(values), n.get("axis"))


def permute(g, n):
    order = n.ints("perm") or list(reversed(range(n.input(0).ndim)))
    return g.permute(n.input(0), order, len(order))


def tile(g, n):
    times = n.input(1).tolist()
    return g.repeat(n.input(0), times, len(times))


def average(g, n):
    return g.mul_scalar(binary("add")(g, n), 1 / len(n.inputs))


def lrn(g, n):
    if n.get("size") % 2 == 0:
        raise Refused("an even size")
    return g.local_response_norm(n.input(0), n.get("size"), n.get("alpha", 1e-4),
                                 n.get("beta", 0.75), n.get("bias", 1.0))


BUILDERS = {
    **{name: unary(name.lower()) for name in
       "Abs Cos Erf Exp Floor Log Mish Neg Relu Round Sigmoid Sign Sin Sqrt Tanh".split()},
    "HardSwish": unary("hardswish"), "Reciprocal": unary("pow", -1.0),
    "HardSigmoid": lambda g, n: g.clamp(g.affine(n.input(0), n.get("alpha", 0.2),
                                                 n.get("beta", 0.5)), 0.0, 1.0),
    "Elu": lambda g, n: g.elu(n.input(0), n.get("alpha", 1.0)),
    "LeakyRelu": lambda g, n: g.leaky_relu(n.input(0), n.get("alpha", 0.01)),
    "Softplus": lambda g, n: g.softplus(n.input(0), 1.0, 20.0), "Gelu": gelu, "PRelu": prelu,
    "Swish": unary("silu"), "Clip": clip, "Pow": power, "Mod": mod,
    "Add": binary("add"), "Sub": binary("sub"), "Mul": binary("mul"), "Div": binary("div"),
    "Max": binary("maximum"), "Min": binary("minimum"), "Sum": binary("add"), "Mean": average,
    "Equal": comparison("TDM_EQUAL"), "Less": comparison("TDM_LESS"),
    "LessOrEqual": comparison("TDM_LESS_EQUAL"), "Greater": comparison("TDM_GREATER"),
    "GreaterOrEqual": comparison("TDM_GREATER_EQUAL"),
    "Where": lambda g, n: g.where(*n.inputs),
    "ReduceSum": reduction("sum"), "ReduceMean": reduction("mean"),
    "ReduceMax": reduction("max"), "ReduceMin": reduction("min"), "ReduceProd": reduction("prod"),
    "ReduceL1": reduction("sum", lambda g, x: g.abs(x)),
    "ReduceL2": reduction("sum", lambda g, x: g.square(x), lambda g, y: g.sqrt(y)),
    "ReduceSumSquare": reduction("sum", lambda g, x: g.square(x)),
    "ReduceLogSum": reduction("sum", None, lambda g, y: g.log(y)),
    "ReduceLogSumExp": reduction("logsumexp"),
    "ArgMax": extreme("argmax"), "ArgMin": extreme("argmin"), "CumSum": cumsum,
    "Conv": convolution(False), "ConvTranspose": convolution(True),
    "MaxPool": pool("max_pool"), "AveragePool": pool("avg_pool"),
    "GlobalAveragePool": whole_pool("mean"), "GlobalMaxPool": whole_pool("max"),
    "Einsum": einsum, "TopK": topk, "Resize": resize, "CumProd": cumprod,
    "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth, "LpNormalization": lp_norm,
    "MeanVarianceNormalization": mean_variance, "Selu": selu, "Celu": celu, "Shrink": shrink,
    "ThresholdedRelu": thresholded,
    "Softsign": lambda g, n: g.div(n.input(0), g.add_scalar(g.abs(n.input(0)), 1.0)),
    "Gemm": gemm, "MatMul": matmul, "Transpose": permute, "Concat": joined, "Split": split,
    "Slice": slice_of, "Reshape": reshape, "Squeeze": squeeze, "Unsqueeze": unsqueeze,
    "Flatten": flatten, "Expand": expand, "Tile": tile, "Pad": pad, "Gather": gather,
    "GatherElements": gather_elements, "ScatterElements": scatter, "Trilu": triangle,
    "OneHot": one_hot, "Cast": cast, "Range": span,
    "LayerNormalization": layer_norm, "RMSNormalization": rms_norm,
    "GroupNormalization": group_norm, "InstanceNormalization": instance_norm,
    "BatchNormalization": batch_norm, "LRN": lrn, "Softmax": softmax("softmax"),
    "LogSoftmax": softmax("log_softmax"),
    "SoftmaxCrossEntropyLoss": cross_entropy("cross_entropy"),
    "NegativeLogLikelihoodLoss": cross_entropy("nll"),
}


def make_case(test):
    graph = test.model.graph
    inputs, outputs = test.data_sets[0]
    if not all(isinstance(one, (numpy.ndarray, numpy.generic)) for one in [*inputs, *outputs]):
        return Refused("sequences or optional values")
    inputs = [numpy.asarray(one) for one in inputs]
    outputs = [numpy.asarray(one) for one in outputs]
    arrays = dict(zip((one.name for one in graph.input), inputs))

    def build(g):
        node = Node(graph.node[0], arrays)
        made = BUILDERS[node.proto.op_type](g, node)
        node.finish()
        return made

    return Case(build, outputs, tolerance=test.rtol)


def groups():
    tests = {}
    for test in collect_testcases(None):
        if len(test.model.graph.node) == 1:
            kind = test.model.graph.node[0].op_type
            if kind in BUILDERS:
                tests.setdefault(kind, []).append(test)
    for kind in sorted(tests):
        yield kind, (lambda found=tests[kind]: ((test.name, make_case(test)) for test in found))
