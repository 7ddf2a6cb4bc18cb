"""Cases of mathematics element by element. The options of a case are beside its values, as
option.LAYER, a list of numbers: tests/layers/cases/pointwise.c reads them, so that only this file
lists cases."""

import torch
import torch.nn.functional as F

from vision_cases import options

BINARY = (torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum,
          torch.remainder, torch.pow)

FUNCTIONS = (
    lambda x, a, b: a * x + b,
    lambda x, a, b: x + a,
    lambda x, a, b: x * a,
    lambda x, a, b: -x,
    lambda x, a, b: torch.abs(x),
    lambda x, a, b: torch.exp(x),
    lambda x, a, b: torch.log(x),
    lambda x, a, b: torch.sqrt(x),
    lambda x, a, b: torch.rsqrt(x),
    lambda x, a, b: torch.pow(x, a),
    lambda x, a, b: torch.square(x),
    lambda x, a, b: torch.clamp(x, a, b),
    lambda x, a, b: F.hardtanh(x, a, b),
    lambda x, a, b: F.relu6(x),
    lambda x, a, b: F.softplus(x, a, b),
    lambda x, a, b: F.elu(x, a),
    lambda x, a, b: F.hardswish(x),
    lambda x, a, b: F.hardsigmoid(x),
)


def positive(case, name, *shape):
    """A parameter whose elements are not near 0."""
    x = case.parameter(name, *shape)
    with torch.no_grad():
        x.abs_().add_(0.2)
    case.record("parameter." + name, x)
    return x


def binary(case, kind, a, b, same=False):
    options(case, "two_values", kind, same)
    x = (positive if kind == 7 else type(case).parameter)(case, "a", *a)
    y = x if same else (positive if kind in (3, 6) else type(case).parameter)(case, "b", *b)
    case.judge("y", BINARY[kind](x, y))


def function(case, kind, a=0.0, b=0.0, shape=(5, 7), scale=1.0, above=False):
    options(case, "function", kind, a, b)
    x = positive(case, "x", *shape) if above else case.parameter("x", *shape, scale=scale)
    case.judge("y", FUNCTIONS[kind](x, a, b))


def plain(case, call, shape=(5, 7), scale=1.0):
    """A line of devices/kernels/elementwise/functions.h, by PyTorch's name.

    Cases of kernels use these values as well.
    """
    options(case, call.__name__)
    case.judge("y", call(case.parameter("x", *shape, scale=scale)))


def ends(case, kind, a, b):
    """Elements at the ends, where the slope is a matter of convention."""
    options(case, "function_at_ends", kind, a, b)
    x = case.parameter("x", 6)
    with torch.no_grad():
        x.copy_(torch.tensor([a, b, a - 1, b + 1, (a + b) / 2, 0]))
    case.record("parameter.x", x)
    case.judge("y", FUNCTIONS[kind](x, a, b))


def tied(case, kind):
    options(case, "two_values_tied", kind, 0)
    x, y = case.parameter("a", 3, 4), case.parameter("b", 4)
    with torch.no_grad():
        x[1] = y
    case.record("parameter.a", x)
    case.judge("y", BINARY[kind](x, y))


def remainder_of_tenths(case):
    """A case of quotients that are rounded up to whole numbers."""
    options(case, "two_values_tied", 6, 0)
    a, b = case.parameter("a", 4), case.parameter("b", 4)
    with torch.no_grad():
        a.copy_(torch.tensor([1.0, -1.0, 0.5, 7.0]))
        b.copy_(torch.tensor([0.1, 0.1, -0.1, 0.7]))
    case.record("parameter.a", a)
    case.record("parameter.b", b)
    case.judge("y", torch.remainder(a, b))


def steps(case, kind, scale):
    """Adds those without a gradient times one with a gradient."""
    options(case, "steps", kind)
    x = case.parameter("x", 5, 7, scale=scale)
    case.judge("y", (torch.floor, torch.round, torch.sign)[kind](x) * x)


def steps_at_halves(case, kind):
    """Halves, which are rounded to the even one, and 0."""
    options(case, "steps_at_halves", kind)
    x = case.parameter("x", 7)
    with torch.no_grad():
        x.copy_(torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.0]))
    case.record("parameter.x", x)
    case.judge("y", (torch.floor, torch.round, torch.sign)[kind](x) * x)


