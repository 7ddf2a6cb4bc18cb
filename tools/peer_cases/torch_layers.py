"""Builders of PyTorch's functions of images, volumes and sequences, by their layers."""

import numpy

from arguments import is_array, only, pair
from cases import Refused


def spatial(g, layer, rank, x, sizes, options, out=None, name=None):
    """A layer of one or two dimensions takes its sizes one by one, one of three as a list."""
    sizes = [list(sizes)] if rank == 3 else list(sizes)
    first = [] if out is None else [out]
    rest = [] if options is None else [options]
    return getattr(g, layer)(x, *first, *sizes, *rest, name=name)


def with_indices(g, layer, rank, x, sizes, options):
    indices = g.none()
    sizes = [list(sizes)] if rank == 3 else list(sizes)
    rest = [] if options is None else [options]
    return [getattr(g, layer + "_with_indices")(x, *sizes, *rest, indices), indices]


def options_of(g, kind, rank, **members):
    return g.options("%s%s_options" % (kind, "3d" if rank == 3 else ""), **members)


def same_padding(g, rank, members, padding):
    """PyTorch's "same" and "valid", or numbers."""
    if padding == "same":
        members["same"] = True
    elif padding != "valid":
        members["padding"] = pair(padding, rank)


def convolution(layer, rank):
    def build(g, x, weight, bias=None, stride=1, padding=0, *others, **given):
        transposed = "transpose" in layer
        given.update(zip(["output_padding", "groups", "dilation"] if transposed else
                         ["dilation", "groups"], others))
        groups = given.pop("groups", 1)
        members = {"stride": pair(stride, rank), "groups": groups, "without_bias": bias is None,
                   "dilation": pair(given.pop("dilation", 1), rank)}
        same_padding(g, rank, members, padding)
        g.named("c.weight", weight)
        g.named("c.bias", bias)
        kind, out = "conv", weight.shape[0]
        if transposed:
            kind, out = "conv_transpose", weight.shape[1] * groups
            members["output_padding"] = pair(given.pop("output_padding", 0), rank)
        only(given)
        return spatial(g, layer, rank, x, weight.shape[2:], options_of(g, kind, rank, **members),
                       out, "c")
    return build


def pool(layer, rank):
    last = ["ceil_mode", "count_include_pad", "divisor_override"] if "avg" in layer else \
        ["dilation", "ceil_mode", "return_indices"]

    def build(g, x, kernel_size, stride=None, padding=0, *others, **given):
        given.update(zip(last, others))
        indices = given.pop("return_indices", False)
        members = {"padding": pair(padding, rank), "ceil": given.pop("ceil_mode", False)}
        if stride is not None and stride != () and stride != []:
            members["stride"] = pair(stride, rank)
        dilation = given.pop("dilation", 1)
        if "avg" in layer:
            members["exclude_padding"] = not given.pop("count_include_pad", True)
            members["divisor"] = given.pop("divisor_override", None)
        else:
            members["dilation"] = pair(dilation, rank)
        only(given)
        sizes = pair(kernel_size, rank)
        sizes = sizes * (rank if len(sizes) == 1 else 1)
        call = with_indices if indices else spatial
        return call(g, layer, rank, x, sizes, options_of(g, "pool", rank, **members))
    return build


def adaptive(layer, rank):
    def build(g, x, output_size, return_indices=False):
        sizes = pair(output_size, rank)
        sizes = [x.shape[x.ndim - rank + i] if size is None else size
                 for i, size in enumerate(sizes * (rank if len(sizes) == 1 else 1))]
        return (with_indices if return_indices else spatial)(g, layer, rank, x, sizes, None)
    return build


def unpool(rank, distinct):
    """If windows share a maximum, PyTorch's gradient is not that of its result. PyTorch's own tests
    use only distinct indices."""
    def build(g, x, indices, kernel_size, stride=None, padding=0, output_size=None):
        if not distinct:
            g.constants(x)
        kernel = pair(kernel_size, rank)
        strides = kernel if stride is None else pair(stride, rank)
        sizes = list(output_size)[-rank:] if output_size is not None else [
            (size - 1) * s - 2 * p + k for size, s, p, k in
            zip(x.shape[-rank:], strides, pair(padding, rank), kernel)]
        return g.max_unpool(x, indices, sizes, rank)
    return build


def instance_norm(g, x, *given, **named):
    named.update(zip(["running_mean", "running_var", "weight", "bias", "use_input_stats",
                      "momentum", "eps"], given))
    weight, bias = named.pop("weight", None), named.pop("bias", None)
    if named.pop("running_mean", None) is not None or named.pop("running_var", None) is not None:
        raise Refused("running statistics")
    named.pop("momentum", None)
    epsilon = named.pop("eps", 1e-5)
    only(named, use_input_stats=True)
    if (weight is None) != (bias is None):
        raise Refused("a weight or a bias alone")
    g.named("n.weight", weight)
    g.named("n.bias", bias)
    options = g.options("instance_norm_options", epsilon=epsilon, affine=weight is not None)
    return g.instance_norm_with(x, options, name="n")


