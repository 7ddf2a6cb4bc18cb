#!/usr/bin/env python3
"""PyTorch's side of bench/families on its first GPU: one JSON object of row -> microseconds, and
"limits": the bytes and float32 operations a microsecond that this GPU reaches by itself, in a copy
and in a large product without TF32.
"""
import json
import sys

import torch
from torch.nn import functional

ROUNDS = 20
DEVICE = "cuda:0"


def drawn(*shape):
    return torch.rand(*shape, device=DEVICE) * 2 - 1


def median_us(work):
    """Returns the median of the device's own time."""
    for _ in range(5):
        work()
    times = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return sorted(times)[ROUNDS // 2]


def limits():
    data = torch.empty(1 << 28, device=DEVICE)
    target = torch.empty_like(data)
    a, b = drawn(8192, 8192), drawn(8192, 8192)
    return {"bytes_per_us": 8 * data.numel() / median_us(lambda: target.copy_(data)),
            "flops_per_us": 2 * 8192 ** 3 / median_us(lambda: a @ b)}


def rows_of(family):
    if family == "elementwise":
        x, y = drawn(8192, 4096), drawn(8192, 4096)
        return {"relu": lambda: functional.relu(x), "gelu": lambda: functional.gelu(x),
                "add": lambda: x + y}
    if family == "matmul":
        x, w = drawn(4096, 4096), drawn(4096, 4096)
        return {"linear": lambda: functional.linear(x, w)}
    if family == "batched":
        x, y = drawn(64, 512, 512), drawn(64, 512, 512)
        return {"matmul": lambda: x @ y}
    if family == "convolution":
        x, w = drawn(32, 64, 56, 56), drawn(64, 64, 3, 3)
        return {"conv2d": lambda: functional.conv2d(x, w, padding=1)}
    if family == "attention":
        q, k, v = (drawn(8, 12, 512, 64) for _ in range(3))
        return {"attention": lambda: functional.scaled_dot_product_attention(q, k, v)}
    if family == "norms":
        x, images = drawn(8192, 1024), drawn(64, 64, 56, 56)
        norm = torch.nn.BatchNorm2d(64).to(DEVICE).eval()
        return {"layer_norm": lambda: functional.layer_norm(x, (1024,)),
                "batch_norm": lambda: norm(images)}
    if family == "softmax":
        x = drawn(8192, 4096)
        return {"softmax": lambda: functional.softmax(x, 1)}
    if family == "reductions":
        x = drawn(8192, 4096)
        return {"sum": lambda: x.sum(1)}
    return {}


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        taken = {name: median_us(work) for name, work in rows_of(sys.argv[1]).items()}
        print(json.dumps(dict(taken, limits=limits())))


if __name__ == "__main__":
    main()
