#!/usr/bin/python3
"""The examples' models in PyTorch, on the same data, with the same batches, optimizer and schedule
of learning rates. Run by Debian's python3 with python3-torch.

    examples.py fashion_cnn --models tests/golden/example_models.py --epochs 1
    examples.py char_lm --models ... --epochs 0 --load written_by_char_lm.safetensors

Loading reads the parameters that an example saved, by name. The last line is then the result of
PyTorch's model with them.
"""
import argparse
import gzip
import importlib.util
import json
import os
import struct
import subprocess
import sys
import time

import numpy
import torch

sys.dont_write_bytecode = True

PIXEL_MEAN, PIXEL_DEVIATION = 0.2860, 0.3530
HELD_OUT_SHARE = 0.05
CLIP_NORM = 1.0
VERSES = "gen1:1-rev22:21"
DTYPES = {"F32": torch.float32, "I64": torch.int64}


def read_tensors(path):
    """name -> tensor, of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    header_bytes, = struct.unpack_from("<Q", data)
    tensors = {}
    for name, field in json.loads(data[8:8 + header_bytes]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + header_bytes + offset for offset in field["data_offsets"])
        values = torch.frombuffer(bytearray(data[begin:end]), dtype=DTYPES[field["dtype"]])
        tensors[name] = values.view(field["shape"])
    return tensors


def read_module(path):
    """Python's module of that file, wherever it is."""
    spec = importlib.util.spec_from_file_location("example_models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Clothes:
    """Fashion-MNIST: bytes, made numbers batch by batch."""

    unit = "images"

    def __init__(self, given, model):
        self.given, self.model = given, model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=given.learning_rate)
        self.training = self.read("train", given.items)
        self.test = self.read("t10k", given.test_items)

    def read(self, part, count):
        arrays = []
        for kind, header in (("images-idx3", 16), ("labels-idx1", 8)):
            path = os.path.join(self.given.data, "%s-%s-ubyte.gz" % (part, kind))
            with gzip.open(path) as file:
                arrays.append(numpy.frombuffer(file.read(), numpy.uint8, offset=header))
        images = torch.from_numpy(arrays[0].copy()).view(-1, 1, 28, 28)
        classes = torch.from_numpy(arrays[1].copy())
        return (images[:count], classes[:count]) if count else (images, classes)

    @staticmethod
    def batch(part, rows):
        images = (part[0][rows].float() / 255 - PIXEL_MEAN) / PIXEL_DEVIATION
        return images, part[1][rows].long()

    def batches(self):
        order = torch.randperm(len(self.training[1]))
        return (self.batch(self.training, rows) for rows in order.split(self.given.batch))

    def item_count(self):
        return len(self.training[1])

    def batch_count(self):
        return -(-len(self.training[1]) // self.given.batch)

    def loss(self, taken):
        return self.model.loss(self.model(taken[0]), taken[1])

    def judge(self):
        right = 0
        with torch.inference_mode():
            for rows in torch.arange(len(self.test[1])).split(500):
                images, classes = self.batch(self.test, rows)
                right += (self.model(images).argmax(1) == classes).sum().item()
        return "accuracy %.4f on %d test images" % (right / len(self.test[1]), len(self.test[1]))


class Text:
    """Windows of a text, row by row, with the state carried on."""

    unit = "characters"

    def __init__(self, given, model_of):
        self.given = given
        verses = subprocess.run(["bible", "-f", VERSES], stdout=subprocess.PIPE, check=True).stdout
        text = b"".join(line.split(b" ", 1)[1] for line in verses.splitlines(keepends=True))
        if given.items:
            text = text[:given.items]
        data = numpy.frombuffer(text, numpy.uint8)
        characters, ids = numpy.unique(data, return_inverse=True)
        self.ids = torch.from_numpy(ids.astype(numpy.uint8))
        self.model = model_of(len(characters))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=given.learning_rate)
        self.cut = int(len(self.ids) * (1 - HELD_OUT_SHARE))
        self.state = None

    def windows(self, begin, end):
        """(batch, length + 1) windows, in an order that lets the state be carried."""
        rows, length = self.given.batch, self.given.length
        count = (end - begin - 1) // (rows * length)
        starts = begin + torch.arange(rows) * count * length
        for window in range(count):
            at = (starts + window * length).unsqueeze(1) + torch.arange(length + 1)
            yield self.ids[at].long()

    def batches(self):
        self.begin()
        return self.windows(0, self.cut)

    def item_count(self):
        return self.batch_count() * self.given.batch * self.given.length

    def batch_count(self):
        return (self.cut - 1) // (self.given.batch * self.given.length)

    def begin(self):
        shape = (self.model.lstm.num_layers, self.given.batch, self.model.lstm.hidden_size)
        self.state = (torch.zeros(shape), torch.zeros(shape))

    def loss(self, taken):
        scores, h_n, c_n = self.model(taken[:, :-1], *self.state)
        self.state = (h_n.detach(), c_n.detach())
        return self.model.loss(scores, taken[:, 1:])

    def judge(self):
        self.begin()
        with torch.inference_mode():
            losses = [self.loss(taken).item() for taken in self.windows(self.cut, len(self.ids))]
        count = len(losses) * self.given.batch * self.given.length
        bits = sum(losses) / len(losses) / numpy.log(2)
        return "bits per character %.4f on %d held-out characters" % (bits, count)


