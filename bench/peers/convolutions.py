#!/usr/bin/python3
"""Convolutions and their gradients in PyTorch, as bench/convolutions has them:
"NAME pass<TAB>PyTorch VERSION<TAB>nanoseconds", the fastest of some rounds.

    convolutions.py --threads 2 NAME=SIZES...
"""
import argparse
import time

import torch

ROUNDS_SECONDS = 0.4
CALL_SECONDS = 1e-3
MOST_ROUNDS = 25
FEWEST_ROUNDS = 4


def sample(work, calls):
    began = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - began) / calls


def best_ns(work):
    work()
    first = sample(work, 1)
    calls = max(1, int(CALL_SECONDS / first))
    samples = []
    while len(samples) < FEWEST_ROUNDS or (len(samples) < MOST_ROUNDS and
                                           sum(samples) * calls < ROUNDS_SECONDS):
        samples.append(sample(work, calls))
    return min(samples) * 1e9


def time_row(name, sizes, passes):
    images, groups, channels, out, height, width, *rest = sizes
    kernel, stride, padding = rest[0:2], rest[2:4], rest[4:6]
    x = torch.rand(images, channels, height, width) * 2 - 1
    weight = torch.rand(out, channels // groups, *kernel) * 2 - 1
    bias = torch.rand(out)
    y = torch.nn.functional.conv2d(x, weight, bias, stride, padding, 1, groups)
    d_y = torch.rand_like(y)

    def backward(mask):
        return torch.ops.aten.convolution_backward(
            d_y, x, weight, [out], stride, padding, [1, 1], False, [0, 0], groups, mask)

    works = {
        "forward": lambda: torch.nn.functional.conv2d(x, weight, bias, stride, padding, 1, groups),
        "input": lambda: backward([True, False, False]),
        "weight": lambda: backward([False, True, True]),
    }
    version = "PyTorch " + torch.__version__.split("+")[0]
    for each in passes.split(","):
        with torch.inference_mode():
            print("%s %s\t%s\t%.1f" % (name, each, version, best_ns(works[each])), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--passes", default="forward,input,weight")
    parser.add_argument("rows", nargs="*")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for row in given.rows:
        name, sizes = row.split("=")
        time_row(name, [int(word) for word in sizes.split(",")], given.passes)


if __name__ == "__main__":
    main()
