#!/usr/bin/python3
"""The rows of bench/overhead in PyTorch, one thread: "name<TAB>nanoseconds", medians."""
import statistics
import time

import torch

ROWS = 30
ROUNDS = 21
ROUND_SECONDS = 0.01


def hot_ns(work):
    """The median over rounds of the mean time of one call."""
    calls = 1
    while True:
        began = time.perf_counter()
        for _ in range(calls):
            work()
        if time.perf_counter() - began >= ROUND_SECONDS:
            break
        calls *= 2
    samples = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(calls):
            work()
        samples.append((time.perf_counter() - began) / calls * 1e9)
    return statistics.median(samples)


def print_row(name, work):
    print("%s\t%.1f" % (name, hot_ns(work)), flush=True)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    ids = torch.arange(ROWS) * 31 % 1000
    classes = torch.arange(ROWS) % 10
    model = torch.nn.Sequential(torch.nn.Embedding(1000, 10), torch.nn.Linear(10, 10))
    chain = torch.nn.Sequential(*[torch.nn.Linear(10, 10) for _ in range(100)])
    rows = torch.rand(ROWS, 10) * 2 - 1
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(ids), classes).backward()
        optimizer.step()

    with torch.inference_mode():
        print_row("forward", lambda: model(ids))
        print_row("chain of 100", lambda: chain(rows))
    print_row("training step", step)


if __name__ == "__main__":
    main()
