#!/usr/bin/python3
"""Writes the golden data of layers and training beside this file, from Debian's python3-torch.

Every case draws from a seed of its own, in float64, so files change only where a case does. With
--add only cases that a file does not have yet are made; the others stay unchanged. A newer PyTorch
has optimizers and losses that Debian's does not have, other slopes at kinks of functions, and other
rounding."""

import os
import sys

import torch

import arrays_cases
import blocks_cases
import example_models
import layer_cases
import loss_cases
import moves_cases
import pointwise_cases
import recorder
import recurrent_cases
import safetensors_file
import schedule_cases
import table_cases
import training_cases
import vision_cases
import volumes_cases

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def path_of(family, dtype_name):
    folder = os.path.dirname(os.path.abspath(__file__))
    return os.path.join(folder, "%s_%s.safetensors" % (family, dtype_name))


def kept_cases(family, dtype_name):
    """case -> its tensors by full name, from the existing file; empty without --add."""
    cases = {}
    if "--add" in sys.argv[1:]:
        for name, tensor in safetensors_file.read(path_of(family, dtype_name)).items():
            cases.setdefault(name.split("/")[0], {})[name] = tensor
    return cases


def write(family, dtype_name, recorded):
    path = path_of(family, dtype_name)
    safetensors_file.write(path, recorded)
    print("%s: %d tensors, %d bytes" % (path, len(recorded), os.path.getsize(path)))


def main():
    torch.set_num_threads(1)
    for dtype_name, dtype in DTYPES.items():
        layer_families = {
            "arrays": arrays_cases.arrays_cases(),
            "blocks": blocks_cases.blocks_cases(),
            "layers": layer_cases.layer_cases(),
            "loss": loss_cases.loss_cases(),
            "moves": moves_cases.moves_cases(),
            "pointwise": pointwise_cases.pointwise_cases(),
            "tables": table_cases.table_cases(),
            "vision": vision_cases.vision_cases(),
            "volumes": volumes_cases.volumes_cases(),
            "recurrent": recurrent_cases.recurrent_cases(),
        }
        for family, cases in layer_families.items():
            recorded = {}
            kept = kept_cases(family, dtype_name)
            for name, (build, options) in cases.items():
                case = recorder.Case(name, dtype)
                if name not in kept:
                    build(case, **options)
                recorded.update(kept.get(name) or case.finish())
            write(family, dtype_name, recorded)
        training = {}
        kept = kept_cases("training", dtype_name)
        torch.set_default_dtype(dtype)  # dtype of numbers in the states of optimizers
        for name, (build, options) in training_cases.training_cases().items():
            case = recorder.Case(name, dtype)
            if name not in kept:
                build(case, **options)
            training.update(kept.get(name) or case.recorded)
        torch.set_default_dtype(torch.float32)
        write("training", dtype_name, training)
    schedules = schedule_cases.schedule_cases()
    for kept in kept_cases("schedules", "float64").values():
        schedules.update(kept)
    write("schedules", "float64", schedules)
    if "--add" in sys.argv[1:]:
        return
    for name, recorded in example_models.models().items():
        write(name, "float32", recorded)


if __name__ == "__main__":
    main()
