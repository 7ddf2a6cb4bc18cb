#!/usr/bin/python3
"""The rows of bench/models in PyTorch: "name<TAB>nanoseconds", medians.

    models.py --threads 2 [--device cuda:0] [ROW...]

prints every row whose name begins with one of the words given; none: all, but those for GPUs on a
GPU only. On a GPU inputs are uploaded from pinned memory in every call, products are not those of
TF32, and rows are printed twice: as they are, and "NAME, graph", replayed as a CUDA graph where it
can be one.
"""
import argparse
import itertools
import statistics
import time

import torch

DEVICE = torch.device("cpu")  # main() sets it
ROUNDS = 41
FEWEST_ROUNDS = 5
ROUND_SECONDS = 0.005
TOTAL_SECONDS = 1.0


def time_calls(work, calls):
    began = time.perf_counter()
    for _ in range(calls):
        work()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
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


def attend(q, k, v):
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v


class Block512(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(512), torch.nn.LayerNorm(512)
        self.query, self.key, self.value, self.out = (torch.nn.Linear(512, 512) for _ in range(4))
        self.up, self.down = torch.nn.Linear(512, 2048), torch.nn.Linear(2048, 512)

    def forward(self, x):
        normed = self.norm1(x)
        q, k, v = (each(normed).unflatten(2, (8, 64)).transpose(1, 2)
                   for each in (self.query, self.key, self.value))
        seen = attend(q, k, v)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(1000, 512), torch.nn.Embedding(256, 512)
        self.blocks = torch.nn.Sequential(*[Block512() for _ in range(4)])
        self.norm, self.scores = torch.nn.LayerNorm(512), torch.nn.Linear(512, 1000)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.scores(self.norm(self.blocks(self.tokens(tokens) + self.positions(places))))


def make_gpt(rows):
    def loss(scores, following):
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())

    count = rows * 256
    return Gpt(), [ids(count, 7919, 1000).view(rows, 256)], \
        ids(count, 7919, 1000, 1).view(rows, 256), loss


ROWS = [
    ("words 30", make_words, 30),
    ("words 65536", make_words, 65536),
    ("chain of 100", make_chain, 30),
    ("elements 32", make_elements, 32),
    ("elements 2048", make_elements, 2048),
    ("elements 65536", make_elements, 65536),
    ("lenet 64", make_lenet, 64),
    ("lenet 4096", make_lenet, 4096),
    ("resnet 16", make_resnet, 16),
    ("resnet 256", make_resnet, 256),
    ("lstm 64", make_lstm, 64),
    ("bag 2048", make_bag, 2048),
    ("recommender 2048", make_recommender, 2048),
    ("gpt 2", make_gpt, 2),
    ("gpt 64", make_gpt, 64),
]
FOR_GPUS = ["lenet 4096", "resnet 256", "gpt 64"]


def graphed(work):
    """A call that replays what work() does on the GPU, or None if it can not be a graph."""
    try:
        beside = torch.cuda.Stream()
        with torch.cuda.stream(beside):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph.replay
    except RuntimeError:
        torch.cuda.synchronize()
        return None


def print_row(name, work, batches, targets):
    """work(x, wanted) is timed; on a GPU with its inputs' upload, and as a graph beside."""
    turns = itertools.cycle(batches)
    if DEVICE.type != "cuda":
        print("%s\t%.1f" % (name, hot_ns(lambda: work(next(turns), targets))), flush=True)
        return
    turns = itertools.cycle([batch.pin_memory() for batch in batches])
    wanted = targets.pin_memory()

    def upload_and_work():
        work(next(turns).to(DEVICE, non_blocking=True), wanted.to(DEVICE, non_blocking=True))

    print("%s\t%.1f" % (name, hot_ns(upload_and_work)), flush=True)
    x, there = batches[0].to(DEVICE), targets.to(DEVICE)
    replay = graphed(lambda: work(x, there))
    if not replay:
        return

    def upload_and_replay():
        x.copy_(next(turns), non_blocking=True)
        there.copy_(wanted, non_blocking=True)
        replay()

    print("%s, graph\t%.1f" % (name, hot_ns(upload_and_replay)), flush=True)


def time_row(name, make, rows, wanted):
    names = [name + " forward", name + " step"]
    forward_only = make is make_bag
    if not any(wanted(each) for each in names):
        return
    model, batches, target, loss = make(rows)
    model.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x, target):
        optimizer.zero_grad(set_to_none=True)
        loss(model(x), target).backward()
        optimizer.step()

    if wanted(names[0]):
        model.eval()
        with torch.inference_mode():
            print_row(names[0], lambda x, _: model(x), batches, target[:0])
        model.train()
    if not forward_only and wanted(names[1]):
        model.train()
        print_row(names[1], step, batches, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("rows", nargs="*")
    given = parser.parse_args()
    global DEVICE  # pylint: disable=global-statement
    DEVICE = torch.device(given.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)

    def wanted(name):
        return not given.rows or any(name.startswith(word) for word in given.rows)

    for name, make, rows in ROWS:
        if name in FOR_GPUS and DEVICE.type == "cpu" and not given.rows:
            continue
        time_row(name, make, rows, wanted)


if __name__ == "__main__":
    main()
