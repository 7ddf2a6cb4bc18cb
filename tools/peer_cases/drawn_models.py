"""Small models that are drawn: what they read, their layers, what they are judged by; each as
PyTorch's modules and as the library's layers, with names that agree."""

import functools
import math

import numpy
import torch

from torch_modules import BUILDERS_OF

nn = torch.nn
functional = torch.nn.functional
MOST = 200  # numbers that a layer makes of a row


class Layer(nn.Module):
    """One layer: m, a module or None, what PyTorch makes of (m, x), and what the library does of
    (graph, m, x). In a state dict its parameters are "SCOPE.m.weight"."""

    def __init__(self, m, call, build, normalizes=False):
        super().__init__()
        self.m, self.call, self.build = m, call, build
        self.normalizes = normalizes  # over rows: of each chunk of them by itself

    def forward(self, x):
        return self.call(self.m, x)


def module_layer(m, **members):
    return Layer(m, lambda m, x: m(x), BUILDERS_OF[type(m).__name__], **members)


def function_layer(call, build):
    return Layer(None, lambda m, x: call(x), lambda g, m, x: build(g, x))


# ---- What is read: (how its array is drawn, its shape without rows) ----

def floats(r, shape):
    return lambda rows: r.random.standard_normal([rows, *shape]), shape


def ids(r, table, shape):
    return lambda rows: r.random.randint(0, table, [rows, *shape]).astype("int64"), shape


def table_layer(r, table, width):
    m = nn.Embedding(table, width, sparse=r.chance(0.4),
                     padding_idx=r.one_of([None, None, r.number(0, table - 1)]))
    return module_layer(m), [width]


def bag_layer(r, table, width):
    m = nn.EmbeddingBag(table, width, mode=r.one_of(["mean", "sum", "max"]))
    if m.mode != "max":
        m.sparse = r.chance(0.4)
    return module_layer(m), [width]


# ---- Layers by the shape of what they read, without rows: each answers (layer, shape) ----

def linear(r, shape):
    m = nn.Linear(shape[-1], r.number(1, 6), bias=r.chance(0.8))
    return module_layer(m), [*shape[:-1], m.out_features]


def activation(r, shape):
    name, layer = r.one_of([("tanh", "tanh"), ("sigmoid", "sigmoid"), ("relu", "relu"),
                            ("silu", "silu")])
    return function_layer(getattr(torch, name, None) or getattr(functional, name),
                          lambda g, x: getattr(g, layer)(x)), shape


def residual(r, shape):
    m = nn.Linear(shape[-1], shape[-1])
    return Layer(m, lambda m, x: x + torch.tanh(m(x)),
                 lambda g, m, x: g.add(x, g.tanh(BUILDERS_OF["Linear"](g, m, x)))), shape


def twice(r, shape):
    """One layer that is applied two times."""
    m = nn.Linear(shape[-1], shape[-1], bias=r.chance())

    def build(g, m, x):
        x = g.tanh(BUILDERS_OF["Linear"](g, m, x))
        g.library.call("tie", g.graph, "again", "m")
        layer = g.linear if m.bias is not None else g.linear_without_bias
        return layer(x, m.out_features, name="again")
    return Layer(m, lambda m, x: m(torch.tanh(m(x))), build), shape


def layer_norm(r, shape):
    return module_layer(nn.LayerNorm(shape[-1:], 0.1, elementwise_affine=r.chance(0.7))), shape


def batch_norm(r, shape):
    kind = {1: nn.BatchNorm1d, 2: nn.BatchNorm1d, 3: nn.BatchNorm2d}[len(shape)]
    m = kind(shape[0], momentum=r.one_of([0.1, None, 0.3]), affine=r.chance(0.7),
             track_running_stats=r.chance(0.8), eps=0.1)
    return module_layer(m, normalizes=True), shape


def group_norm(r, shape):
    return module_layer(nn.GroupNorm(math.gcd(shape[0], 2), shape[0], eps=0.1)), shape