def power_at_zero(case):
    """Exponents for which the slope at zero is a convention."""
    options(case, "power_at_zero", 0)
    a, b = case.parameter("a", 4), case.parameter("b", 4)
    with torch.no_grad():
        a.copy_(torch.tensor([0.0, 0.0, -2.0, 2.0]))
        b.copy_(torch.tensor([0.0, 2.0, 3.0, 0.0]))
    case.record("parameter.a", a)
    case.record("parameter.b", b)
    case.judge("y", torch.pow(a, b.detach()) + b)
    case.judge("z", torch.pow(a.detach().abs(), b) + a)


def prelu(case, shape, slopes):
    options(case, "prelu", slopes)
    slope = case.parameter("layer.weight", slopes)
    case.judge("y", F.prelu(case.parameter("x", *shape), slope))


def glu(case, shape, dimension):
    options(case, "glu", dimension)
    case.judge("y", F.glu(case.parameter("x", *shape), dimension))


def where(case, condition, a, b, number=None):
    options(case, "where", number is not None, number or 0)
    chosen = torch.from_numpy(case.random.standard_normal(condition)) > 0
    case.given("condition", chosen)
    x = case.parameter("a", *a)
    if number is None:
        case.judge("y", torch.where(chosen, x, case.parameter("b", *b)))
    else:
        case.judge("y", x.masked_fill(chosen, number))


def compare(case, kind, a, b, number=None):
    """The elements of x for which the comparison is true, and zeros."""
    options(case, "compare", kind, number is not None, number or 0)
    x = case.parameter("a", *a)
    other = case.fed("b", *b) if number is None else number
    calls = (torch.lt, torch.le, torch.gt, torch.ge, torch.eq, torch.ne)
    case.judge("y", torch.where(calls[kind](x, other), x * 1, torch.zeros((), dtype=case.dtype)))


def extreme(case, least, shape, dimension, keep):
    options(case, "extreme", least, dimension, keep)
    x = case.parameter("x", *shape)
    values, indices = (torch.min if least else torch.max)(x, dimension, keep)
    case.record("output.indices", indices)
    case.judge("y", values)


def cumsum(case, shape, dimension):
    options(case, "cumsum", dimension)
    case.judge("y", torch.cumsum(case.parameter("x", *shape), dimension))


def variance(case, shape, dimensions, unbiased, keep):
    options(case, "variance", unbiased, keep, *dimensions)
    case.judge("y", torch.var(case.parameter("x", *shape), dimensions, unbiased, keep))


