"""Cases of layers for images, and of related ones. The options of a case are stored with its
values, as option.LAYER, a list of numbers: tests/layers/cases/vision.c reads them, so that only
this file lists cases."""

import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F


def options(case, layer, *numbers):
    case.record("option." + layer, torch.tensor([float(n) for n in numbers], dtype=torch.float64))


def activation(case, kind, slope=0.0, shape=(4, 7), scale=1.0):
    options(case, "activation", kind, slope)
    x = case.parameter("x", *shape, scale=scale)
    call = (
        F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, lambda x: F.leaky_relu(x, slope)
    )[kind]
    case.judge("y", call(x))


def mul(case, same):
    options(case, "mul", same)
    x = case.parameter("x", 4, 7)
    case.judge("y", x * (x if same else case.parameter("b", 4, 7)))


def reduce(case, shape, dimensions, keep, mean):
    options(case, "reduce", mean, keep, *dimensions)
    x = case.parameter("x", *shape)
    with torch.no_grad():
        x.add_(1)  # sums that are far from 0, so that their last digits mean something
    case.record("parameter.x", x)
    # PyTorch takes no dimensions for all of them too, but only from later versions on.
    every = tuple(dimensions) or tuple(range(len(shape)))
    case.judge("y", (torch.mean if mean else torch.sum)(x, every, keep))


def layer_norm(case, shape, rank, affine, epsilon):
    options(case, "layer_norm", rank, affine, epsilon)
    layer = nn.LayerNorm(shape[-rank:], eps=epsilon, elementwise_affine=affine)
    case.judge("y", case.module("layer", layer)(case.parameter("x", *shape)))


def rms_norm(case, shape, rank, affine, epsilon=None):
    """nn.RMSNorm, which Debian's PyTorch does not have yet, by its formula."""
    options(case, "rms_norm", rank, affine, epsilon or 0)
    x = case.parameter("x", *shape)
    mean = x.pow(2).mean(tuple(range(-rank, 0)), keepdim=True)
    y = x * torch.rsqrt(mean + (torch.finfo(case.dtype).eps if epsilon is None else epsilon))
    case.judge("y", y * case.parameter("layer.weight", *shape[-rank:]) if affine else y)


def convolution(case, dimensions, shape, out, kernel, stride, padding, dilation, groups, bias):
    options(
        case, "convolution", dimensions, out, *kernel, *stride, *padding, *dilation, groups, bias
    )
    make = nn.Conv1d if dimensions == 1 else nn.Conv2d
    layer = make(
        shape[1], out, kernel[:dimensions], stride=stride[:dimensions],
        padding=padding[:dimensions], dilation=dilation[:dimensions], groups=groups, bias=bias
    )
    case.judge("y", case.module("layer", layer)(case.parameter("x", *shape)))


def layer_norm_without_bias(case, shape, rank):
    options(case, "layer_norm_without_bias", rank)
    weight = case.parameter("layer.weight", *shape[-rank:])
    case.judge("y", F.layer_norm(case.parameter("x", *shape), shape[-rank:], weight, None))


def group_norm(case, shape, groups, affine, epsilon):
    options(case, "group_norm", groups, affine, epsilon)
    layer = nn.GroupNorm(groups, shape[1], eps=epsilon, affine=affine)
    case.judge("y", case.module("layer", layer)(case.parameter("x", *shape)))


def instance_norm(case, shape, affine):
    options(case, "instance_norm", affine)
    layer = {3: nn.InstanceNorm1d, 4: nn.InstanceNorm2d}[len(shape)](shape[1], affine=affine)
    case.judge("y", case.module("layer", layer)(case.parameter("x", *shape)))


