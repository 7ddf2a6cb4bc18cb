#!/usr/bin/python3
"""Single recurrent layers in PyTorch: "name<TAB>nanoseconds", medians.

    recurrent.py --threads 2 CELL:IN:HIDDEN:BATCH:LENGTH...

with CELL lstm, gru or rnn: the rows of bench/recurrent/main.c.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch  # noqa: E402
from models import hot_ns  # noqa: E402


def time_layer(word):
    cell, *sizes = word.split(":")
    in_size, hidden, batch, length = [int(size) for size in sizes]
    layer = getattr(torch.nn, cell.upper())(in_size, hidden)
    x = torch.rand(length, batch, in_size) * 2 - 1
    wanted = torch.rand(length, batch, hidden) * 2 - 1
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(layer(x)[0], wanted).backward()
        optimizer.step()

    with torch.inference_mode():
        print("%s forward\t%.1f" % (word, hot_ns(lambda: layer(x))), flush=True)
    print("%s step\t%.1f" % (word, hot_ns(step)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("rows", nargs="*")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    for word in given.rows:
        time_layer(word)


if __name__ == "__main__":
    main()
