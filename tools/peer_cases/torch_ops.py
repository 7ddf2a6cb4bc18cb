"""PyTorch's samples of operations (torch.testing._internal.common_methods_invocations.op_db), in
float32 and float64 with gradients, and in int64 where an operation takes it."""

import math

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db

from cases import Case, Refused

DTYPES = [torch.float64, torch.float32, torch.int64]
NONE = (None,)


def only(given, **defaults):
    """Refuses arguments that have no counterpart, unless they are the defaults."""
    for name, value in given.items():
        if name not in defaults or value not in (defaults[name] if isinstance(
                defaults[name], tuple) else (defaults[name],)):
            raise Refused("%s=%s" % (name, str(value)[:60]))


def is_array(x):
    return isinstance(x, numpy.ndarray)


def dims_of(dim):
    if dim is None:
        return []
    return [dim] if isinstance(dim, int) else list(dim)


def pair(value):
    return [value, value] if isinstance(value, int) else list(value)


# ---- Builders: (graph, the sample's input and arguments) -> values ----

def unary(layer, *numbers):
    def build(g, x, **given):
        only(given, inplace=(False,))
        return getattr(g, layer)(x, *numbers)
    return build


def binary(layer):
    def build(g, a, b, **given):
        only(given, alpha=1, rounding_mode=None)
        if not is_array(a) and not is_array(b):
            raise Refused("two numbers")
        dtype = (a if is_array(a) else b).dtype
        if is_array(a) and is_array(b) and a.dtype != b.dtype:
            raise Refused("two dtypes")
        a, b = (x if is_array(x) else numpy.asarray(x, dtype) for x in (a, b))
        return getattr(g, layer)(a, b)
    return build


def comparison(relation):
    def build(g, a, b):
        if is_array(b):
            return g.compare(a, g.constant(relation), b)
        return g.compare_scalar(a, g.constant(relation), float(b))
    return build


def power(g, a, b):
    if is_array(a) and not is_array(b):
        return g.pow(a, float(b))
    return binary("power")(g, a, b)


def reduction(layer):
    def build(g, x, dim=None, keepdim=False, **given):
        only(given, dtype=None)
        dims = dims_of(dim)
        return getattr(g, layer)(x, dims, len(dims), keepdim)
    return build


def variance(g, x, dim=None, unbiased=None, correction=None, keepdim=False):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    dims = dims_of(dim)
    return g.variance(x, dims, len(dims), float(correction), keepdim)


def along(layer):
    def build(g, x, dim=None, keepdim=False, **given):
        only(given, dtype=None)
        if dim is None or not isinstance(dim, int):
            raise Refused("over %s" % ("all elements" if dim is None else "several dimensions"))
        return getattr(g, layer)(x, dim, keepdim)
    return build


def extreme(layer):
    def build(g, x, dim=None, keepdim=False):
        if not isinstance(dim, int):
            raise Refused("over all elements")
        indices = g.library.types["tdm_value"]()
        largest = getattr(g, layer)(x, dim, keepdim, indices)
        return largest, indices
    return build


def softmax(layer):
    def build(g, x, dim, **given):
        only(given, dtype=None)
        return getattr(g, layer)(x, dim)
    return build


def linear(g, input, weight, bias=None):
    x = input
    g.named("l.weight", weight)
    g.named("l.bias", bias)
    layer = g.linear if bias is not None else g.linear_without_bias
    return layer(x, weight.shape[0], name="l")


def convolution(layer, rank):
    def build(g, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1,
              output_padding=0):
        same = padding == "same"
        if isinstance(padding, str):
            padding = 0
        g.named("c.weight", weight)
        g.named("c.bias", bias)
        members = {"stride": pair(stride), "padding": pair(padding), "dilation": pair(dilation)}
        kind, out = "conv_options", weight.shape[0]
        if same:
            members["same"] = True
        if "transpose" in layer:
            kind, out = "conv_transpose_options", weight.shape[1] * groups
            members["output_padding"] = pair(output_padding)
        options = g.options(kind, groups=groups, without_bias=bias is None, **members)
        return getattr(g, layer)(x, out, *weight.shape[2:], options, name="c")
    return build


def with_indices(g, layer, x, *numbers):
    indices = g.library.types["tdm_value"]()
    return [getattr(g, layer + "_with_indices")(x, *numbers, indices), indices]