def tracked_instance_norm(case, shape, affine, momentum):
    options(case, "tracked_instance_norm", affine, -1 if momentum is None else momentum)
    make = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[len(shape) - 3]
    layer = make(shape[1], affine=affine, momentum=momentum, track_running_stats=True)
    case.module("layer", layer)
    with torch.no_grad():
        layer.running_mean.copy_(case.draw(shape[1]))
        layer.running_var.copy_(case.draw(shape[1]).abs() + 0.5)
    for key, value in layer.named_buffers():
        case.record("buffer.layer." + key, value)
    x = case.parameter("x", *shape)
    case.judge("y", layer(x))
    for key, value in layer.named_buffers():
        case.record("state.layer." + key, value)
    layer.eval()
    case.record("evaluated.y", layer(x))


def local_response_norm(case, shape, size, alpha, beta, k):
    options(case, "local_response_norm", size, alpha, beta, k)
    case.judge("y", F.local_response_norm(case.parameter("x", *shape), size, alpha, beta, k))


def transposed(case, dimensions, shape, out, kernel, stride, padding, more, dilation, groups, bias):
    options(case, "transposed", dimensions, out, *kernel, *stride, *padding, *more, *dilation,
            groups, bias)
    make = nn.ConvTranspose1d if dimensions == 1 else nn.ConvTranspose2d
    layer = make(
        shape[1], out, kernel[:dimensions], stride=stride[:dimensions],
        padding=padding[:dimensions], output_padding=more[:dimensions],
        dilation=dilation[:dimensions], groups=groups, bias=bias
    )
    case.judge("y", case.module("layer", layer)(case.parameter("x", *shape)))


def interpolate(case, shape, sizes, linear, align=False):
    options(case, "interpolate", linear, align, *sizes)
    x = case.parameter("x", *shape)
    if linear:
        mode = "linear" if len(sizes) == 1 else "bilinear"
        case.judge("y", F.interpolate(x, sizes, mode=mode, align_corners=align))
    else:
        case.judge("y", F.interpolate(x, sizes, mode="nearest"))


def more_cases(cases):
    cases["layer_norm_without_bias"] = (layer_norm_without_bias, dict(shape=(3, 4, 5), rank=2))
    for i, (shape, groups, affine, epsilon) in enumerate((
            ((2, 12), 3, True, 1e-5), ((3, 4, 5), 2, True, 1e-3), ((2, 6, 3, 4), 1, True, 1e-5),
            ((2, 4, 3, 2), 4, False, 1e-5))):
        cases["group_norm_%d" % i] = (group_norm, dict(
            shape=shape, groups=groups, affine=affine, epsilon=epsilon
        ))
    for i, (shape, affine) in enumerate((((2, 3, 7), False), ((2, 3, 4, 5), True))):
        cases["instance_norm_%d" % i] = (instance_norm, dict(shape=shape, affine=affine))
    for i, (shape, affine, momentum) in enumerate((
            ((2, 3, 7), False, 0.1), ((2, 3, 4, 5), True, 0.1), ((3, 4, 2, 3), True, 0.7),
            ((2, 3, 2, 3, 2), True, 0.1), ((2, 3, 2, 2, 3), False, 0.3), ((2, 3, 5), True, None))):
        cases["tracked_instance_norm_%d" % i] = (tracked_instance_norm, dict(
            shape=shape, affine=affine, momentum=momentum
        ))
    for i, (shape, size) in enumerate((((2, 5, 4), 3), ((2, 6, 3, 2), 4), ((3, 4, 2, 2), 1))):
        cases["local_response_norm_%d" % i] = (local_response_norm, dict(
            shape=shape, size=size, alpha=0.7, beta=0.75, k=1.5
        ))
    grid = itertools.product((1, 2), (0, 1), (0, 1), (1, 2), (1, 2))
    for i, (stride, padding, more, dilation, groups) in enumerate(grid):
        if more >= max(stride, dilation):
            continue
        name = "transposed2d_s%d_p%d_o%d_d%d_g%d" % (stride, padding, more, dilation, groups)
        cases[name] = (transposed, dict(
            dimensions=2, shape=(2, 4, 5, 3), out=6, kernel=(3, 2), stride=(stride, stride),
            padding=(padding, padding), more=(more, more), dilation=(dilation, dilation),
            groups=groups, bias=i % 2 == 0
        ))
        name = "transposed1d_s%d_p%d_o%d_d%d_g%d" % (stride, padding, more, dilation, groups)
        cases[name] = (transposed, dict(
            dimensions=1, shape=(3, 4, 6), out=2, kernel=(3, 1), stride=(stride, 1),
            padding=(padding, 0), more=(more, 0), dilation=(dilation, 1), groups=groups,
            bias=i % 2 == 1
        ))
    cases["transposed2d_uneven"] = (transposed, dict(
        dimensions=2, shape=(2, 3, 4, 5), out=5, kernel=(2, 4), stride=(3, 2), padding=(0, 1),
        more=(2, 1), dilation=(1, 2), groups=1, bias=True
    ))
    for i, (shape, sizes) in enumerate((((2, 3, 5), (10,)), ((2, 3, 7), (4,)),
                                        ((2, 3, 4, 5), (8, 10)), ((1, 2, 7, 5), (3, 9)),
                                        ((1, 2, 3, 4), (1, 1)), ((1, 2, 1, 1), (3, 2)))):
        cases["nearest_%d" % i] = (interpolate, dict(shape=shape, sizes=sizes, linear=False))
        cases["linear_%d" % i] = (interpolate, dict(shape=shape, sizes=sizes, linear=True))
        cases["linear_%d_aligned" % i] = (interpolate, dict(
            shape=shape, sizes=sizes, linear=True, align=True
        ))


