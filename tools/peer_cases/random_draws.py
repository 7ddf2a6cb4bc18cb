"""Draws numbers, shapes and tensors for cases."""

import zlib

import numpy
import torch

FLOATS = (torch.float64, torch.float32)
NUMBERS = (*FLOATS, torch.int64, torch.int32)
SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0, 6.0,
           1e-40, -1e-40, 88.0, -88.0, 20.0]


class Draw:
    """Numbers, shapes and tensors of one case."""

    def __init__(self, seed, name, number):
        self.random = numpy.random.RandomState(zlib.crc32(b"%d %s %d" % (
            seed, name.encode(), number)))
        torch.manual_seed(self.random.randint(2**31))
        self.dtype = self.one_of(FLOATS)

    def chance(self, share=0.5):
        return bool(self.random.rand() < share)

    def one_of(self, choices):
        return choices[self.random.randint(len(choices))]

    def number(self, least, most):
        """Returns a random int from least to most, both included."""
        return int(self.random.randint(least, most + 1))

    def real(self, least, most):
        return float(self.random.uniform(least, most))

    def size(self, most=7, least=1):
        if least == 0 and self.chance(0.06):
            return 0
        if self.chance(0.04):
            return self.number(max(least, 1), 8 * most)
        return self.number(max(least, 1), most)

    def shape(self, least=0, most=4, size=7, empty=True):
        return [self.size(size, 0 if empty else 1) for _ in range(self.number(least, most))]

    def dim(self, shape):
        return self.number(-len(shape), len(shape) - 1)

    def dims(self, shape):
        """Some of them, each once, counted from either end."""
        rank = len(shape)
        chosen = [i for i in range(rank) if self.chance()]
        self.random.shuffle(chosen)
        return [i - rank if self.chance(0.3) else i for i in chosen]

    def values(self, shape, dtype=None, kinds=("plain", "plain", "few"), grad=None):
        dtype = dtype or self.dtype
        kind = self.one_of(kinds)
        if dtype == torch.bool:
            return torch.from_numpy(numpy.asarray(self.random.rand(*shape) < 0.5))
        if not dtype.is_floating_point:
            most = 2**31 if self.chance(0.2) else 5
            return torch.from_numpy(numpy.asarray(
                self.random.randint(-most, most, shape))).to(dtype)
        if kind == "special":
            made = self.random.choice(SPECIAL, shape)
        elif kind == "limits":
            made = self.random.choice(SPECIAL[1:], shape)
        elif kind == "zeros":
            made = numpy.zeros(shape)
        elif kind == "few":
            made = self.random.randint(-3, 4, shape).astype("float64")
        else:
            made = self.random.standard_normal(shape) * self.one_of([1, 1, 3, 0.01])
        made = torch.from_numpy(numpy.asarray(made)).to(dtype)
        return made.requires_grad_(self.chance(0.85) if grad is None else grad)

    def ids(self, most, shape, dtype=None):
        return torch.from_numpy(numpy.asarray(self.random.randint(0, max(most, 1), shape))).to(
            dtype or self.one_of([torch.int64, torch.int32]))

    def broadcast(self, shape):
        """A shape that is broadcast to it."""
        shape = [1 if self.chance(0.25) else size for size in shape]
        return shape[self.number(0, len(shape)):] if self.chance(0.3) else shape
