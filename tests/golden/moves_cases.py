"""Cases of layers that move elements, repeat them, or compute them from positions. The options of a
case are stored with its values, as option.LAYER, a list of numbers: tests/layers/cases/moves.c
reads them, so that only this file lists cases."""

import torch
import torch.nn.functional as F

from vision_cases import options

FAR = 1000  # beyond any end
PAD_MODES = ("constant", "reflect", "replicate", "circular")


def slice_of(case, shape, dimension, begin, end, step):
    options(case, "slice", dimension, begin, end, step)
    x = case.parameter("x", *shape)
    places = list(range(shape[dimension]))[begin:end:step]
    case.judge("y", torch.index_select(x, dimension, torch.tensor(places, dtype=torch.int64)))


def permute(case, shape, order):
    options(case, "permute", *order)
    case.judge("y", case.parameter("x", *shape).permute(order) * 1)


def flip(case, shape, dimensions):
    options(case, "flip", *dimensions)
    case.judge("y", torch.flip(case.parameter("x", *shape), dimensions))


def roll(case, shape, shift, dimension):
    options(case, "roll", shift, dimension)
    case.judge("y", torch.roll(case.parameter("x", *shape), shift, dimension) * 1)


def triangle(case, upper, shape, diagonal):
    options(case, "triangle", upper, diagonal)
    x = case.parameter("x", *shape)
    case.judge("y", torch.triu(x, diagonal) if upper else torch.tril(x, diagonal))


def dimensions(case, shape, first, last, inserted):
    """Flattened, with one more dimension, which is squeezed away in a second output."""
    options(case, "dimensions", first, last, inserted)
    y = torch.flatten(case.parameter("x", *shape), first, last).unsqueeze(inserted) * 1
    case.judge("y", y)
    case.judge("z", y.squeeze(inserted) * 2)


def stack(case, shape, count, dimension):
    options(case, "stack", count, dimension)
    parts = [case.parameter("x%d" % i, *shape) for i in range(count)]
    case.judge("y", torch.stack(parts, dimension))


def expand(case, shape, wanted):
    options(case, "expand", *wanted)
    case.judge("y", case.parameter("x", *shape).expand(wanted) * 1)


def expand_as(case, shape, wanted):
    options(case, "expand_as")
    x, like = case.parameter("x", *shape), case.parameter("like", *wanted)
    case.judge("y", x.expand_as(like) * like)


def repeat(case, shape, times):
    options(case, "repeat", *times)
    case.judge("y", case.parameter("x", *shape).repeat(times))


def pad(case, shape, amounts, mode="constant", value=0.0):
    options(case, "pad", PAD_MODES.index(mode), value, *amounts)
    x = case.parameter("x", *shape)
    if mode == "constant":
        case.judge("y", F.pad(x, amounts, mode, value))
    else:
        case.judge("y", F.pad(x, amounts, mode))


def arange(case, start, end, step):
    """Times a parameter, and as integers."""
    options(case, "arange", start, end, step)
    counted = torch.arange(start, end, step, dtype=case.dtype)
    case.judge("y", counted * case.parameter("x", len(counted)))
    if start == int(start) and step == int(step):
        case.record("output.whole", torch.arange(int(start), int(end), int(step)))


def places(case, shape, dimension):
    options(case, "places", dimension)
    counted = torch.arange(shape[dimension])
    case.record("output.places", counted)
    case.judge("y", case.parameter("x", *shape) * 1)


def integers(case, a, b, dtype):
    """Every operation on integers, far enough out that products wrap."""
    options(case, "integers")
    high = 2 ** 31 - 1 if dtype == torch.int32 else 2 ** 62
    x = case.given("a", torch.from_numpy(case.random.randint(-high, high, a)).to(dtype))
    y = case.given("b", torch.from_numpy(case.random.randint(-high, high, b)).to(dtype))
    chosen = case.given("condition", torch.from_numpy(case.random.standard_normal(b) > 0))
    case.record("output.sub", x - y)
    case.record("output.mul", x * y)
    case.record("output.maximum", torch.maximum(x, y))
    case.record("output.minimum", torch.minimum(x, y))
    case.record("output.where", torch.where(chosen, x, y))
    case.judge("y", case.parameter("x", 2) * 1)


def gather(case, shape, dimension, index, dtype):
    options(case, "gather", dimension)
    places = case.ids("index", 0, shape[dimension], *index, dtype=dtype)
    case.judge("y", torch.gather(case.parameter("x", *shape), dimension, places.long()))


def index_select(case, shape, dimension, count, dtype):
    options(case, "index_select", dimension)
    places = case.ids("index", 0, shape[dimension], count, dtype=dtype)
    case.judge("y", torch.index_select(case.parameter("x", *shape), dimension, places))


