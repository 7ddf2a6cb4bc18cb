#!/usr/bin/python3
"""The rows of bench/mixed in PyTorch: "model, way<TAB>nanoseconds a run", medians.

An embedding, a copy of its rows to memory of their own (and of their gradient back), and a dense
part. Eager PyTorch does one after the other, each on --threads cores. `--two-threads` instead has
one Python thread a stage, each with --threads cores, and a queue between them, for forward runs.
"""
import argparse
import queue
import statistics
import threading
import time

import torch

ROUNDS = 5
ROUND_SECONDS = 0.1
# name: table rows, width, ids, hidden, classes, batch, recurrent, as in bench/mixed.c
MODELS = {
    "balanced": (200000, 128, 8, 32, 10, 4096, False),
    "dense": (200000, 64, 8, 512, 10, 1024, False),
    "main job": (60, 32, 9, 128, 8, 256, True),
}


class Carry(torch.autograd.Function):
    """A copy between two devices, forward and backward."""

    @staticmethod
    def forward(context, rows):
        return rows.clone()

    @staticmethod
    def backward(context, d_rows):
        return d_rows.clone()


class Wide(torch.nn.Module):
    def __init__(self, rows, width, ids, hidden, classes):
        super().__init__()
        self.embedding = torch.nn.Embedding(rows, width, sparse=True)
        self.hidden = torch.nn.Linear(ids * width, hidden)
        self.linear = torch.nn.Linear(hidden, classes)

    def look_up(self, ids):
        return Carry.apply(self.embedding(ids).flatten(1))

    def dense(self, rows):
        return self.linear(torch.relu(self.hidden(rows)))


class Recurrent(torch.nn.Module):
    def __init__(self, rows, width, _, hidden, classes):
        super().__init__()
        self.embedding = torch.nn.Embedding(rows, width)
        self.rnn = torch.nn.RNN(width, hidden)
        self.linear = torch.nn.Linear(hidden, classes)

    def look_up(self, ids):
        return Carry.apply(self.embedding(ids))

    def dense(self, rows):
        steps, _ = self.rnn(rows)
        return self.linear(steps[-1])


def median_ns(work):
    """The median over rounds of the mean time of one call; work does `count` of them."""
    work(3)
    began = time.perf_counter()
    work(8)
    count = max(8, int(ROUND_SECONDS / ((time.perf_counter() - began) / 8)))
    samples = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work(count)
        samples.append((time.perf_counter() - began) / count * 1e9)
    return statistics.median(samples)


def look_up_ahead(model, ids, threads, count, found):
    torch.set_num_threads(threads)
    with torch.inference_mode():
        for _ in range(count):
            found.put(model.look_up(ids))


def forward_in_two_threads(model, ids, threads, count):
    found = queue.Queue(maxsize=2)
    helper = threading.Thread(target=look_up_ahead, args=(model, ids, threads, count, found))
    helper.start()
    with torch.inference_mode():
        for _ in range(count):
            model.dense(found.get())
    helper.join()


def measure(name, given):
    rows, width, ids_count, hidden, classes, batch, recurrent = MODELS[name]
    model = (Recurrent if recurrent else Wide)(rows, width, ids_count, hidden, classes)
    shape = (ids_count, batch) if recurrent else (batch, ids_count)
    ids = torch.randint(rows, shape)
    targets = torch.randint(classes, (batch,))
    optimizer = (torch.optim.Adam if recurrent else torch.optim.SGD)(model.parameters(), lr=0.0001)

    def forward(count):
        with torch.inference_mode():
            for _ in range(count):
                model.dense(model.look_up(ids))

    def step(count):
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model.dense(model.look_up(ids)), targets)
            loss.backward()
            if recurrent:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()

    if given.two_threads:
        figure = median_ns(lambda count: forward_in_two_threads(model, ids, given.threads, count))
        print("%s, forward\t%.0f" % (name, figure), flush=True)
        return
    print("%s, forward\t%.0f" % (name, median_ns(forward)), flush=True)
    print("%s, step\t%.0f" % (name, median_ns(step)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", help="one of them (default: all)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--two-threads", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    for name in [given.model] if given.model else MODELS:
        measure(name, given)


if __name__ == "__main__":
    main()