def pool(layer, rank):
    last = ["ceil_mode", "count_include_pad", "divisor_override"] if "avg" in layer else \
        ["dilation", "ceil_mode", "return_indices"]

    def build(g, x, kernel_size, stride=None, padding=0, *others, **given):
        given.update(zip(last, others))
        ceil_mode = given.pop("ceil_mode", False)
        indices = given.pop("return_indices", False)
        dilation = given.pop("dilation", 1)
        members = {"padding": pair(padding), "ceil": ceil_mode, "dilation": pair(dilation)}
        if stride is not None and stride != ():
            members["stride"] = pair(stride)
        if "avg" in layer:
            members["exclude_padding"] = not given.pop("count_include_pad", True)
            members["divisor"] = given.pop("divisor_override", None) or 0
            del members["dilation"]
        only(given)
        numbers = (*pair(kernel_size)[:rank], g.options("pool_options", **members))
        return with_indices(g, layer, x, *numbers) if indices else getattr(g, layer)(x, *numbers)
    return build


def unpool(rank):
    def build(g, x, indices, kernel_size, stride=None, padding=0, output_size=None):
        planes = indices.reshape(-1, math.prod(indices.shape[-rank:]))
        if any(len(set(plane.tolist())) < len(plane) for plane in planes):
            raise Refused("several elements of one place, which share their gradient here")
        numbers = ([value] * rank if isinstance(value, int) else list(value)
                   for value in (kernel_size, stride or kernel_size, padding))
        sizes = [(size - 1) * step - 2 * pad + kernel
                 for size, kernel, step, pad in zip(x.shape[-rank:], *numbers)]
        return g.max_unpool(x, indices, list((output_size or sizes)[-rank:]), rank)
    return build


def adaptive(layer, rank):
    def build(g, x, output_size, return_indices=False):
        sizes = [output_size] * rank if isinstance(output_size, int) else list(output_size)
        sizes = [x.shape[2 + i] if size is None else size
                 for i, size in enumerate(sizes * (rank if len(sizes) == 1 else 1))]
        return with_indices(g, layer, x, *sizes) if return_indices else getattr(g, layer)(x, *sizes)
    return build