def scatter_add(case, shape, dimension, index, source):
    options(case, "scatter_add", dimension)
    places = case.ids("index", 0, shape[dimension], *index)
    x = case.parameter("x", *shape)
    # PyTorch takes more than is indexed, but has no gradient of it.
    taken = case.parameter("source", *source)[tuple(slice(size) for size in index)]
    case.judge("y", x.scatter_add(dimension, places, taken))


def one_hot(case, shape, classes):
    options(case, "one_hot", classes)
    hot = F.one_hot(case.ids("ids", 0, classes, *shape), classes)
    case.record("output.hot", hot)
    case.judge("y", hot.to(case.dtype) * case.parameter("x", classes))


def prod(case, shape, dimension, keep, zeros=0):
    """Zeros are a row's first elements."""
    options(case, "prod", dimension, keep)
    x = case.parameter("x", *shape)
    with torch.no_grad():
        x.transpose(0, dimension)[:zeros] = 0
    case.record("parameter.x", x)
    case.judge("y", torch.prod(x, dimension, keep))


def logsumexp(case, shape, dimension, keep, scale=1.0):
    options(case, "logsumexp", dimension, keep)
    case.judge("y", torch.logsumexp(case.parameter("x", *shape, scale=scale), dimension, keep))


def over(case, shape, dimensions, keep, product):
    """A sum of exponentials or a product over several dimensions; none: over all."""
    options(case, "over", product, keep, *dimensions)
    x = case.parameter("x", *shape)
    reduced = sorted(d % len(shape) for d in dimensions) or range(len(shape))
    if product:
        others = [d for d in range(len(shape)) if d not in reduced]
        y = x.permute(*others, *reduced).flatten(len(others)).prod(-1)
        kept = [1 if d in reduced else shape[d] for d in range(len(shape))]
        case.judge("y", y.reshape(kept) if keep else y)
    else:
        case.judge("y", torch.logsumexp(x, tuple(reduced), keep))


def index_cases(cases):
    wide, narrow = torch.int64, torch.int32
    for i, (shape, dimension, index, dtype) in enumerate((
            ((4, 5), 0, (3, 5), wide), ((4, 5), 1, (4, 7), narrow), ((2, 3, 4), 1, (2, 6, 4), wide),
            ((2, 3, 4), -1, (2, 3, 1), wide), ((4, 5, 6), 0, (2, 3, 4), wide), ((7,), 0, (9,), wide)
    )):
        cases["gather_%d" % i] = (gather, dict(
            shape=shape, dimension=dimension, index=index, dtype=dtype
        ))
    for i, (shape, dimension, count, dtype) in enumerate((
            ((5, 4), 0, 7, wide), ((5, 4), 1, 2, narrow), ((2, 3, 4), -2, 5, wide),
            ((6,), 0, 3, wide))):
        cases["index_select_%d" % i] = (index_select, dict(
            shape=shape, dimension=dimension, count=count, dtype=dtype
        ))
    for i, (shape, dimension, index, source) in enumerate((
            ((4, 5), 0, (6, 5), (6, 5)), ((4, 5), 1, (4, 9), (4, 9)), ((6,), -1, (20,), (20,)),
            ((2, 3, 70), 1, (2, 5, 70), (2, 6, 71)))):
        cases["scatter_add_%d" % i] = (scatter_add, dict(
            shape=shape, dimension=dimension, index=index, source=source
        ))
    for i, (shape, classes) in enumerate((((5,), 3), ((2, 4), 7), ((), 2))):
        cases["one_hot_%d" % i] = (one_hot, dict(shape=shape, classes=classes))
    for i, (dimension, keep, zeros) in enumerate(((0, False, 0), (1, True, 1), (-1, False, 2),
                                                  (2, True, 0))):
        cases["prod_%d" % i] = (prod, dict(
            shape=(3, 4, 5), dimension=dimension, keep=keep, zeros=zeros
        ))
    for i, (dimension, keep, scale) in enumerate(((0, False, 1.0), (1, True, 60.0),
                                                  (-1, False, 3.0))):
        cases["logsumexp_%d" % i] = (logsumexp, dict(
            shape=(3, 4, 5), dimension=dimension, keep=keep, scale=scale
        ))
    for i, (shape, dimensions, keep) in enumerate((
            ((3, 4, 5), (0, 1), False), ((3, 4, 5), (-1, 0), True), ((3, 4, 5), (), False),
            ((2, 3, 1, 4), (3, 1), False), ((), (), True))):
        for product in (False, True)[:1 + (len(shape) > 0)]:
            cases["over_%d_%s" % (i, "prod" if product else "logsumexp")] = (over, dict(
                shape=shape, dimensions=dimensions, keep=keep, product=product
            ))


def slice_cases(cases):
    grid = ((1, 1, 3, 1), (0, 0, FAR, 2), (2, -4, -1, 1), (2, 5, 0, -2), (1, -1, -FAR, -1),
            (0, 1, FAR, 3), (1, 0, FAR, 1), (2, 1, -1, 2), (0, 3, 2, -1))
    for i, (dimension, begin, end, step) in enumerate(grid):
        cases["slice_%d" % i] = (slice_of, dict(
            shape=(4, 5, 6), dimension=dimension, begin=begin, end=end, step=step
        ))
    cases["slice_row"] = (slice_of, dict(shape=(7,), dimension=0, begin=2, end=6, step=3))


