#!/usr/bin/python3
"""The models of bench/distributed in PyTorch's DistributedDataParallel on gloo: rank 0 prints the
same rows, "name<TAB>number".

    distributed.py MODEL --rank 0 --ranks 2 --master 127.0.0.1:29500 [--steps 50]

--ranks 1 trains one process' part of the rows without DistributedDataParallel.
"""
import argparse
import datetime
import os
import signal
import statistics
import sys
import time

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

CHARACTERS, CHARACTER_SIZE, RNN_SIZE, LANGUAGES, WORD_LENGTH = 96, 32, 128, 7, 8
WIDTH, LAYERS, CLASSES = 512, 8, 10


def ids(count, end):
    return torch.arange(count) * 7919 % end


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(CHARACTERS, CHARACTER_SIZE)
        self.rnn = torch.nn.RNN(CHARACTER_SIZE, RNN_SIZE)
        self.linear = torch.nn.Linear(RNN_SIZE, LANGUAGES)

    def forward(self, characters):  # (length, batch)
        return self.linear(self.rnn(self.embedding(characters))[0][-1])


def make_main(rows):
    words = ids(WORD_LENGTH * rows, CHARACTERS).view(WORD_LENGTH, rows)
    model = Words()
    return model, words, ids(rows, LANGUAGES), torch.optim.Adam(model.parameters(), lr=1e-3), 1.0


def make_cnn(rows):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(6, 16, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(400, 120), torch.nn.ReLU(),
        torch.nn.Linear(120, 84), torch.nn.ReLU(), torch.nn.Linear(84, CLASSES))
    images = torch.rand(rows, 1, 28, 28) * 2 - 1
    return model, images, ids(rows, CLASSES), torch.optim.SGD(model.parameters(), lr=0.01), None


def make_balanced(rows):
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, CLASSES))
    x = torch.rand(rows, WIDTH) * 2 - 1
    return model, x, ids(rows, CLASSES), torch.optim.SGD(model.parameters(), lr=0.01), None


# name: (how it is made, rows of all ranks together)
MODELS = {"main": (make_main, 256), "cnn": (make_cnn, 256), "balanced": (make_balanced, 1024)}


class Trainer:
    def __init__(self, given):
        make, rows = MODELS[given.model]
        rows = (given.rows or rows) // given.of
        self.model, self.x, self.y, self.optimizer, self.clip = make(rows)
        if given.ranks > 1:
            self.model = DistributedDataParallel(self.model)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss.item()


def interface_bytes():
    """Returns the bytes sent by the interfaces of this namespace, except loopback."""
    with open("/proc/self/net/dev", encoding="ascii") as handle:
        rows = [line.split(":") for line in handle if ":" in line]
    return sum(int(numbers.split()[8]) for name, numbers in rows if name.strip() != "lo")


def show(name, value):
    print("%s\t%s" % (name, value), flush=True)


def time_steps(trainer, given):
    for _ in range(given.warm):
        trainer.step()
    before = interface_bytes()
    samples = []
    for _ in range(given.steps):
        began = time.perf_counter_ns()
        trainer.step()
        samples.append(time.perf_counter_ns() - began)
    if given.rank == 0:
        show("sent", (interface_bytes() - before) / given.steps)
        show("step_ns", statistics.median(samples))


def end_oneself(how, path):
    """Notes when, and is killed or stopped; what is stopped is ended later."""
    mine = os.getpid()
    if how == "stopped" and os.fork() == 0:
        time.sleep(60)
        os.kill(mine, signal.SIGKILL)
        os._exit(0)
    with open(path, "w", encoding="ascii") as handle:
        handle.write("%.3f\n" % (time.time() * 1e3))
    os.kill(mine, signal.SIGKILL if how == "killed" else signal.SIGSTOP)


def lose(trainer, given):
    how, path = given.lose
    if given.rank == 1:
        end_oneself(how, path)
    try:
        while True:
            trainer.step()
    except RuntimeError as failure:
        told = time.time() * 1e3
        with open(path, encoding="ascii") as handle:
            show("told_ms", "%.1f" % (told - float(handle.read())))
        show("why", str(failure).splitlines()[0])
    sys.stdout.flush()
    os._exit(0)  # the group cannot be left


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--of", type=int, default=0, help="whose share of the rows; 0: --ranks")
    parser.add_argument("--master", default="127.0.0.1:29500")
    parser.add_argument("--rows", type=int, default=0, help="of all ranks together")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=20, help="of gloo, in seconds")
    parser.add_argument("--lose", nargs=2, metavar=("HOW", "FILE"))
    given = parser.parse_args()
    given.of = given.of or given.ranks
    return given


def main():
    given = read_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(5)
    if given.ranks > 1:
        torch.distributed.init_process_group(
            "gloo", init_method="tcp://" + given.master, rank=given.rank, world_size=given.ranks,
            timeout=datetime.timedelta(seconds=given.timeout))
    trainer = Trainer(given)
    time_steps(trainer, given)
    if given.lose:
        lose(trainer, given)
    if given.ranks > 1:
        torch.distributed.barrier()  # or gloo may end a process whose peer has left first
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
