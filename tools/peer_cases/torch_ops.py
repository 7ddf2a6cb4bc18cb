"""PyTorch's samples of operations (torch.testing._internal.common_methods_invocations.op_db), in
float32 and float64 with gradients, and in int64 where an operation takes it."""

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db

import torch_arrays
import torch_layers
from arguments import as_vector, cast, dims_of, is_array, only, pair
from cases import Case, Refused

DTYPES = [torch.float64, torch.float32, torch.int64]


# ---- Builders: (graph, the sample's input and arguments) -> values ----

def unary(layer, *numbers):
    def build(g, x, **given):
        only(given, inplace=(False,))
        return getattr(g, layer)(x, *numbers)
    return build


def common_dtype(g, a, b):
    """Promotes two arrays, or an array and a number, as PyTorch does."""
    arrays = [x for x in (a, b) if is_array(x)]
    if not arrays:
        raise Refused("two numbers")
    tensors = [torch.from_numpy(x) if is_array(x) else x for x in (a, b)]
    dtype = torch.result_type(*tensors)
    return [g.cast(x, g.constant(DTYPE_NAMES[dtype])) if is_array(x) and
            torch.from_numpy(x).dtype != dtype else
            x if is_array(x) else numpy.asarray(x, str(dtype)[6:]) for x in (a, b)]


DTYPE_NAMES = {torch.float64: "TDM_FLOAT64", torch.float32: "TDM_FLOAT32",
               torch.int64: "TDM_INT64", torch.int32: "TDM_INT32", torch.bool: "TDM_BOOL"}


def rounded(g, x, mode):
    if mode == "floor":
        return g.floor(x)
    return x if mode is None else g.mul(g.sign(x), g.floor(g.abs(x)))


def binary(layer, turned=False):
    def build(g, a, b, **given):
        alpha, mode = given.pop("alpha", 1), given.pop("rounding_mode", None)
        only(given)
        a, b = common_dtype(g, b, a) if turned else common_dtype(g, a, b)
        if alpha != 1:
            b = g.mul(b, numpy.asarray(alpha, b.dtype)) if is_array(b) else \
                g.mul_scalar(b, float(alpha))
        return rounded(g, getattr(g, layer)(a, b), mode)
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
    def build(g, x, dim=None, keepdim=False, dtype=None):
        dims = dims_of(dim)
        return getattr(g, layer)(cast(g, x, dtype), dims, len(dims), keepdim)
    return build


def variance(g, x, dim=None, unbiased=None, correction=None, keepdim=False):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    dims = dims_of(dim)
    return g.variance(x, dims, len(dims), float(correction), keepdim)


def along(layer):
    """Reduces one dimension, several in turn, or all elements as one vector."""
    def build(g, x, dim=None, keepdim=False, dtype=None):
        x = cast(g, x, dtype)
        if dim is None:
            if keepdim:
                raise Refused("over all elements, kept")
            return getattr(g, layer)(as_vector(g, x), 0, False)
        if not isinstance(dim, int) and layer.startswith("arg"):
            raise Refused("over several dimensions")
        rank = len(x.shape) if is_array(x) else len(g.value_shape(x))
        for one in sorted((one % max(rank, 1) for one in dims_of(dim)), reverse=True):
            x = getattr(g, layer)(x, one, keepdim)
        return x
    return build


def along_all(layer):
    """Reduces the dimensions of a list, or all elements as one vector."""
    def build(g, x, dim=None, keepdim=False, dtype=None):
        x = cast(g, x, dtype)
        if dim is None:
            if keepdim:
                raise Refused("over all elements, kept")
            return getattr(g, layer)(as_vector(g, x), [0], 1, False)
        dims = list(dims_of(dim))
        return getattr(g, layer)(x, dims, len(dims), keepdim)
    return build


def extreme(layer):
    def build(g, x, dim=None, keepdim=False):
        indices = g.none()
        if is_array(dim):
            return g.maximum(x, dim) if layer == "max" else g.minimum(x, dim)
        if dim is None:
            return getattr(g, layer)(as_vector(g, x), 0, False, indices)
        return getattr(g, layer)(x, dim, keepdim, indices), indices
    return build


