#!/usr/bin/python3
"""Writes the golden data of layers and training beside this file, from Debian's python3-torch.

Every case draws from a seed of its own, in float64, so files change only where a case does."""

import os

import torch

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

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def write(family, dtype_name, recorded):
    folder = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(folder, "%s_%s.safetensors" % (family, dtype_name))
    safetensors_file.write(path, recorded)
    print("%s: %d tensors, %d bytes" % (path, len(recorded), os.path.getsize(path)))


def main():
    torch.set_num_threads(1)
    for dtype_name, dtype in DTYPES.items():
        layer_families = {
            "layers": layer_cases.layer_cases(),
            "loss": loss_cases.loss_cases(),
            "moves": moves_cases.moves_cases(),
            "pointwise": pointwise_cases.pointwise_cases(),
            "tables": table_cases.table_cases(),
            "vision": vision_cases.vision_cases(),
            "recurrent": recurrent_cases.recurrent_cases(),
        }
        for family, cases in layer_families.items():
            recorded = {}
            for name, (build, options) in cases.items():
                case = recorder.Case(name, dtype)
                build(case, **options)
                recorded.update(case.finish())
            write(family, dtype_name, recorded)
        training = {}
        for name, (build, options) in training_cases.training_cases().items():
            case = recorder.Case(name, dtype)
            build(case, **options)
            training.update(case.recorded)
        write("training", dtype_name, training)
    write("schedules", "float64", schedule_cases.schedule_cases())
    for name, recorded in example_models.models().items():
        write(name, "float32", recorded)


if __name__ == "__main__":
    main()
