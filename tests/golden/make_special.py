#!/usr/bin/python3
"""Writes data/special_FAMILY.safetensors.xz: what PyTorch computes for the golden
cases when one element of one operand is NaN, +infinity or -infinity.

Operands are parameters, floating-point inputs and targets. The loss of a judged output is the sum
of its products with its target here, so that the target is the output's gradient. Each case has:

- special.OPERAND, int32 (n, 2): the element that is replaced, and by what, an index of SPECIALS.
- classes.OPERAND, int32 (n, words): two bits for each element of the results, from the lowest bit:
  0 finite, 1 NaN, 2 +infinity, 3 -infinity. Results are the outputs, then the gradients, each in
  the order of the golden file, then the loss.
- sums.OPERAND, float32 (n): the sum of the finite elements of these, each times 1 + (i % 7) / 8,
  where i is its index among all elements.

Replacements that PyTorch refuses are left out. Cases that are in a file stay with --add."""

import math
import os
import sys

import numpy
import torch
import torch.nn.functional as F

import arrays_cases
import blocks_cases
import layer_cases
import loss_cases
import moves_cases
import pointwise_cases
import recorder
import recurrent_cases
import safetensors_file
import table_cases
import vision_cases
import volumes_cases

FAMILIES = {
    "arrays": arrays_cases.arrays_cases,
    "blocks": blocks_cases.blocks_cases,
    "layers": layer_cases.layer_cases,
    "loss": loss_cases.loss_cases,
    "moves": moves_cases.moves_cases,
    "pointwise": pointwise_cases.pointwise_cases,
    "recurrent": recurrent_cases.recurrent_cases,
    "tables": table_cases.table_cases,
    "vision": vision_cases.vision_cases,
    "volumes": volumes_cases.volumes_cases,
}
SPECIALS = (math.nan, math.inf, -math.inf)
OPERANDS = ("parameter", "input", "target")
MOST_POSITIONS = 16  # limit for an operand
MOST_CLASSES = 5000  # per case; raised if an operand would have fewer than LEAST_POSITIONS
LEAST_POSITIONS = 2


class SpecialCase(recorder.Case):
    """A case in which an element of the operand `name` is replaced when it is recorded last. plain:
    the same without; operands then have its values, which are the golden file's."""

    def __init__(self, case_name, plain=None, name=None, position=0, special=0.0):
        super().__init__(case_name, torch.float32)
        self.plain, self.replaced, self.position, self.special = plain, name, position, special
        self.times = {}

    def record(self, name, tensor):
        self.times[name] = self.times.get(name, 0) + 1
        if self.plain and self.times[name] == self.plain.times[name]:
            key = "%s/%s" % (self.name, name)
            with torch.no_grad():
                if is_operand(key, tensor):
                    tensor.copy_(self.plain.recorded[key])
                if name == self.replaced:
                    tensor[place_of(tensor, self.position)] = self.special
        super().record(name, tensor)

    def judge(self, name, value):
        target = self.draw(*value.shape).to(value.dtype)
        self.record("target." + name, target)
        self.record("output." + name, value)
        self.add((value * target).sum())


def place_of(tensor, position):
    """The index of an element by its number in order."""
    return tuple(int(i) for i in numpy.unravel_index(position, tuple(tensor.shape)))


def kind_of(name):
    return name.split("/")[1].split(".")[0]


def is_operand(name, tensor):
    return kind_of(name) in OPERANDS and tensor.is_floating_point()


def results(recorded):
    """All elements, as one tensor of float64."""
    names = [name for kind in ("output", "gradient", "loss") for name in recorded
             if kind_of(name) == kind]
    return torch.cat([recorded[name].double().reshape(-1) for name in names])


def classes_of(values):
    codes = torch.zeros(values.shape, dtype=torch.int64)
    codes[torch.isnan(values)] = 1
    codes[values == math.inf] = 2
    codes[values == -math.inf] = 3
    codes = F.pad(codes, (0, -len(codes) % 16)).reshape(-1, 16)
    words = (codes << (2 * torch.arange(16))).sum(1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def sum_of(values):
    weights = 1 + (torch.arange(len(values)) % 7) / 8.0
    return torch.where(torch.isfinite(values), values * weights, 0.0).sum()


def positions_of(count, most):
    if count <= most:
        return range(count)
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]


def same(a, b):
    return torch.equal(torch.nan_to_num(a, nan=12345.0), torch.nan_to_num(b, nan=12345.0))


def replaces_one(plain, case, name, position):
    """Returns true if only that element differs: a case may compute one operand from another."""
    for key, tensor in plain.recorded.items():
        if is_operand(key, tensor):
            found = case.recorded[key].clone()
            if key == name:
                place = place_of(tensor, position)
                found[place] = tensor[place]
            if not same(tensor, found):
                return False
    return True


def make_operand(build, options, plain, name, most):
    short = name.split("/")[1]
    places, classes, sums = [], [], []
    for position in positions_of(plain.recorded[name].numel(), most):
        for index, special in enumerate(SPECIALS):
            case = SpecialCase(plain.name, plain, short, position, special)
            try:
                build(case, **options)
                case.finish()
            except (RuntimeError, ValueError, IndexError):
                continue
            if not replaces_one(plain, case, name, position):
                continue
            values = results(case.recorded)
            places.append([position, index])
            classes.append(classes_of(values))
            sums.append(sum_of(values))
    if not places:
        return {}
    prefix, suffix = name.split("/")
    return {
        "%s/special.%s" % (prefix, suffix): torch.tensor(places, dtype=torch.int32),
        "%s/classes.%s" % (prefix, suffix): torch.stack(classes),
        "%s/sums.%s" % (prefix, suffix): torch.stack(sums).float(),
    }


def make_case(name, build, options, golden):
    plain = SpecialCase(name)
    build(plain, **options)
    plain.finish()
    operands = [key for key, tensor in plain.recorded.items()
                if is_operand(key, tensor) and tensor.numel()]
    for key in operands:
        value = golden[key].float()
        if not torch.allclose(plain.recorded[key], value, rtol=1e-5, equal_nan=True):
            raise ValueError("%s is not what the golden file has" % key)
        plain.recorded[key] = value
    elements = 3 * len(operands) * len(results(plain.recorded))
    most = min(MOST_POSITIONS, max(LEAST_POSITIONS, MOST_CLASSES // elements))
    recorded = {}
    for key in operands:
        recorded.update(make_operand(build, options, plain, key, most))
    return recorded


def path_of(family):
    folder = os.path.dirname(os.path.abspath(__file__))
    return os.path.join(folder, "data", "%s.safetensors.xz" % family)


def kept_cases(family):
    cases = {}
    if "--add" in sys.argv[1:] and os.path.exists(path_of("special_" + family)):
        for name, tensor in safetensors_file.read(path_of("special_" + family)).items():
            cases.setdefault(name.split("/")[0], {})[name] = tensor
    return cases


def main():
    torch.set_num_threads(1)
    chosen = [name for name in sys.argv[1:] if name in FAMILIES] or list(FAMILIES)
    for family in chosen:
        golden = safetensors_file.read(path_of(family))
        kept = kept_cases(family)
        recorded = {}
        for name, (build, options) in FAMILIES[family]().items():
            try:
                recorded.update(kept.get(name) or make_case(name, build, options, golden))
            except ValueError as error:
                print(error)
        safetensors_file.write(path_of("special_" + family), recorded)
        print("special_%s: %d tensors, %d bytes" % (
            family, len(recorded), os.path.getsize(path_of("special_" + family))))


if __name__ == "__main__":
    main()