def pool(case, kind, dimensions, shape, kernel, stride, padding, dilation=(1, 1), ceil=False,
         exclude=False, divisor=0):
    options(
        case, "pool", kind, dimensions, *kernel, *stride, *padding, *dilation, ceil, exclude,
        divisor
    )
    x = case.parameter("x", *shape)
    kernel, stride, padding, dilation = (
        pair[:dimensions] for pair in (kernel, stride, padding, dilation)
    )
    if kind == 0:
        call = F.max_pool1d if dimensions == 1 else F.max_pool2d
        case.judge("y", call(x, kernel, stride, padding, dilation, ceil_mode=ceil))
    elif dimensions == 1:
        case.judge("y", F.avg_pool1d(x, kernel, stride, padding, ceil, not exclude))
    else:
        given = divisor or None
        case.judge("y", F.avg_pool2d(x, kernel, stride, padding, ceil, not exclude, given))


def adaptive_pool(case, kind, dimensions, shape, size):
    options(case, "adaptive_pool", kind, dimensions, *size)
    calls = (
        (F.adaptive_max_pool1d, F.adaptive_max_pool2d),
        (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d),
    )
    case.judge("y", calls[kind][dimensions - 1](case.parameter("x", *shape), size[:dimensions]))


def batch_norm(case, shape, epsilon=1e-5, momentum=0.1, affine=True, statistics=True):
    options(case, "batch_norm", epsilon, -1 if momentum is None else momentum, affine, statistics)
    make = nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d
    layer = make(
        shape[1], eps=epsilon, momentum=momentum, affine=affine, track_running_stats=statistics
    )
    case.module("layer", layer)
    if statistics:
        with torch.no_grad():
            layer.running_mean.copy_(case.draw(shape[1]))
            layer.running_var.copy_(case.draw(shape[1]).abs() + 0.5)
            layer.num_batches_tracked.fill_(3)
        for key, value in layer.named_buffers():
            case.record("buffer.layer." + key, value)
    x = case.parameter("x", *shape)
    case.judge("y", layer(x))
    if statistics:
        for key, value in layer.named_buffers():
            case.record("state.layer." + key, value)
    layer.eval()
    case.record("evaluated.y", layer(x))


def dropout(case, p):
    """Nothing is dropped, or everything; other dropout is not comparable with PyTorch."""
    options(case, "dropout", p)
    x = case.parameter("x", 4, 7)
    case.judge("y", F.dropout(x, p, True))
    case.record("evaluated.y", F.dropout(x, p, False))