def softmax(layer):
    def build(g, x, dim, dtype=None):
        return getattr(g, layer)(cast(g, x, dtype), dim)
    return build


def linear(g, input, weight, bias=None):
    x = input
    g.named("l.weight", weight)
    g.named("l.bias", bias)
    layer = g.linear if bias is not None else g.linear_without_bias
    return layer(x, weight.shape[0], name="l")


def layer_norm(g, x, normalized_shape, weight=None, bias=None, eps=1e-5):
    if weight is None and bias is not None:
        return g.add(layer_norm(g, x, normalized_shape, eps=eps), bias)
    g.named("n.weight", weight)
    g.named("n.bias", bias)
    options = g.options("layer_norm_options", epsilon=eps, without_affine=weight is None,
                        without_bias=bias is None and weight is not None)
    return g.layer_norm_with(x, len(normalized_shape), options, name="n")


def rms_norm(g, x, normalized_shape, weight=None, eps=None):
    g.named("n.weight", weight)
    options = g.options("rms_norm_options", epsilon=eps, without_affine=weight is None)
    return g.rms_norm_with(x, len(normalized_shape), options, name="n")


def group_norm(g, x, num_groups, weight=None, bias=None, eps=1e-5):
    if (weight is None) != (bias is None):
        shape = g.shape(-1, *[1] * (x.ndim - 2))
        y = group_norm(g, x, num_groups, eps=eps)
        return g.mul(y, g.reshape(weight, shape)) if bias is None else \
            g.add(y, g.reshape(bias, shape))
    g.named("n.weight", weight)
    g.named("n.bias", bias)
    options = g.options("group_norm_options", epsilon=eps, without_affine=weight is None)
    return g.group_norm_with(x, num_groups, options, name="n")


def ids_first(a, b):
    """PyTorch's samples have the table first, its functions the ids."""
    return (b, a) if a.dtype.kind == "f" else (a, b)


def embedding(g, ids, weight, padding_idx=None, **given):
    ids, weight = ids_first(ids, weight)
    only(given, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False)
    g.named("e.weight", weight)
    options = g.options("embedding_options", padding_index=padding_idx)
    return g.embedding_with(ids, *weight.shape, options, name="e")


def embedding_bag(g, ids, weight, offsets=None, padding_idx=None, mode="mean",
                  include_last_offset=False, per_sample_weights=None, **given):
    ids, weight = ids_first(ids, weight)
    only(given, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False)
    g.named("e.weight", weight)
    members = {}
    if offsets is not None:
        members["offsets"] = g.value(offsets)
    if per_sample_weights is not None:
        members["scales"] = g.value(per_sample_weights)
    options = g.options("embedding_bag_options", mode=g.constant("TDM_BAG_" + mode.upper()),
                        include_last_offset=include_last_offset,
                        padding_index=padding_idx, **members)
    return g.embedding_bag(ids, *weight.shape, options, name="e")


def loss(layer, *numbers):
    def build(g, x, target, weight=None, reduction="mean", ignore_index=None, label_smoothing=0.0,
              pos_weight=None, log_target=False, beta=None, delta=None, **given):
        only(given, size_average=None, reduce=None)
        g.constants(weight, pos_weight)
        if layer not in ("mse", "l1", "smooth_l1", "huber"):
            g.constants(target)  # no gradient flows into what is aimed at
        members = {"label_smoothing": label_smoothing, "log_target": log_target}
        if layer == "binary_cross_entropy":
            target = target.astype(x.dtype)
            weight, pos_weight = (None if one is None else numpy.broadcast_to(
                one, x.shape[x.ndim - one.ndim:]).astype(x.dtype) for one in (weight, pos_weight))
        if weight is not None:
            members["weight"] = g.value(weight)
        if pos_weight is not None:
            members["pos_weight"] = g.value(pos_weight)
        if ignore_index is not None and ignore_index != -100:
            members["ignore_index"] = ignore_index
        if beta is not None or delta is not None:
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
        shape = g.shape(*x.shape)
        return g.reshape(g.roll(as_vector(g, x), dims_of(shifts)[0], 0), shape)
    for shift, dim in zip(pair(shifts)[:1] if isinstance(shifts, int) else shifts,
                          dims_of(dims)):
        x = g.roll(x, shift, dim)
    return x


