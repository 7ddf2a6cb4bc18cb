#!/usr/bin/python3
"""Writes the golden files of layers and training to data, and those of examples to models, from
Debian's python3-torch.

Every case draws from a seed of its own and is computed in float64; tests of float32 round inputs
and results when they load them. Files change only where a case does. With --add only cases that a
file does not have yet are made; the others stay unchanged. A newer PyTorch has optimizers and
losses that Debian's does not have, other slopes at kinks of functions, and other rounding."""

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


def path_of(folder, name):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), folder, name)


def kept_cases(family):
    """case -> its tensors by full name, from the existing file; empty without --add."""
    cases = {}
    if "--add" in sys.argv[1:]:
        path = path_of("data", family + ".safetensors.xz")
        for name, tensor in safetensors_file.read(path).items():
            cases.setdefault(name.split("/")[0], {})[name] = tensor
    return cases


def write(folder, file_name, recorded):
    path = path_of(folder, file_name)
    safetensors_file.write(path, recorded)
    print("%s: %d tensors, %d bytes" % (path, len(recorded), os.path.getsize(path)))


def main():
    torch.set_num_threads(1)
    families = {
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
        "training": training_cases.training_cases(),
    }
    for family, cases in families.items():
        recorded = {}
        kept = kept_cases(family)
        # dtype of numbers in the states of optimizers
        torch.set_default_dtype(torch.float64 if family == "training" else torch.float32)
        for name, (build, options) in cases.items():
            case = recorder.Case(name, torch.float64)
            if name not in kept:
                build(case, **options)
                if family != "training":
                    case.finish()
            recorded.update(kept.get(name) or case.recorded)
        write("data", family + ".safetensors.xz", recorded)
    torch.set_default_dtype(torch.float32)
    schedules = schedule_cases.schedule_cases()
    for kept in kept_cases("schedules").values():
        schedules.update(kept)
    write("data", "schedules.safetensors.xz", schedules)
    if "--add" in sys.argv[1:]:
        return
    for name, recorded in example_models.models().items():
        write("models", name + "_float32.safetensors", recorded)


if __name__ == "__main__":
    main()
