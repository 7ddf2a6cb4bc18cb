#!/usr/bin/python3
"""Writes tests/golden/models/zoo_NAME.safetensors for the models beside this file, or those named.
A file has the initial state dict, input.NAME, output.NAME computed from it, and losses of STEPS
training steps. Requires PyTorch 2."""

import importlib
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "..", "tests", "golden")
sys.path[:0] = [HERE, GOLDEN]

import safetensors_file  # noqa: E402

STEPS = 20
NAMES = ["gpt2", "resnet18", "bert", "dlrm", "seq2seq", "unet", "vit", "llama", "tagger"]


def train(twin, model, asked, judged):
    optimizer = twin.optimizer(model)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model.loss(model(*asked.values()), *judged.values())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def record(twin):
    torch.manual_seed(1)
    model = twin.Model()
    asked, judged = twin.inputs()
    recorded = {name: value.clone() for name, value in model.state_dict().items()}
    for name, value in {**asked, **judged}.items():
        recorded["input." + name] = value
    with torch.no_grad():
        recorded["output"] = model.eval()(*asked.values())
    recorded["losses"] = train(twin, model.train(), asked, judged)
    return recorded


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or NAMES:
        recorded = record(importlib.import_module(name))
        path = os.path.join(GOLDEN, "models", "zoo_%s.safetensors" % name)
        safetensors_file.write(path, recorded)
        losses = recorded["losses"]
        print("%s: %d bytes, losses %.4f ... %.4f"
              % (name, os.path.getsize(path), losses[0], losses[-1]))


if __name__ == "__main__":
    main()