def convolution_cases(cases):
    grid = itertools.product((1, 2), (0, 1), (1, 2), (1, 2), (False, True))
    for stride, padding, dilation, groups, bias in grid:
        name = "conv2d_s%d_p%d_d%d_g%d" % (stride, padding, dilation, groups)
        cases[name + ("_bias" if bias else "")] = (convolution, dict(
            dimensions=2, shape=(2, 4, 6, 7), out=6, kernel=(3, 2), stride=(stride, stride),
            padding=(padding, padding), dilation=(dilation, dilation), groups=groups, bias=bias
        ))
        name = "conv1d_s%d_p%d_d%d_g%d" % (stride, padding, dilation, groups)
        cases[name + ("_bias" if bias else "")] = (convolution, dict(
            dimensions=1, shape=(3, 4, 9), out=2, kernel=(3, 1), stride=(stride, 1),
            padding=(padding, 0), dilation=(dilation, 1), groups=groups, bias=bias
        ))
    uneven = dict(dimensions=2, shape=(2, 3, 8, 9), out=4, kernel=(2, 5), stride=(3, 1),
                  padding=(0, 2), dilation=(1, 2), groups=1, bias=True)
    cases["conv2d_uneven"] = (convolution, uneven)
    cases["conv2d_depthwise"] = (convolution, dict(
        uneven, shape=(2, 4, 5, 5), groups=4, kernel=(3, 3), stride=(1, 1), padding=(1, 1),
        dilation=(1, 1)
    ))
    cases["conv2d_pointwise"] = (convolution, dict(
        uneven, kernel=(1, 1), stride=(1, 1), padding=(0, 0), dilation=(1, 1)
    ))
    # Enough channels to fill vectors, and some that do not.
    cases["conv2d_channels"] = (convolution, dict(
        uneven, shape=(1, 5, 4, 15), out=24, kernel=(3, 3), stride=(1, 1), padding=(1, 1),
        dilation=(1, 1)
    ))
    cases["conv2d_channels_strided"] = (convolution, dict(
        uneven, shape=(2, 20, 5, 6), out=18, kernel=(3, 3), stride=(2, 2), padding=(1, 1),
        dilation=(1, 1), bias=False
    ))
    cases["conv2d_channels_dilated"] = (convolution, dict(
        uneven, shape=(1, 20, 6, 7), out=28, kernel=(2, 3), stride=(1, 2), padding=(2, 1),
        dilation=(2, 2), groups=2
    ))
    cases["conv2d_channels_pointwise"] = (convolution, dict(
        uneven, shape=(1, 20, 5, 7), out=18, kernel=(1, 1), stride=(1, 1), padding=(0, 0),
        dilation=(1, 1)
    ))
    cases["conv2d_channels_pointwise_strided"] = (convolution, dict(
        uneven, shape=(2, 17, 5, 4), out=20, kernel=(1, 1), stride=(2, 2), padding=(0, 0),
        dilation=(1, 1)
    ))


def pool_cases(cases):
    for kind, name in enumerate(("max", "avg")):
        for stride, padding, ceil in itertools.product((1, 2, 3), (0, 1), (False, True)):
            label = "_pool%s_s%d_p%d" + ("_ceil" if ceil else "")
            arguments = dict(kind=kind, kernel=(3, 2), stride=(stride, stride),
                             padding=(padding, padding), ceil=ceil)
            cases[name + label % ("2d", stride, padding)] = (
                pool, dict(arguments, dimensions=2, shape=(2, 3, 7, 6))
            )
            cases[name + label % ("1d", stride, padding)] = (
                pool, dict(arguments, dimensions=1, shape=(2, 3, 8), padding=(padding, 0))
            )
        for size in ((1, 1), (3, 2), (5, 9)):
            cases["adaptive_%s_pool2d_%dx%d" % (name, *size)] = (
                adaptive_pool, dict(kind=kind, dimensions=2, shape=(2, 3, 7, 6), size=size)
            )
            cases["adaptive_%s_pool1d_%d" % (name, size[0])] = (
                adaptive_pool, dict(kind=kind, dimensions=1, shape=(2, 3, 7), size=size)
            )
    average = dict(kind=1, dimensions=2, shape=(2, 3, 7, 6), kernel=(3, 2), stride=(2, 2),
                   padding=(1, 1))
    for ceil in (False, True):
        label = "_ceil" if ceil else ""
        cases["avg_pool2d_exclude" + label] = (pool, dict(average, ceil=ceil, exclude=True))
        cases["avg_pool2d_divisor" + label] = (pool, dict(average, ceil=ceil, divisor=3))
    for dilation in ((2, 1), (1, 2), (3, 3)):
        cases["max_pool2d_d%d%d" % dilation] = (pool, dict(
            average, kind=0, shape=(2, 2, 9, 8), kernel=(2, 3), padding=(1, 1), stride=(1, 2),
            dilation=dilation
        ))