def convolution(r, shape):
    m = nn.Conv2d(shape[0], r.number(1, 4), r.number(1, 3), padding=r.number(0, 1),
                  bias=r.chance(0.8))
    sizes = [size + 2 * m.padding[0] - m.kernel_size[0] + 1 for size in shape[1:]]
    return (module_layer(m), [m.out_channels, *sizes]) if min(sizes) > 0 else None


def pool(r, shape):
    if min(shape[1:]) < 2:
        return None
    kind = r.one_of([nn.MaxPool2d, nn.AvgPool2d])
    return module_layer(kind(2)), [shape[0], *[size // 2 for size in shape[1:]]]


def recurrent(r, shape):
    m = r.one_of([nn.RNN, nn.LSTM, nn.GRU])(
        shape[-1], r.number(1, 5), batch_first=True, num_layers=r.one_of([1, 1, 2]),
        bidirectional=r.chance(0.3), bias=r.chance(0.8))
    return Layer(m, lambda m, x: m(x)[0],
                 lambda g, m, x: BUILDERS_OF[type(m).__name__](g, m, x)[0]), \
        [shape[0], m.hidden_size * (1 + m.bidirectional)]


def attention(r, shape):
    heads = r.one_of([head for head in (1, 2, 3) if shape[-1] % head == 0])
    m = nn.MultiheadAttention(shape[-1], heads, batch_first=True, bias=r.chance(0.8))
    return Layer(m, lambda m, x: m(x, x, x, need_weights=False)[0],
                 lambda g, m, x: BUILDERS_OF["MultiheadAttention"](
                     g, m, x, x, x, need_weights=False)[0]), shape


def transformer(r, shape):
    m = nn.TransformerEncoderLayer(shape[-1], 1, r.number(2, 6), 0.0, layer_norm_eps=0.1,
                                   batch_first=True, norm_first=r.chance())
    return module_layer(m), shape


def flatten(r, shape):
    return function_layer(lambda x: x.flatten(1), lambda g, x: g.flatten(x, 1, -1)), \
        [math.prod(shape)]


def last_step(r, shape):
    return function_layer(lambda x: x[:, -1], lambda g, x: g.select(x, 1, -1)), shape[1:]


def mean_step(r, shape):
    return function_layer(lambda x: x.mean(1), lambda g, x: g.mean(x, [1], 1, False)), shape[1:]


LAYERS = {1: [linear, activation, residual, twice, layer_norm, batch_norm],
          2: [linear, activation, residual, twice, layer_norm, recurrent, recurrent, attention,
              transformer, flatten, last_step, mean_step],
          3: [convolution, convolution, activation, batch_norm, group_norm, pool, flatten]}
TO_ROWS = {2: [flatten, last_step, mean_step], 3: [flatten]}


# ---- What judges: (its operation here, what it is given, targets of as many rows) ----

def judges(r, width):
    reduction = r.one_of(["mean", "mean", "sum"])

    def classes(*rows):
        found = r.random.randint(0, width, rows).astype("int64")
        return numpy.where(r.random.rand(*rows) < ignored, -100, found)

    def numbers(*rows):
        return r.random.standard_normal([*rows, width])

    def shares(*rows):
        return r.random.rand(*rows, width)

    ignored = r.one_of([0, 0, 0.3])
    smoothing = r.one_of([0.0, 0.0, 0.2])
    return r.one_of([
        ("cross_entropy", functools.partial(functional.cross_entropy, reduction=reduction,
                                            label_smoothing=smoothing), classes,
         {"reduction": reduction, "label_smoothing": smoothing}),
        ("mse", functools.partial(functional.mse_loss, reduction=reduction), numbers,
         {"reduction": reduction}),
        ("smooth_l1", functools.partial(functional.smooth_l1_loss, reduction=reduction, beta=0.5),
         numbers, {"reduction": reduction, "beta": 0.5}),
        ("binary_cross_entropy",
         functools.partial(functional.binary_cross_entropy_with_logits, reduction=reduction),
         shares, {"reduction": reduction})])


def parts_of(x, count):
    """torch.chunk's; of no rows one."""
    return x.chunk(count) if len(x) else [x]


class Model(nn.Module):
    """Layers l0, l1, ... in sequence, and their loss."""

    def __init__(self, r):
        super().__init__()
        begin = r.one_of(["rows", "ids", "ids", "bags", "sequences", "images"])
        self.integer = begin in ("ids", "bags")
        self.table, self.width = r.number(2, 40), r.number(1, 5)
        self.tied = None  # the layer whose weight is the table
        self.layers, shape = self.begin(r, begin)
        for _ in range(r.number(1, 4)):
            made = r.one_of(LAYERS[len(shape)])(r, shape)
            if made and math.prod(made[1]) <= MOST:
                shape = self.append(*made)
        self.steps = [shape[0]] if len(shape) == 2 and r.chance(0.4) else []
        if len(shape) > 1 and not self.steps:
            shape = self.append(*r.one_of(TO_ROWS[len(shape)])(r, shape))
        self.end(shape, begin == "ids" and r.chance(0.3))
        for name, layer in zip(self.names(), self.layers):
            self.add_module(name, layer)
        self.judge, self.call, self.draw_target, self.judge_options = judges(r, self.width)
        self.class_weights = None
        if self.judge == "cross_entropy" and r.chance(0.3):
            self.class_weights = torch.from_numpy(r.random.rand(self.width))

    def append(self, layer, shape):
        self.layers.append(layer)
        return shape

    def begin(self, r, kind):
        """The layers that a kind of input begins with, and the shape of what they make."""
        if self.integer:
            self.draw_input, shape = ids(r, self.table, [r.number(1, 5)])
            layer, width = (table_layer if kind == "ids" else bag_layer)(
                r, self.table, r.number(1, 6))
            return [layer], width if kind == "bags" else [*shape, *width]
        sizes = {"rows": [6], "sequences": [5, 6], "images": [3, 6, 6]}[kind]
        self.draw_input, shape = floats(r, [r.number(1, size) for size in sizes])
        return [], shape

    def end(self, shape, ties):
        """Makes scores, by the table itself if it ties; of a sequence of each step."""
        if ties:
            table = self.layers[0].m
            self.append(module_layer(nn.Linear(shape[-1], table.embedding_dim)), None)
            self.tied, self.width = "l%d" % len(self.layers), self.table
            layer = module_layer(nn.Linear(table.embedding_dim, self.table, bias=False))
            layer.m.weight = table.weight
        else:
            layer = module_layer(nn.Linear(shape[-1], self.width))
        self.append(layer, None)
        if self.steps:
            self.append(function_layer(lambda x: x.flatten(0, 1),
                                       lambda g, x: g.flatten(x, 0, 1)), None)

    def loss(self, y, target):
        given = {} if self.class_weights is None else {"weight": self.class_weights.to(y.dtype)}
        return self.call(y, target.flatten(0, 1) if self.steps else target, **given)

    def names(self):
        return ["l%d" % i for i in range(len(self.layers))]

    def forward(self, x, micro_batches=1, regions=()):
        """As the library trains it: rows are cut into micro-batches, and those into what the
        replicas of regions get. regions: for each, nested in the one before, its layers and its
        number of replicas. Normalizations keep the statistics of the first replica of each."""
        everything = range(len(self.layers))
        return torch.cat([self.through(one, everything, regions)
                          for one in parts_of(x, micro_batches)])

    def through(self, x, span, regions):
        inner, replicas = regions[0] if regions else ((), 0)
        for i in span:
            if i not in inner:
                x = self.layers[i](x)
            elif i == inner[0]:
                x = torch.cat([self.replica(k, one, inner, regions[1:])
                               for k, one in enumerate(parts_of(x, replicas))])
        return x

    def replica(self, number, x, span, regions):
        kept = {name: value.clone() for name, value in self.named_buffers()}
        x = self.through(x, span, regions)
        for name, value in self.named_buffers():
            if number > 0:
                value.copy_(kept[name])
        return x

    def normalizes(self):
        return any(layer.normalizes for layer in self.layers)

    def sparse_table(self):
        """Returns True if l0 is a table whose gradient stays sparse."""
        return self.integer and getattr(self.layers[0].m, "sparse", False) and not self.tied