def pointwise_cases():
    """name -> (function, its arguments)"""
    cases = {}
    shapes = (
        ((4, 7), (4, 7)), ((4, 7), (7,)), ((7,), (3, 4, 7)), ((4, 7), (4, 1)), ((4, 1), (1, 7)),
        ((4, 7), ()), ((2, 1, 5), (1, 3, 1)), ((2, 3, 1, 4), (3, 5, 1))
    )
    for kind, call in enumerate(BINARY):
        for i, (a, b) in enumerate(shapes):
            cases["%s_%d" % (call.__name__, i)] = (binary, dict(kind=kind, a=a, b=b))
    for kind, name in ((0, "add"), (2, "mul"), (4, "maximum")):
        cases[name + "_same"] = (binary, dict(kind=kind, a=(4, 7), b=(4, 7), same=True))
    for kind, name in ((4, "maximum"), (5, "minimum")):
        cases[name + "_tied"] = (tied, dict(kind=kind))
    cases["remainder_of_tenths"] = (remainder_of_tenths, {})
    cases["affine"] = (function, dict(kind=0, a=-1.5, b=0.75))
    cases["add_scalar"] = (function, dict(kind=1, a=2.25))
    cases["mul_scalar"] = (function, dict(kind=2, a=-0.3))
    for kind, name in ((3, "neg"), (4, "abs"), (5, "exp"), (10, "square"), (13, "relu6")):
        cases[name] = (function, dict(kind=kind, scale=2.0))
    for kind, name in ((6, "log"), (7, "sqrt"), (8, "rsqrt")):
        cases[name] = (function, dict(kind=kind, above=True))
    for power in (-3.5, -2, -1, -0.5, 0, 0.5, 1, 1.7, 2, 3, 4):
        cases["pow_%g" % power] = (function, dict(kind=9, a=float(power), above=True))
    cases["pow_3_of_all"] = (function, dict(kind=9, a=3.0))
    cases["clamp"] = (function, dict(kind=11, a=-0.5, b=0.8))
    cases["hardtanh"] = (function, dict(kind=12, a=-0.5, b=0.8))
    for kind, name in ((12, "hardtanh"), (13, "relu6")):
        cases[name + "_ends"] = (ends, dict(kind=kind, a=0.0, b=6.0))
    cases["clamp_at_ends"] = (ends, dict(kind=11, a=0.0, b=6.0))  # as since PyTorch 2.15
    for kind, name in ((16, "hardswish"), (17, "hardsigmoid")):
        cases[name + "_at_ends"] = (ends, dict(kind=kind, a=-3.0, b=3.0))
    cases["abs_at_0"] = (ends, dict(kind=4, a=-1.0, b=1.0))
    cases["elu_at_0"] = (ends, dict(kind=15, a=0.7, b=1.0))
    for beta, threshold in ((1.0, 20.0), (2.5, 1.5)):
        cases["softplus_%g" % beta] = (function, dict(kind=14, a=beta, b=threshold, scale=3.0))
    for alpha in (1.0, 0.4):
        cases["elu_%g" % alpha] = (function, dict(kind=15, a=alpha, scale=2.0))
    for call in (F.hardswish, F.mish, F.hardsigmoid, torch.sin, torch.cos, torch.erf):
        cases[call.__name__] = (plain, dict(call=call, scale=4.0))
    for kind, name in enumerate(("floor", "round", "sign")):
        cases[name] = (steps, dict(kind=kind, scale=3.0))
        cases[name + "_at_halves"] = (steps_at_halves, dict(kind=kind))
    cases["power_at_zero"] = (power_at_zero, {})
    for i, (shape, slopes) in enumerate((((4, 7), 1), ((4, 7), 7), ((2, 3, 4, 2), 3), ((5,), 1))):
        cases["prelu_%d" % i] = (prelu, dict(shape=shape, slopes=slopes))
    for dimension in (0, -1):
        cases["glu_%d" % (dimension % 3)] = (glu, dict(shape=(4, 5, 6), dimension=dimension))
    for i, (condition, a, b) in enumerate((((4, 7), (4, 7), (4, 7)), ((7,), (4, 1), (7,)),
                                           ((3, 1, 1), (4, 1), ()))):
        cases["where_%d" % i] = (where, dict(condition=condition, a=a, b=b))
    cases["masked_fill"] = (where, dict(condition=(4, 7), a=(4, 7), b=(), number=-2.5))
    cases["masked_fill_rows"] = (where, dict(condition=(4, 1), a=(4, 7), b=(), number=9.0))
    for kind, name in enumerate(("lt", "le", "gt", "ge", "eq", "ne")):
        cases["compare_" + name] = (compare, dict(kind=kind, a=(4, 7), b=(7,)))
        cases["compare_number_" + name] = (compare, dict(kind=kind, a=(4, 7), b=(), number=0.3))
    for least in (False, True):
        for dimension, keep in ((0, False), (1, True), (-1, False)):
            name = "%s_%d%s" % ("min" if least else "max", dimension % 3, "_keep" if keep else "")
            cases[name] = (extreme, dict(
                least=least, shape=(4, 5, 6), dimension=dimension, keep=keep
            ))
    for dimension in (0, 1, -1):
        cases["cumsum_%d" % (dimension % 3)] = (cumsum, dict(shape=(4, 5, 6), dimension=dimension))
    of_variance = (((0,), True, False), ((-1,), True, True), ((0, 2), False, False),
                   ((1, 2), True, True))
    for i, (dimensions, unbiased, keep) in enumerate(of_variance):
        cases["variance_%d" % i] = (variance, dict(
            shape=(3, 4, 5), dimensions=dimensions, unbiased=unbiased, keep=keep
        ))
    return cases
