"""One case of golden data: draws its values from a seed of its own and records what comes out.

Names inside a case: parameter.NAME (loaded and differentiated), input.NAME (fed), target.NAME,
output.NAME, gradient.NAME, loss. A judged output adds the sum of squared differences to its target
to the loss, so that every element has an adjoint of its own."""

import zlib

import numpy
import torch
import torch.nn.functional as F


class Case:
    def __init__(self, name, dtype):
        self.name = name
        self.dtype = dtype
        self.random = numpy.random.RandomState(zlib.crc32(name.encode()))
        self.parameters = {}
        self.recorded = {}
        self.loss = torch.zeros((), dtype=dtype)

    def draw(self, *shape):
        return torch.from_numpy(self.random.standard_normal(shape)).to(self.dtype)

    def record(self, name, tensor):
        self.recorded[self.name + "/" + name] = tensor.detach().clone()

    def parameter(self, name, *shape, scale=1.0):
        value = (self.draw(*shape) * scale).requires_grad_()
        self.parameters[name] = value
        self.record("parameter." + name, value)
        return value

    def module(self, name, module):
        """Replaces the parameters of module by drawn ones, named as PyTorch names them."""
        module.to(self.dtype)
        for key, value in module.named_parameters():
            with torch.no_grad():
                value.copy_(self.draw(*value.shape) * 0.4)
            self.parameters[name + "." + key] = value
            self.record("parameter." + name + "." + key, value)
        return module

    def ids(self, name, low, high, *shape, dtype=torch.int64):
        value = torch.from_numpy(self.random.randint(low, high, shape)).to(dtype)
        self.record("input." + name, value)
        return value

    def fed(self, name, *shape):
        value = self.draw(*shape)
        self.record("input." + name, value)
        return value

    def given(self, name, tensor):
        self.record("input." + name, tensor)
        return tensor

    def judge(self, name, value):
        target = self.draw(*value.shape).to(value.dtype)
        self.record("target." + name, target)
        self.record("output." + name, value)
        self.add(F.mse_loss(value, target, reduction="sum"))

    def add(self, loss):
        self.loss = self.loss + loss

    def finish(self):
        """Records loss and gradients; returns everything by name."""
        self.loss.backward()
        self.record("loss", self.loss)
        for name, value in self.parameters.items():
            gradient = value.grad.to_dense() if value.grad.is_sparse else value.grad
            self.record("gradient." + name, gradient)
        return self.recorded