def sizes_of(given):
    sizes = given[0] if isinstance(given[0], (list, tuple)) else given
    return list(sizes)


def clamp(g, x, min=None, max=None):
    if is_array(min) or is_array(max):
        x = x if min is None else binary("maximum")(g, x, min)
        return x if max is None else g.minimum(x, max)
    return g.clamp(x, float("-inf") if min is None else float(min),
                   float("inf") if max is None else float(max))


def where(g, a, condition, b):
    return g.where(condition, a, b)


def masked_fill(g, x, mask, value):
    if is_array(value):
        return g.where(mask, value, x)
    return g.masked_fill(x, mask, float(value))


def slice_of(g, x, dim, start, length):
    start = int(start)
    return g.slice(x, dim, start, start + length if start >= 0 or start + length < 0
                   else 2**63 - 1, 1)


def prelu(g, x, weight):
    if weight.ndim == 0:
        below = g.compare_scalar(x, g.constant("TDM_LESS"), 0.0)
        return g.where(below, g.mul(x, weight), x)
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
    return g.one_hot(ids, int(ids.max()) + 1 if num_classes < 0 else num_classes)


BUILDERS = {
    **torch_arrays.BUILDERS, **torch_layers.BUILDERS,
    "__radd__": binary("add"), "__rmul__": binary("mul"), "rsub": binary("sub", True),
    "__rsub__": binary("sub", True), "__rdiv__": binary("div", True),
    "__rmod__": binary("remainder", True), "__rpow__": binary("power", True),
    "div/no_rounding_mode": binary("div"), "floor_divide":
        lambda g, a, b: binary("div")(g, a, b, rounding_mode="floor"),
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
    "argmin": along("argmin"), "prod": along_all("prod"), "logsumexp": along_all("logsumexp"),
    "cumsum": lambda g, x, dim, dtype=None: g.cumsum(cast(g, x, dtype), dim),
    "softmax": softmax("softmax"), "log_softmax": softmax("log_softmax"),
    "transpose": lambda g, x, first, second: g.transpose(x, first, second),
    "permute": dims_list("permute"), "flip": dims_list("flip"), "roll": roll,
    "reshape": lambda g, x, shape: g.reshape(x, g.shape(*shape)),
    "view": lambda g, x, *shape: g.reshape(x, g.shape(*sizes_of(shape))),
    "flatten": lambda g, x, start_dim=0, end_dim=-1:
        g.flatten(x, start_dim, end_dim) if x.ndim else as_vector(g, x),
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
    **{"nn.functional.pad/" + mode: pad(mode) for mode in
       ("constant", "reflect", "replicate", "circular")},
}


for name in ("sum mean prod logsumexp max min argmax argmin softmax log_softmax cumsum cumprod "
             "logcumsumexp sort argsort topk kthvalue median msort amax amin aminmax norm "
             "linalg.vector_norm std var flip index_select").split():
    BUILDERS[name] = torch_arrays.of_numbers(BUILDERS[name])


OF_INTEGERS = set(
    "add sub mul maximum minimum eq ne lt le gt ge where masked_fill transpose permute flip roll "
    "reshape view flatten select narrow unsqueeze split split_with_sizes cat stack expand "
    "expand_as repeat gather index_select one_hot nn.functional.one_hot unbind chunk squeeze "
    "unflatten movedim ravel view_as reshape_as broadcast_to hstack vstack fliplr flipud tile "
    "take_along_dim repeat_interleave slice T t mT rsub __radd__ __rsub__ __rmul__".split())


# ---- Samples as cases ----

class Arrays:
    """The tensors of a sample as arrays, each once, in the structure that it has them in."""

    def __init__(self):
        self.tensors = []

    def of(self, given):
        if isinstance(given, torch.Tensor):
            for array, tensor in self.tensors:
                if tensor is given:
                    return array
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