def pad_cases(cases):
    constant = (((1, 2), (3, 4)), ((0, 1, 2, 0), (3, 4)), ((-1, 2), (3, 4)),
                ((2, -2, -1, -1), (4, 5)), ((1, 1, 2, 2, 1, 0), (2, 3, 4)), ((3, 1), (5,)))
    for i, (amounts, shape) in enumerate(constant):
        cases["pad_%d" % i] = (pad, dict(shape=shape, amounts=amounts, value=0.0 if i else -1.5))
    for mode in PAD_MODES[1:]:
        cases["pad_%s" % mode] = (pad, dict(shape=(2, 3, 5), amounts=(2, 1), mode=mode))
        cases["pad_%s_image" % mode] = (pad, dict(
            shape=(2, 3, 4, 5), amounts=(2, 0, 1, 3), mode=mode
        ))


def moves_cases():
    """name -> (function, its arguments)"""
    cases = {}
    slice_cases(cases)
    orders = (((4, 5), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4), (0, 2, 1)),
              ((2, 3, 4, 5), (0, 2, 1, 3)), ((2, 3, 4, 5), (0, 2, 3, 1)),
              ((2, 3, 2, 3, 2), (4, 2, 0, 3, 1)), ((17, 2, 19), (2, 1, 0)))
    for i, (shape, order) in enumerate(orders):
        cases["permute_%d" % i] = (permute, dict(shape=shape, order=order))
    for i, flipped in enumerate(((0,), (2,), (0, 1), (-1, 0, 1))):
        cases["flip_%d" % i] = (flip, dict(shape=(3, 4, 5), dimensions=flipped))
    for i, (shift, dimension) in enumerate(((1, 0), (-2, 1), (7, -1), (-11, 2), (5, 2))):
        cases["roll_%d" % i] = (roll, dict(shape=(3, 4, 5), shift=shift, dimension=dimension))
    for upper in (True, False):
        for i, (shape, diagonal) in enumerate((((5, 5), 0), ((4, 6), 1), ((2, 6, 4), -2),
                                               ((2, 2, 3, 3), 5))):
            cases["%s_%d" % ("triu" if upper else "tril", i)] = (triangle, dict(
                upper=upper, shape=shape, diagonal=diagonal
            ))
    for i, (first, last, inserted) in enumerate(((0, 1, 0), (1, -1, -1), (-2, -1, 1), (0, 0, 2))):
        cases["dimensions_%d" % i] = (dimensions, dict(
            shape=(2, 3, 4), first=first, last=last, inserted=inserted
        ))
    for i, (count, dimension) in enumerate(((1, 0), (3, 0), (2, -1), (4, 1))):
        cases["stack_%d" % i] = (stack, dict(shape=(3, 4), count=count, dimension=dimension))
    for i, (shape, wanted) in enumerate((((1, 4), (3, 4)), ((3, 1), (-1, 5)), ((4,), (2, 3, 4)),
                                         ((1, 3, 1, 2), (2, 3, 4, 2)), ((2, 1), (2, 1)),
                                         ((), (2, 3)))):
        cases["expand_%d" % i] = (expand, dict(shape=shape, wanted=wanted))
    for i, (shape, wanted) in enumerate((((1, 1, 4), (3, 5, 4)), ((4,), (3, 4)), ((3, 4), (3, 4)))):
        cases["expand_as_%d" % i] = (expand_as, dict(shape=shape, wanted=wanted))
    for i, (shape, times) in enumerate((((3,), (2,)), ((2, 3), (1, 3)), ((2, 3), (2, 1)),
                                        ((2, 3), (2, 4, 3)), ((2, 1, 3), (1, 1, 1)),
                                        ((3,), (1, 2)), ((2, 3), (3, 1, 1)))):
        cases["repeat_%d" % i] = (repeat, dict(shape=shape, times=times))
    pad_cases(cases)
    index_cases(cases)
    for i, (start, end, step) in enumerate(((0, 5, 1), (3, -4, -2), (0.5, 2, 0.3), (2, 3, 7))):
        cases["arange_%d" % i] = (arange, dict(start=start, end=end, step=step))
    for dimension in (0, -1):
        cases["places_%d" % (dimension % 3)] = (places, dict(
            shape=(4, 5, 6), dimension=dimension
        ))
    for i, (a, b) in enumerate((((4, 7), (4, 7)), ((4, 7), (7,)), ((4, 1), (3, 1, 7)))):
        for dtype, name in ((torch.int32, "int32"), (torch.int64, "int64")):
            cases["%s_%d" % (name, i)] = (integers, dict(a=a, b=b, dtype=dtype))
    return cases