def layer_norm(g, x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if weight is None and bias is not None:
        raise Refused("a bias without a weight")
    g.named("n.weight", weight)
    g.named("n.bias", bias)
    options = g.options("layer_norm_options", epsilon=eps, without_affine=weight is None,
                        without_bias=bias is None and weight is not None)
    return g.layer_norm_with(x, len(normalized_shape), options, name="n")


def rms_norm(g, x, normalized_shape, weight=None, eps=None):
    g.named("n.weight", weight)
    options = g.options("rms_norm_options", epsilon=eps or 0, without_affine=weight is None)
    return g.rms_norm_with(x, len(normalized_shape), options, name="n")


def group_norm(g, x, num_groups, weight=None, bias=None, eps=1e-5):
    if (weight is None) != (bias is None):
        raise Refused("a weight or a bias alone")
    g.named("n.weight", weight)
    g.named("n.bias", bias)
    options = g.options("group_norm_options", epsilon=eps, without_affine=weight is None)
    return g.group_norm_with(x, num_groups, options, name="n")


def embedding(g, ids, weight, padding_idx=None, **given):
    only(given, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False)
    g.named("e.weight", weight)
    options = g.options("embedding_options", has_padding_index=padding_idx is not None,
                        padding_index=padding_idx or 0)
    return g.embedding_with(ids, *weight.shape, options, name="e")


def embedding_bag(g, ids, weight, offsets=None, padding_idx=None, mode="mean",
                  include_last_offset=False, per_sample_weights=None, **given):
    only(given, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False)
    g.named("e.weight", weight)
    members = {}
    if offsets is not None:
        members["offsets"] = g.value(offsets)
    if per_sample_weights is not None:
        members["scales"] = g.value(per_sample_weights)
    options = g.options("embedding_bag_options", mode=g.constant("TDM_BAG_" + mode.upper()),
                        include_last_offset=include_last_offset,
                        has_padding_index=padding_idx is not None,
                        padding_index=padding_idx or 0, **members)
    return g.embedding_bag(ids, *weight.shape, options, name="e")


def loss(layer, *numbers):
    def build(g, x, target, weight=None, reduction="mean", ignore_index=None, label_smoothing=0.0,
              pos_weight=None, log_target=False, beta=None, delta=None, **given):
        only(given, size_average=None, reduce=None)
        g.constants(weight, pos_weight)
        if layer not in ("mse", "l1", "smooth_l1", "huber"):
            g.constants(target)  # no gradient flows into what is aimed at
        members = {"label_smoothing": label_smoothing, "log_target": log_target}
        if weight is not None:
            members["weight"] = g.value(weight)
        if pos_weight is not None:
            members["pos_weight"] = g.value(pos_weight)
        if ignore_index is not None and ignore_index != -100:
            members.update(has_ignore_index=True, ignore_index=ignore_index)
        if beta is not None or delta is not None:
            members["has_beta"] = True
            members["beta"] = float(delta if beta is None else beta)
        name = "TDM_LOSS_" + {"batchmean": "batch_mean"}.get(reduction, reduction).upper()
        options = g.options("loss_options", reduction=g.constant(name), **members)
        return getattr(g, layer + "_with")(x, target, options)
    return build


def reduced(g, given):
    name = "TDM_LOSS_" + given.pop("reduction", "mean").upper()
    only({key: given.pop(key, None) for key in ("size_average", "reduce")},
         size_average=None, reduce=None)
    return {"reduction": g.constant(name)}


def margins(layer, inputs, fixed, *members):
    """A loss of so many inputs; the last `fixed` of them take no gradient."""
    def build(g, *given, **named):
        arrays, names = list(given), list(named)
        arrays += [named.pop(key) for key in names if len(arrays) < inputs and
                   is_array(named[key]) and key != "weight"]
        if fixed:
            g.constants(*arrays[-fixed:])
        chosen = reduced(g, named)
        weight = named.pop("weight", None)
        if weight is not None:
            g.constants(weight)
            chosen["weight"] = g.value(weight)
        for key in members:
            if key in named:
                chosen[{"eps": "epsilon"}.get(key, key)] = named.pop(key)
        if "margin" in chosen:
            chosen["has_margin"] = True
        if "log_input" in named:
            chosen["linear_input"] = not named.pop("log_input")
        only(named)
        return getattr(g, layer + "_with")(*arrays, g.options("loss_options", **chosen))
    return build


def cosine_similarity(g, a, b, dim=1, eps=1e-8):
    return g.cosine_similarity(a, b, dim, float(eps))


def pairwise_distance(g, a, b, p=2.0, eps=1e-6, keepdim=False):
    return g.pairwise_distance(a, b, float(p), float(eps), keepdim)


def pad(mode):
    def build(g, x, pad, *given, value=None, **_):
        value = given[1] if len(given) > 1 else value
        return g.pad(x, list(pad), len(pad), g.constant("TDM_PAD_" + mode.upper()),
                     float(value or 0))
    return build


def interpolate(mode, aligns):
    def build(g, x, size=None, scale_factor=None, **given):
        given.pop("mode", None)
        corners = bool(given.pop("align_corners", False))
        only(given, recompute_scale_factor=(None, False), antialias=(False, None))
        if size is None:
            raise Refused("scale_factor")
        sizes = [size] * (x.ndim - 2) if isinstance(size, int) else list(size)
        return g.interpolate(x, sizes, len(sizes), g.constant("TDM_INTERPOLATE_" + mode), corners)
    return build


def attention(g, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, **given):
    only(given, enable_gqa=False, scale=None)
    if dropout_p:
        raise Refused("dropout")
    if q.ndim != 4:
        raise Refused("%d dimensions" % q.ndim)
    if attn_mask is not None:
        raise Refused("attn_mask")  # a bool one means the opposite, one that is added is trained
    heads = q.shape[1]
    flat = [g.flatten(g.transpose(x, 1, 2), 2, 3) for x in (q, k, v)]
    options = g.options("attention_options", heads=heads, causal=is_causal)
    y = g.attention(*flat, options)
    shape = g.shape(q.shape[0], q.shape[2], heads, v.shape[3])
    return g.transpose(g.reshape(y, shape), 1, 2)


def split(g, x, sizes, dim=0):
    if isinstance(sizes, int):
        whole = x.shape[dim]
        sizes = [min(sizes, whole - at) for at in range(0, whole, max(sizes, 1))] or [0]
    parts = (g.library.types["tdm_value"] * len(sizes))()
    g.library.call("split", g.graph, g.name(), g.value(x), dim, list(sizes), len(sizes), parts)
    return list(parts)


def joined(layer):
    def build(g, *given, dim=0, **others):
        only(others)
        arrays = given[0] if isinstance(given[0], (list, tuple)) else given
        if len(given) > 1 and isinstance(given[1], int):
            dim = given[1]
        values = [g.value(one) for one in arrays]
        if layer == "concat":
            return g.concat(values, len(values), dim)
        return g.stack(values, len(values), dim)
    return build


def dims_list(layer):
    def build(g, x, *dims, **given):
        dims = given.pop("dims", dims)
        only(given)
        dims = list(dims[0]) if dims and isinstance(dims[0], (list, tuple)) else list(dims)
        return getattr(g, layer)(x, dims, len(dims))
    return build


def roll(g, x, shifts=None, dims=None):
    if dims is None or dims == ():
        raise Refused("without a dimension")
    for shift, dim in zip(pair(shifts)[:1] if isinstance(shifts, int) else shifts,
                          dims_of(dims)):
        x = g.roll(x, shift, dim)
    return x


def sizes_of(given):
    sizes = given[0] if isinstance(given[0], (list, tuple)) else given
    return list(sizes)


def clamp(g, x, min=None, max=None):
    if is_array(min) or is_array(max):
        raise Refused("bounds that are tensors")
    return g.clamp(x, float("-inf") if min is None else float(min),
                   float("inf") if max is None else float(max))


def where(g, a, condition, b):
    return g.where(condition, a, b)


def masked_fill(g, x, mask, value):
    if is_array(value):
        raise Refused("a value that is a tensor")
    return g.masked_fill(x, mask, float(value))


def slice_of(g, x, dim, start, length):
    if is_array(start):
        raise Refused("a start that is a tensor")
    return g.slice(x, dim, start, start + length if start >= 0 or start + length < 0
                   else 2**63 - 1, 1)


def prelu(g, x, weight):
    g.named("a.weight", weight)
    return g.prelu(x, weight.size, name="a")


def leaky(g, x, negative_slope=0.01, **given):
    only(given, inplace=False)
    return g.leaky_relu(x, float(negative_slope))


def elu(g, x, alpha=1.0, **given):
    only(given, inplace=False)
    return g.elu(x, float(alpha))


def gelu(g, x, approximate="none"):
    return g.gelu(x) if approximate == "none" else g.gelu_tanh(x)


def softplus(g, x, beta=1, threshold=20):
    return g.softplus(x, float(beta), float(threshold))


def hardtanh(g, x, min_val=-1.0, max_val=1.0, **given):
    only(given, inplace=False)
    return g.hardtanh(x, float(min_val), float(max_val))


def one_hot(g, ids, num_classes=-1):
    if num_classes < 0:
        raise Refused("num_classes=-1")
    return g.one_hot(ids, num_classes)


def matmul(g, a, b):
    if a.ndim < 2 or b.ndim < 2:
        raise Refused("vectors")
    return g.matmul(a, b)


BUILDERS = {
    **{name: unary(name) for name in
       "neg abs sin cos erf floor round sign exp log sqrt rsqrt tanh sigmoid square".split()},
    **{"nn.functional." + name: unary(name) for name in
       "relu silu hardsigmoid hardswish mish relu6 tanh".split()},
    "add": binary("add"), "sub": binary("sub"), "mul": binary("mul"), "div": binary("div"),
    "maximum": binary("maximum"), "minimum": binary("minimum"), "remainder": binary("remainder"),
    "pow": power, "eq": comparison("TDM_EQUAL"), "ne": comparison("TDM_NOT_EQUAL"),
    "lt": comparison("TDM_LESS"), "le": comparison("TDM_LESS_EQUAL"),
    "gt": comparison("TDM_GREATER"), "ge": comparison("TDM_GREATER_EQUAL"),
    "clamp": clamp, "where": where, "masked_fill": masked_fill,
    "sum": reduction("sum"), "mean": reduction("mean"), "var": variance,
    "max": extreme("max"), "min": extreme("min"), "argmax": along("argmax"),
    "argmin": along("argmin"), "prod": along("prod"), "logsumexp": along("logsumexp"),
    "cumsum": lambda g, x, dim, **given: (only(given, dtype=None), g.cumsum(x, dim))[1],
    "softmax": softmax("softmax"), "log_softmax": softmax("log_softmax"),
    "matmul": matmul, "mm": matmul, "bmm": matmul,
    "transpose": lambda g, x, first, second: g.transpose(x, first, second),
    "permute": dims_list("permute"), "flip": dims_list("flip"), "roll": roll,
    "reshape": lambda g, x, shape: g.reshape(x, g.shape(*shape)),
    "view": lambda g, x, *shape: g.reshape(x, g.shape(*sizes_of(shape))),
    "flatten": lambda g, x, start_dim=0, end_dim=-1: g.flatten(x, start_dim, end_dim),
    "select": lambda g, x, dim, index: g.select(x, dim, index),
    "narrow": slice_of,
    "unsqueeze": lambda g, x, dim: g.unsqueeze(x, dim),
    "split": split, "split_with_sizes": split, "cat": joined("concat"), "stack": joined("stack"),
    "expand": lambda g, x, *shape: g.expand(x, g.shape(*sizes_of(shape))),
    "expand_as": lambda g, x, like: g.expand_as(x, like),
    "repeat": lambda g, x, *times: g.repeat(x, sizes_of(times), len(sizes_of(times))),
    "triu": lambda g, x, diagonal=0: g.triu(x, diagonal),
    "tril": lambda g, x, diagonal=0: g.tril(x, diagonal),
    "gather": lambda g, x, dim, index: g.gather(x, dim, index),
    "index_select": lambda g, x, dim, index: g.index_select(x, dim, index),
    "scatter_add": lambda g, x, dim, index, source: g.scatter_add(x, dim, index, source),
    "nn.functional.one_hot": one_hot, "one_hot": one_hot,
    "nn.functional.leaky_relu": leaky, "nn.functional.elu": elu, "nn.functional.gelu": gelu,
    "nn.functional.softplus": softplus, "nn.functional.hardtanh": hardtanh,
    "nn.functional.prelu": prelu, "nn.functional.glu": lambda g, x, dim=-1: g.glu(x, dim),
    "nn.functional.linear": linear, "nn.functional.embedding": embedding,
    "nn.functional.embedding_bag": embedding_bag,
    "nn.functional.conv1d": convolution("conv1d", 1),
    "nn.functional.conv2d": convolution("conv2d", 2),
    "nn.functional.conv_transpose1d": convolution("conv_transpose1d", 1),
    "nn.functional.conv_transpose2d": convolution("conv_transpose2d", 2),
    "nn.functional.max_pool1d": pool("max_pool1d", 1),
    "nn.functional.max_pool2d": pool("max_pool2d", 2),
    **{"nn.functional.max_unpool%dd" % rank: unpool(rank) for rank in (1, 2, 3)},
    "nn.functional.avg_pool1d": pool("avg_pool1d", 1),
    "nn.functional.avg_pool2d": pool("avg_pool2d", 2),
    "nn.functional.adaptive_avg_pool1d": adaptive("adaptive_avg_pool1d", 1),
    "nn.functional.adaptive_avg_pool2d": adaptive("adaptive_avg_pool2d", 2),
    "nn.functional.adaptive_max_pool1d": adaptive("adaptive_max_pool1d", 1),
    "nn.functional.adaptive_max_pool2d": adaptive("adaptive_max_pool2d", 2),
    "nn.functional.layer_norm": layer_norm, "nn.functional.rms_norm": rms_norm,
    "nn.functional.group_norm": group_norm,
    "nn.functional.local_response_norm":
        lambda g, x, size, alpha=1e-4, beta=0.75, k=1.0:
        g.local_response_norm(x, size, float(alpha), float(beta), float(k)),
    "nn.functional.cross_entropy": loss("cross_entropy"), "nn.functional.nll_loss": loss("nll"),
    "nn.functional.kl_div": loss("kl_div"), "nn.functional.mse_loss": loss("mse"),
    "nn.functional.binary_cross_entropy_with_logits": loss("binary_cross_entropy"),
    "nn.functional.l1_loss": loss("l1"), "nn.functional.smooth_l1_loss": loss("smooth_l1"),
    "nn.functional.huber_loss": loss("huber"),
    "nn.functional.margin_ranking_loss": margins("margin_ranking", 3, 1, "margin"),
    "nn.functional.hinge_embedding_loss": margins("hinge_embedding", 2, 1, "margin"),
    "nn.functional.soft_margin_loss": margins("soft_margin", 2, 1),
    "nn.functional.multi_margin_loss": margins("multi_margin", 2, 1, "margin", "p"),
    "nn.functional.multilabel_margin_loss": margins("multilabel_margin", 2, 1),
    "nn.functional.multilabel_soft_margin_loss": margins("multilabel_soft_margin", 2, 1),
    "nn.functional.cosine_embedding_loss": margins("cosine_embedding", 3, 1, "margin"),
    "nn.functional.triplet_margin_loss":
        margins("triplet_margin", 3, 0, "margin", "p", "eps", "swap"),
    "nn.functional.gaussian_nll_loss": margins("gaussian_nll", 3, 0, "full", "eps"),
    "nn.functional.poisson_nll_loss": margins("poisson_nll", 2, 1, "full", "eps"),
    "nn.functional.cosine_similarity": cosine_similarity,
    "nn.functional.pairwise_distance": pairwise_distance, "pairwise_distance": pairwise_distance,
    "nn.functional.scaled_dot_product_attention": attention,
    **{"nn.functional.pad/" + mode: pad(mode) for mode in
       ("constant", "reflect", "replicate", "circular")},
    "nn.functional.interpolate/nearest": interpolate("NEAREST", False),
    "nn.functional.interpolate/linear": interpolate("LINEAR", True),
    "nn.functional.interpolate/bilinear": interpolate("LINEAR", True),
    "nn.functional.interpolate/trilinear": interpolate("LINEAR", True),
}


OF_INTEGERS = set(
    "add sub mul maximum minimum eq ne lt le gt ge where masked_fill transpose permute flip roll "
    "reshape view flatten select narrow unsqueeze split split_with_sizes cat stack expand "
    "expand_as repeat gather index_select one_hot nn.functional.one_hot".split())


# ---- Samples as cases ----

class Arrays:
    """The tensors of a sample as arrays, each once, in the structure that it has them in."""

    def __init__(self):
        self.tensors = []

    def of(self, given):
        if isinstance(given, torch.Tensor):
            array = numpy.ascontiguousarray(given.detach().numpy()).reshape(given.shape)
            array = array.copy()
            self.tensors.append((array, given))
            return array
        if isinstance(given, (list, tuple)) and not isinstance(given, torch.Size):
            return type(given)(self.of(one) for one in given)
        return given


def tensors_of(answer):
    return [answer] if isinstance(answer, torch.Tensor) else list(answer)


def detached(tensor):
    return tensor.detach().numpy().copy()


def judge(outputs, seed):
    """Cotangents of floating outputs, and the loss that they make; None where nothing flows."""
    random = numpy.random.RandomState(seed)
    cotangents, total = [], None
    for output in outputs:
        cotangent = None
        if output.requires_grad and output.is_floating_point():
            cotangent = numpy.asarray(random.standard_normal(tuple(output.shape)))
            cotangent = cotangent.astype(detached(output).dtype)
            term = (output * torch.from_numpy(cotangent)).sum()
            total = term if total is None else total + term
        cotangents.append(cotangent)
    return cotangents, total


def make_case(info, builder, sample):
    arrays = Arrays()
    args = [arrays.of(one) for one in (sample.input, *sample.args)]
    kwargs = {name: arrays.of(one) for name, one in sample.kwargs.items()}
    outputs = tensors_of(info.op(sample.input, *sample.args, **sample.kwargs))
    cotangents, total = judge(outputs, 1)
    leaves = [(array, tensor) for array, tensor in arrays.tensors if tensor.requires_grad]
    gradients = {}
    if total is not None and leaves:
        found = torch.autograd.grad(total, [tensor for _, tensor in leaves], allow_unused=True)
        for (array, _), gradient in zip(leaves, found):
            gradients[id(array)] = numpy.zeros_like(array) if gradient is None else \
                detached(gradient.to_dense() if gradient.is_sparse else gradient)
    return Case(lambda graph: builder(graph, *args, **kwargs),
                [detached(output) for output in outputs], cotangents,
                [array for array, _ in leaves], gradients)


def samples_of(info, builder):
    for dtype in DTYPES:
        if dtype not in info.supported_dtypes("cpu"):
            continue
        if not dtype.is_floating_point and info.name not in OF_INTEGERS:
            continue
        torch.manual_seed(1)
        trained = dtype.is_floating_point and info.supports_autograd
        for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=trained)):
            label = "%s sample %d" % (str(dtype)[6:], number)
            try:
                yield label, make_case(info, builder, sample)
            except Refused as refused:
                yield label, refused


def groups():
    torch.set_num_threads(1)
    for info in op_db:
        name = info.name + ("/" + info.variant_test_name if info.variant_test_name else "")
        builder = BUILDERS.get(name) or BUILDERS.get(info.name)
        if builder:
            yield name, (lambda info=info, builder=builder: samples_of(info, builder))
