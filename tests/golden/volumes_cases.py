"""Cases of convolutions and pooling of three dimensions, of padding that convolutions do not do by
themselves, of single images, and of resizing by more than neighbours. The options of a case are
beside its values, as option.LAYER, a list of numbers: tests/layers/cases/volumes.c reads them, so
that only this file lists cases."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from vision_cases import options

PAD_MODES = ("zeros", "reflect", "replicate", "circular")


def padded(case, shape, dimensions, kernel, same=True, padding=0, dilation=1, groups=1,
           mode="zeros"):
    options(case, "padded", dimensions, *kernel, same, padding, dilation, groups,
            PAD_MODES.index(mode))
    make = nn.Conv1d if dimensions == 1 else nn.Conv2d
    channels = shape[-1 - dimensions]
    layer = make(channels, 4, kernel[-dimensions:], padding="same" if same else padding,
                 dilation=dilation, groups=groups, padding_mode=mode)
    case.judge("y", case.module("layer", layer)(case.parameter("x", *shape)))


def transposed_image(case, shape, dimensions):
    options(case, "transposed_image", dimensions)
    make = nn.ConvTranspose1d if dimensions == 1 else nn.ConvTranspose2d
    layer = case.module("layer", make(shape[0], 3, 2, stride=2))
    case.judge("y", layer(case.parameter("x", *shape)))


def pooled_image(case, shape, dimensions, maximum, adaptive):
    options(case, "pooled_image", dimensions, maximum, adaptive)
    name = ("adaptive_" if adaptive else "") + ("max" if maximum else "avg")
    call = getattr(F, "%s_pool%dd" % (name, dimensions))
    case.judge("y", call(case.parameter("x", *shape), 2))


def convolution(case, shape, kernel, stride=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1),
                groups=1, bias=True, out=4):
    options(case, "convolution3d", out, *kernel, *stride, *padding, *dilation, groups, bias)
    layer = nn.Conv3d(shape[-4], out, kernel, stride, padding, dilation, groups, bias)
    case.judge("y", case.module("layer", layer)(case.parameter("x", *shape)))


def padded_volume(case, shape, kernel, same=True, padding=0, dilation=1, mode="zeros"):
    options(case, "padded3d", *kernel, same, padding, dilation, PAD_MODES.index(mode))
    layer = nn.Conv3d(shape[-4], 4, kernel, padding="same" if same else padding, dilation=dilation,
                      padding_mode=mode)
    case.judge("y", case.module("layer", layer)(case.parameter("x", *shape)))


def transposed(case, shape, kernel, stride=(1, 1, 1), padding=(0, 0, 0), more=(0, 0, 0),
               dilation=(1, 1, 1), groups=1, bias=True, out=4):
    options(case, "transposed3d", out, *kernel, *stride, *padding, *more, *dilation, groups, bias)
    layer = nn.ConvTranspose3d(shape[-4], out, kernel, stride, padding, more, groups, bias,
                               dilation)
    case.judge("y", case.module("layer", layer)(case.parameter("x", *shape)))


def pool(case, shape, kernel, stride=None, padding=(0, 0, 0), dilation=None, ceil=False,
         exclude=False, divisor=0):
    """With a dilation (also (1, 1, 1)) the maximum, otherwise the average."""
    numbers = (*kernel, *(stride or kernel), *padding, *(dilation or (0, 0, 0)))
    options(case, "pool3d", *numbers, ceil, exclude, divisor)
    x = case.parameter("x", *shape)
    if dilation:
        case.judge("y", F.max_pool3d(x, kernel, stride, padding, dilation, ceil))
    else:
        case.judge("y", F.avg_pool3d(x, kernel, stride, padding, ceil, not exclude,
                                     divisor or None))


def pool_indices(case, shape, rank, kernel, stride, padding, dilation, ceil):
    """And what unpooling makes of it, which is differentiated where no windows overlap."""
    apart = stride >= dilation * (kernel - 1) + 1
    options(case, "pool_indices", rank, kernel, stride, padding, dilation, ceil, apart,
            *shape[len(shape) - rank:])
    x = case.parameter("x", *shape)
    call = getattr(F, "max_pool%dd" % rank)
    y, indices = call(x, kernel, stride, padding, dilation, ceil, return_indices=True)
    case.record("output.indices", indices)
    if rank == 3:
        ones, none = (1, 1, 1), (0, 0, 0)  # what only a size that is not given is made of
        unpooled = torch._C._nn.max_unpool3d(y, indices, shape[-3:], ones, none)
    else:
        planes = [value if rank == 2 else value[..., None, :]
                  for value in (y, indices)]
        size = shape[-2:] if rank == 2 else (1, shape[-1])
        unpooled = torch._C._nn.max_unpool2d(*planes, size).reshape(shape)
    if apart:
        case.judge("unpooled", unpooled)
    else:
        case.record("output.unpooled", unpooled)
    case.judge("y", y)


def adaptive_indices(case, shape, sizes):
    options(case, "adaptive_indices", *sizes)
    call = getattr(F, "adaptive_max_pool%dd" % len(sizes))
    y, indices = call(case.parameter("x", *shape), sizes, return_indices=True)
    case.record("output.indices", indices)
    case.judge("y", y)


def adaptive(case, shape, sizes, maximum):
    options(case, "adaptive3d", maximum, *sizes)
    call = F.adaptive_max_pool3d if maximum else F.adaptive_avg_pool3d
    case.judge("y", call(case.parameter("x", *shape), sizes))


def batch_norm(case, shape, affine):
    options(case, "batch_norm3d", affine)
    layer = case.module("layer", nn.BatchNorm3d(shape[1], affine=affine))
    x = case.parameter("x", *shape)
    case.judge("y", layer(x))
    case.record("state.layer.running_mean", layer.running_mean)
    case.record("state.layer.running_var", layer.running_var)
    layer.eval()
    case.record("evaluated.y", layer(x))


def instance_norm(case, shape):
    options(case, "instance_norm3d")
    layer = case.module("layer", nn.InstanceNorm3d(shape[1], affine=True))
    case.judge("y", layer(case.parameter("x", *shape)))


def interpolate(case, shape, sizes, cubic, align):
    options(case, "resized", cubic, align, *sizes)
    mode = "bicubic" if cubic else "trilinear"
    x = case.parameter("x", *shape)
    case.judge("y", F.interpolate(x, sizes, mode=mode, align_corners=align))


def image_cases(cases):
    for i, told in enumerate((
            dict(shape=(2, 3, 7), dimensions=1, kernel=(1, 3)),
            dict(shape=(2, 3, 7), dimensions=1, kernel=(1, 4)),
            dict(shape=(2, 3, 5, 6), dimensions=2, kernel=(2, 3), dilation=2),
            dict(shape=(2, 4, 5, 6), dimensions=2, kernel=(4, 2), groups=2, mode="reflect"),
            dict(shape=(2, 3, 5, 6), dimensions=2, kernel=(3, 3), mode="circular"),
            dict(shape=(2, 3, 5, 6), dimensions=2, kernel=(3, 2), same=False, padding=2,
                 mode="replicate"),
            dict(shape=(2, 3, 6), dimensions=1, kernel=(1, 3), same=False, padding=2,
                 mode="reflect"),
            dict(shape=(3, 6), dimensions=1, kernel=(1, 3), same=False, padding=1),
            dict(shape=(3, 5, 6), dimensions=2, kernel=(2, 3), mode="circular"))):
        cases["padded_%d" % i] = (padded, told)
    cases["transposed_image_1"] = (transposed_image, dict(shape=(2, 5), dimensions=1))
    cases["transposed_image_2"] = (transposed_image, dict(shape=(2, 3, 4), dimensions=2))
    for i, (dimensions, maximum, adaptive_sizes) in enumerate((
            (1, True, False), (2, True, False), (1, False, False), (2, False, False),
            (2, True, True), (1, False, True))):
        cases["pooled_image_%d" % i] = (pooled_image, dict(
            shape=(2, 4, 6)[:dimensions + 1], dimensions=dimensions, maximum=maximum,
            adaptive=adaptive_sizes
        ))


def pool_cases(cases):
    shape, one = (2, 3, 5, 6, 7), (1, 1, 1)
    for i, told in enumerate((
            dict(kernel=(2, 2, 2), dilation=one), dict(kernel=(3, 2, 1), stride=(1, 2, 3),
                                                       padding=(1, 1, 0), dilation=one),
            dict(kernel=(2, 3, 2), stride=(2, 2, 2), dilation=(2, 1, 3), ceil=True),
            dict(kernel=(2, 2, 2)), dict(kernel=(3, 2, 3), stride=(2, 1, 2), padding=(1, 0, 1)),
            dict(kernel=(3, 3, 2), stride=(2, 2, 2), padding=(1, 1, 1), ceil=True),
            dict(kernel=(3, 3, 2), stride=(2, 2, 2), padding=(1, 1, 1), ceil=True, exclude=True),
            dict(kernel=(2, 3, 2), divisor=5))):
        cases["pool3d_%d" % i] = (pool, dict(shape=shape, **told))
    cases["pool3d_volume"] = (pool, dict(shape=(2, 4, 4, 4), kernel=(2, 2, 2), dilation=one))
    for rank, sizes in ((1, (7,)), (2, (6, 7)), (3, (5, 4, 6))):
        for i, (kernel, stride, padding, dilation, ceil) in enumerate((
                (2, 2, 0, 1, False), (3, 2, 1, 1, False), (2, 1, 1, 2, False), (3, 3, 1, 1, True))):
            for channels in ((2, 3), (3,)) if i == 0 else ((2, 3),):
                name = "pool_indices%dd_%d" % (rank, i) + ("_single" if len(channels) == 1 else "")
                cases[name] = (pool_indices, dict(
                    shape=(*channels, *sizes), rank=rank, kernel=kernel, stride=stride,
                    padding=padding, dilation=dilation, ceil=ceil
                ))
        cases["adaptive_indices%dd" % rank] = (adaptive_indices, dict(
            shape=(2, 3, *sizes), sizes=(3, 2, 4)[:rank]
        ))
    for i, (sizes, maximum) in enumerate((((2, 3, 4), True), ((1, 1, 1), False),
                                          ((3, 4, 2), False), ((5, 1, 3), True))):
        cases["adaptive3d_%d" % i] = (adaptive, dict(shape=shape, sizes=sizes, maximum=maximum))


def volumes_cases():
    """name -> (function, its arguments)"""
    cases = {}
    image_cases(cases)
    for i, told in enumerate((
            dict(shape=(2, 3, 4, 5, 6), kernel=(2, 3, 3)),
            dict(shape=(2, 4, 5, 5, 4), kernel=(3, 2, 3), stride=(2, 1, 2), padding=(1, 2, 1),
                 groups=2),
            dict(shape=(1, 2, 6, 5, 7), kernel=(2, 3, 2), dilation=(3, 2, 1), padding=(2, 1, 0),
                 bias=False),
            dict(shape=(2, 4, 3, 3, 3), kernel=(1, 1, 1), groups=4),
            dict(shape=(3, 4, 4, 5), kernel=(2, 2, 2), out=2))):
        cases["convolution3d_%d" % i] = (convolution, told)
    for i, told in enumerate((
            dict(shape=(2, 2, 3, 4, 5), kernel=(3, 1, 3)),
            dict(shape=(2, 2, 3, 4, 5), kernel=(2, 3, 4)),
            dict(shape=(1, 2, 4, 5, 4), kernel=(2, 3, 2), dilation=2, mode="reflect"),
            dict(shape=(2, 2, 3, 4, 3), kernel=(2, 2, 3), same=False, padding=2, mode="reflect"),
            dict(shape=(2, 2, 3, 2, 3), kernel=(3, 2, 3), same=False, padding=1, mode="replicate"),
            dict(shape=(2, 3, 3, 4), kernel=(3, 2, 1), mode="circular"),
            dict(shape=(2, 2, 3, 4, 5), kernel=(2, 3, 2), same=False, padding=1))):
        cases["padded3d_%d" % i] = (padded_volume, told)
    for i, told in enumerate((
            dict(shape=(2, 3, 2, 3, 4), kernel=(2, 3, 2)),
            dict(shape=(2, 4, 3, 2, 3), kernel=(3, 2, 3), stride=(2, 3, 2), padding=(1, 0, 1),
                 more=(1, 2, 0), groups=2),
            dict(shape=(1, 2, 3, 3, 2), kernel=(2, 2, 3), dilation=(2, 3, 1), padding=(1, 1, 0),
                 more=(1, 0, 0), bias=False),
            dict(shape=(3, 2, 3, 2), kernel=(3, 1, 2), out=2))):
        cases["transposed3d_%d" % i] = (transposed, told)
    pool_cases(cases)
    for affine in (True, False):
        cases["batch_norm3d_%d" % affine] = (batch_norm, dict(shape=(2, 3, 2, 3, 2), affine=affine))
    cases["instance_norm3d"] = (instance_norm, dict(shape=(2, 3, 2, 3, 2)))
    for align in (False, True):
        for i, (shape, sizes, cubic) in enumerate((
                ((1, 2, 4, 5), (7, 9), True), ((2, 1, 6, 5), (3, 4), True),
                ((1, 1, 1, 3), (2, 1), True), ((1, 2, 2, 3, 4), (3, 2, 6), False))):
            cases["resized_%d_%d" % (align, i)] = (interpolate, dict(
                shape=shape, sizes=sizes, cubic=cubic, align=align
            ))
    return cases