def bilinear(g, a, b, weight, bias=None):
    g.named("b.weight", weight)
    g.named("b.bias", bias)
    layer = g.bilinear if bias is not None else g.bilinear_without_bias
    return layer(a, b, weight.shape[0], name="b")


def ctc(g, x, targets, input_lengths, target_lengths, blank=0, reduction="mean",
        zero_infinity=False):
    lengths = [numpy.asarray(one, numpy.int64) for one in (input_lengths, target_lengths)]
    if x.ndim == 3 and targets.ndim == 1:
        raise Refused("targets one behind the other")
    if x.ndim == 2:
        lengths = [one.reshape(()) for one in lengths]
    g.constants(x)  # the library has the derivative itself, PyTorch what a softmax makes of it
    options = g.options("loss_options", reduction=g.constant("TDM_LOSS_" + reduction.upper()),
                        blank=blank, zero_infinity=zero_infinity)
    return g.ctc_with(x, targets, *lengths, options)


def interpolate(mode, aligns):
    def build(g, x, size=None, scale_factor=None, **given):
        given.pop("mode", None)
        corners = bool(given.pop("align_corners", False))
        recomputed = bool(given.pop("recompute_scale_factor", False))
        only(given, antialias=(False, None))
        rank = x.ndim - 2
        if size is None:
            scales = [scale_factor] * rank if not isinstance(scale_factor, (list, tuple)) else \
                list(scale_factor)
            exact = [scale * extent for scale, extent in zip(scales, x.shape[2:])]
            size = [int(one) for one in exact]
            if size != exact and not recomputed and not corners:
                raise Refused("scale_factor that leads between sizes")
        sizes = [size] * rank if isinstance(size, int) else list(size)
        return g.interpolate(x, sizes, len(sizes), g.constant("TDM_INTERPOLATE_" + mode), corners)
    return build


def attention(g, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
              enable_gqa=False):
    if dropout_p:
        raise Refused("dropout")
    flat = q.ndim == 3  # (batch, length, features): one head
    if q.ndim not in (3, 4):
        raise Refused("%d dimensions" % q.ndim)
    heads = 1 if flat else q.shape[1]
    if enable_gqa and not flat:
        k, v = (g.index_select(x, 1, numpy.repeat(numpy.arange(x.shape[1]), heads // x.shape[1]))
                for x in (k, v))
    if not flat:
        q_length, width = q.shape[2], g.value_shape(v)[3] if not is_array(v) else v.shape[3]
        parts = [g.flatten(g.transpose(x, 1, 2), 2, 3) for x in (q, k, v)]
    else:
        parts = [q, k, v]
    members = {"heads": heads, "causal": is_causal,
               "scale": None if scale is None else float(scale)}
    if attn_mask is not None:
        g.constants(attn_mask)
        if attn_mask.ndim > 2 and flat:
            raise Refused("a mask of each row")
        mask = attn_mask
        if mask.ndim > 2:
            mask = numpy.ascontiguousarray(numpy.broadcast_to(
                mask, (q.shape[0], heads, *mask.shape[-2:])))
        members["mask"] = g.value(~mask if mask.dtype == bool else mask)
    y = g.attention(*parts, g.options("attention_options", **members))
    if flat:
        return y
    return g.transpose(g.reshape(y, g.shape(q.shape[0], q_length, heads, width)), 1, 2)


RANKS = (1, 2, 3)
BUILDERS = {
    **{"nn.functional.conv%dd" % rank: convolution("conv%dd" % rank, rank) for rank in RANKS},
    **{"nn.functional.conv_transpose%dd" % rank: convolution("conv_transpose%dd" % rank, rank)
       for rank in RANKS},
    **{"nn.functional.%s_pool%dd" % (kind, rank): pool("%s_pool%dd" % (kind, rank), rank)
       for kind in ("max", "avg") for rank in RANKS},
    **{"nn.functional.adaptive_%s_pool%dd" % (kind, rank):
       adaptive("adaptive_%s_pool%dd" % (kind, rank), rank)
       for kind in ("max", "avg") for rank in RANKS},
    **{"nn.functional.max_unpool%dd%s" % (rank, variant): unpool(rank, bool(variant))
       for rank in RANKS for variant in ("", "/grad")},
    "nn.functional.instance_norm": instance_norm, "nn.functional.bilinear": bilinear,
    "nn.functional.ctc_loss": ctc,
    "nn.functional.interpolate/nearest": interpolate("NEAREST", False),
    "nn.functional.upsample_nearest": interpolate("NEAREST", False),
    **{"nn.functional.interpolate/" + mode: interpolate("LINEAR", True)
       for mode in ("linear", "bilinear", "trilinear")},
    "nn.functional.upsample_bilinear":
        lambda g, x, size=None, scale_factor=None: interpolate("LINEAR", True)(
            g, x, size, scale_factor, align_corners=True),
    "nn.functional.interpolate/bicubic": interpolate("CUBIC", True),
    "nn.functional.scaled_dot_product_attention": attention,
}