def batch_norm_cases(cases):
    for affine, statistics in itertools.product((False, True), repeat=2):
        for shape in ((6, 3), (3, 2, 5), (2, 3, 4, 3)):
            name = "batch_norm_%dd" % len(shape)
            name += ("_affine" if affine else "") + ("_statistics" if statistics else "")
            cases[name] = (batch_norm, dict(shape=shape, affine=affine, statistics=statistics))
    shape = (3, 4, 2, 5)
    cases["batch_norm_average"] = (batch_norm, dict(shape=shape, momentum=None))
    cases["batch_norm_quick"] = (batch_norm, dict(shape=shape, momentum=0.7, epsilon=0.01))
    cases["batch_norm_wide"] = (batch_norm, dict(shape=(5, 19)))


def vision_cases():
    """name -> (function, its arguments)"""
    cases = {}
    for kind, name in enumerate(("gelu", "gelu_tanh", "silu")):
        for scale in (0.1, 1.0, 5.0):
            cases["%s_%g" % (name, scale)] = (activation, {"kind": kind, "scale": scale})
    for slope in (0.01, 0.3):
        cases["leaky_relu_%g" % slope] = (activation, {"kind": 3, "slope": slope})
    for same in (False, True):
        cases["mul_same" if same else "mul"] = (mul, {"same": same})
    shape = (2, 3, 4, 5)
    for mean, keep in itertools.product((False, True), repeat=2):
        for count in range(5):
            for dimensions in itertools.combinations(range(4), count):
                if (mean + keep + sum(dimensions)) % 2 != 0 and count != 2:
                    continue  # half of them
                name = "mean" if mean else "sum"
                name += "_keep" if keep else ""
                name += "_" + ("".join(map(str, dimensions)) or "all")
                given = [d - 4 if d == 3 else d for d in dimensions]
                arguments = dict(shape=shape, dimensions=given, keep=keep, mean=mean)
                cases[name] = (reduce, arguments)
    cases["sum_apart"] = (
        reduce, dict(shape=(2, 3, 2, 2, 3), dimensions=[0, 2, 4], keep=False, mean=False)
    )
    cases["mean_apart"] = (
        reduce, dict(shape=(2, 3, 2, 2, 3), dimensions=[0, 2, 4], keep=True, mean=True)
    )
    for rank, affine in itertools.product((1, 2, 3), (False, True)):
        for epsilon in (1e-5, 1e-2):
            name = "layer_norm_%d_%s_%g" % (rank, "affine" if affine else "plain", epsilon)
            arguments = dict(shape=(2, 3, 5), rank=rank, affine=affine, epsilon=epsilon)
            cases[name] = (layer_norm, arguments)
    for rank, affine in itertools.product((1, 2, 3), (False, True)):
        for epsilon in (None, 1e-2):
            name = "rms_norm_%d_%s_%s" % (rank, "affine" if affine else "plain", epsilon)
            arguments = dict(shape=(2, 3, 5), rank=rank, affine=affine, epsilon=epsilon)
            cases[name] = (rms_norm, arguments)
    convolution_cases(cases)
    pool_cases(cases)
    batch_norm_cases(cases)
    for p in (0, 1):
        cases["dropout_%d" % p] = (dropout, {"p": p})
    more_cases(cases)
    return cases
