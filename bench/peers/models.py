#!/usr/bin/python3
"""The rows of bench/models in PyTorch: "name<TAB>nanoseconds", medians.

    models.py --threads 2 [ROW...]

prints every row whose name begins with one of the words given; none: all.
"""
import argparse
import itertools
import statistics
import time

import torch

ROUNDS = 41
FEWEST_ROUNDS = 5
ROUND_SECONDS = 0.005
TOTAL_SECONDS = 1.0


def time_calls(work, calls):
    began = time.perf_counter()
    for _ in range(calls):
        work()
    return time.perf_counter() - began


def hot_ns(work):
    """The median over rounds of the mean time of one call, as bench/timing.c takes it."""
    calls = 1
    while time_calls(work, calls) < ROUND_SECONDS:
        calls *= 2
    samples = []
    while len(samples) < ROUNDS and (len(samples) < FEWEST_ROUNDS or
                                     sum(samples) * calls < TOTAL_SECONDS):
        samples.append(time_calls(work, calls) / calls)
    return statistics.median(samples) * 1e9


def ids(count, step, limit, first=0):
    return torch.arange(first, first + count) * step % limit


def make_words(rows):
    model = torch.nn.Sequential(torch.nn.Embedding(1000, 10), torch.nn.Linear(10, 10))
    return model, [ids(rows, 7919, 1000)], ids(rows, 1, 10), torch.nn.functional.cross_entropy


def make_chain(rows):
    model = torch.nn.Sequential(*[torch.nn.Linear(10, 10) for _ in range(100)])
    return model, [torch.rand(rows, 10) * 2 - 1], torch.rand(rows, 10) * 2 - 1, \
        torch.nn.functional.mse_loss


class Elements(torch.nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.p = torch.nn.Parameter(torch.rand(rows, 256) * 2 - 1)

    def forward(self, x):
        gate = torch.sigmoid(self.p * x)
        y = torch.nn.functional.gelu(x) * gate + x
        return torch.nn.functional.dropout(y, 0.1, self.training)


def make_elements(rows):
    return Elements(rows), [torch.rand(rows, 256) * 2 - 1], torch.rand(rows, 256) * 2 - 1, \
        torch.nn.functional.mse_loss


def make_lenet(rows):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(6, 16, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(400, 120), torch.nn.ReLU(),
        torch.nn.Linear(120, 84), torch.nn.ReLU(), torch.nn.Linear(84, 10))
    return model, [torch.rand(rows, 1, 28, 28) * 2 - 1], ids(rows, 1, 10), \
        torch.nn.functional.cross_entropy


def convolve(channels, out, kernel, stride):
    return [torch.nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False),
            torch.nn.BatchNorm2d(out)]


class Block(torch.nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        stride = 1 if channels == out else 2
        self.main = torch.nn.Sequential(*convolve(channels, out, 3, stride), torch.nn.ReLU(),
                                        *convolve(out, out, 3, 1))
        self.beside = torch.nn.Identity() if channels == out else torch.nn.Sequential(
            *convolve(channels, out, 1, stride))

    def forward(self, x):
        return torch.relu(self.main(x) + self.beside(x))


def make_resnet(rows):
    model = torch.nn.Sequential(
        *convolve(3, 64, 7, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1),
        Block(64, 64), Block(64, 64), Block(64, 128), Block(128, 128),
        Block(128, 256), Block(256, 256),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(256, 10))
    return model, [torch.rand(rows, 3, 64, 64) * 2 - 1], ids(rows, 1, 10), \
        torch.nn.functional.cross_entropy


class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(256, 512)

    def forward(self, x):
        return self.lstm(x)[0]


def make_lstm(rows):
    return Lstm(), [torch.rand(128, rows, 256) * 2 - 1], torch.rand(128, rows, 512) * 2 - 1, \
        torch.nn.functional.mse_loss


def bag_batches(rows):
    """Other bags in each of 16 runs: the table's rows would else stay in the caches."""
    return [ids(rows * 26, 2654435761, 1000000, i * rows * 26).view(rows, 26) for i in range(16)]


def make_bag(rows):
    model = torch.nn.EmbeddingBag(1000000, 64, mode="sum", sparse=True)
    return model, bag_batches(rows), torch.rand(rows, 64) * 2 - 1, torch.nn.functional.mse_loss


def make_recommender(rows):
    model = torch.nn.Sequential(
        torch.nn.EmbeddingBag(1000000, 64, mode="sum", sparse=True),
        torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, 1))
    return model, bag_batches(rows), torch.rand(rows, 1) * 2 - 1, torch.nn.functional.mse_loss


ROWS = [
    ("words 30", make_words, 30),
    ("words 65536", make_words, 65536),
    ("chain of 100", make_chain, 30),
    ("elements 32", make_elements, 32),
    ("elements 2048", make_elements, 2048),
    ("elements 65536", make_elements, 65536),
    ("lenet 64", make_lenet, 64),
    ("resnet 16", make_resnet, 16),
    ("lstm 64", make_lstm, 64),
    ("bag 2048", make_bag, 2048),
    ("recommender 2048", make_recommender, 2048),
]


def time_row(name, make, rows, wanted):
    names = [name + " forward", name + " step"]
    forward_only = make is make_bag
    if not any(wanted(each) for each in names):
        return
    model, batches, target, loss = make(rows)
    inputs = itertools.cycle(batches)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss(model(next(inputs)), target).backward()
        optimizer.step()

    if wanted(names[0]):
        model.eval()
        with torch.inference_mode():
            print("%s\t%.1f" % (names[0], hot_ns(lambda: model(next(inputs)))), flush=True)
        model.train()
    if not forward_only and wanted(names[1]):
        model.train()
        print("%s\t%.1f" % (names[1], hot_ns(step)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("rows", nargs="*")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)

    def wanted(name):
        return not given.rows or any(name.startswith(word) for word in given.rows)

    for name, make, rows in ROWS:
        time_row(name, make, rows, wanted)


if __name__ == "__main__":
    main()