class Clicks:
    """Samples distributed as the example's own, drawn beforehand; clicks follow the dense numbers
    and the parity of two ids, so what is learned differs from what the example learns."""

    unit = "samples"
    tables, rows, dim, dense, hidden = 26, 1000, 16, 13, 64

    def __init__(self, given, model_of):
        self.given = given
        self.model = model_of(tables=self.tables, rows=self.rows, lookups=1, dim=self.dim,
                              dense=self.dense, hidden=self.hidden)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=given.learning_rate)
        self.training = self.draw(given.items or 100000)
        self.test = self.draw(given.test_items or 10000)

    def draw(self, count):
        dense = torch.randn(count, self.dense)
        ids = (self.rows * torch.rand(count, self.tables) ** 3).long().clamp_(max=self.rows - 1)
        logits = 1.5 * dense[:, 0] + 2.0 * ((ids[:, 0] + ids[:, 1]) % 2) - 2
        return dense, ids, torch.bernoulli(logits.sigmoid()).unsqueeze(1)

    def batches(self):
        for rows in torch.randperm(self.item_count()).split(self.given.batch):
            yield tuple(field[rows] for field in self.training)

    def item_count(self):
        return len(self.training[0])

    def batch_count(self):
        return -(-self.item_count() // self.given.batch)

    def loss(self, taken):
        return self.model.loss(self.model(taken[0], taken[1]), taken[2])

    def judge(self):
        with torch.inference_mode():
            loss = self.loss(self.test).item()
        return "loss %.4f on %d held-out samples" % (loss, len(self.test[0]))


def make_work(given):
    models = read_module(given.models)
    if given.example == "recommender":
        return Clicks(given, models.Recommender)
    if given.example == "char_lm":
        return Text(given, models.CharModel)
    network = models.FashionNetwork if given.example == "fashion_cnn" else models.CapsuleNetwork
    return Clothes(given, network())


def train(given, work):
    step_count = given.epochs * work.batch_count()
    step = 0
    began = time.perf_counter()
    for _ in range(given.epochs):
        for taken in work.batches():
            for group in work.optimizer.param_groups:
                group["lr"] = given.learning_rate * (1 - step / step_count)
            work.optimizer.zero_grad(set_to_none=True)
            work.loss(taken).backward()
            if given.example == "char_lm":
                torch.nn.utils.clip_grad_norm_(work.model.parameters(), CLIP_NORM)
            work.optimizer.step()
            step += 1
    seconds = time.perf_counter() - began
    count = given.epochs * work.item_count()
    if count:
        print("trained on %d %s in %.2f s: %.0f %s/s"
              % (count, work.unit, seconds, count / seconds, work.unit))


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("example", choices=["fashion_cnn", "capsule", "char_lm", "recommender"])
    parser.add_argument("--models", required=True, help="tests/golden/example_models.py")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--items", type=int, default=0,
                        help="images, characters or samples; 0: all")
    parser.add_argument("--test-items", type=int, default=0, help="images or samples; 0: all")
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", default="")
    return parser.parse_args()


def main():
    given = read_arguments()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    work = make_work(given)
    if given.load:
        tensors = read_tensors(given.load)
        work.model.load_state_dict({name: tensors[name] for name in work.model.state_dict()})
    work.model.train()
    train(given, work)
    work.model.eval()
    print(work.judge())


if __name__ == "__main__":
    main()
