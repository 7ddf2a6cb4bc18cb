#!/usr/bin/python3
"""The main job in PyTorch: the same words, split, model, optimizer and batches as
examples/distributed_model. Run by Debian's python3 with python3-torch.

    distributed_model --seed 1 --dump-data words.safetensors
    main_job.py words.safetensors --seed 1

Batches are made before the clock starts, so only training is timed.
"""
import argparse
import json
import struct
import time

import torch

EMBEDDING_SIZE = 32
HIDDEN_SIZE = 128
CLIP_NORM = 1.0
EVALUATION_BATCH = 1024


def read_tensors(path):
    """name -> int64 tensor, of a safetensors file; other dtypes are left out."""
    with open(path, "rb") as handle:
        data = handle.read()
    header_bytes, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + header_bytes])
    tensors = {}
    for name, field in header.items():
        if field.get("dtype") != "I64":
            continue
        begin, end = field["data_offsets"]
        values = torch.frombuffer(bytearray(data[8 + header_bytes + begin:8 + header_bytes + end]),
                                  dtype=torch.int64)
        tensors[name] = values.view(field["shape"])
    return tensors


class Model(torch.nn.Module):
    def __init__(self, character_count, class_count, accelerator):
        super().__init__()
        self.accelerator = accelerator
        self.embedding = torch.nn.Embedding(character_count, EMBEDDING_SIZE)
        self.rnn = torch.nn.RNN(EMBEDDING_SIZE, HIDDEN_SIZE).to(accelerator)
        self.linear = torch.nn.Linear(HIDDEN_SIZE, class_count).to(accelerator)

    def forward(self, characters):  # (length, batch)
        steps, _ = self.rnn(self.embedding(characters).to(self.accelerator))
        return self.linear(steps[-1])


def make_batches(tensors, training, batch_size, generator):
    """Batches of words of one length, in random order: [(characters (length, rows), classes)]."""
    part = (tensors["split"] == (1 if training else 0)).nonzero().flatten()
    lengths = tensors["lengths"][part]
    batches = []
    for length in lengths.unique().tolist():
        words = part[lengths == length]
        words = words[torch.randperm(len(words), generator=generator)]
        for rows in words.split(batch_size):
            batches.append((tensors["characters"][rows, :length].t().contiguous(),
                            tensors["classes"][rows]))
    order = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[i] for i in order]


def evaluate(model, batches):
    correct = total = 0
    with torch.inference_mode():
        for characters, classes in batches:
            correct += (model(characters).argmax(1).cpu() == classes).sum().item()
            total += len(classes)
    return correct / total, total


def train_epoch(model, optimizer, batches, step, step_count, learning_rate):
    loss_sum = words = 0
    for characters, classes in batches:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (1 - step / step_count)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(characters),
                                                 classes.to(model.accelerator))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        step += 1
        loss_sum += loss.item() * len(classes)
        words += len(classes)
    return step, loss_sum / words, words


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.004)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--accelerator", default="cpu", metavar="DEVICE",
                        help="where all but the embedding is, as cuda:0")
    return parser.parse_args()


def main():
    given = read_arguments()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    generator = torch.Generator().manual_seed(given.seed)
    tensors = read_tensors(given.data)
    model = Model(int(tensors["characters"].max()) + 1, int(tensors["classes"].max()) + 1,
                  torch.device(given.accelerator))
    optimizer = torch.optim.Adam(model.parameters(), lr=given.learning_rate)
    held_out = make_batches(tensors, False, EVALUATION_BATCH, generator)
    step = trained = 0
    seconds = 0.0
    for epoch in range(given.epochs):
        batches = make_batches(tensors, True, given.batch, generator)
        began = time.perf_counter()
        step, loss, words = train_epoch(model, optimizer, batches, step,
                                        given.epochs * len(batches), given.learning_rate)
        took = time.perf_counter() - began
        seconds += took
        trained += words
        accuracy, total = evaluate(model, held_out)
        print("epoch %d/%d  loss %.4f  held-out accuracy %.4f  %.0f words/s"
              % (epoch + 1, given.epochs, loss, accuracy, words / took), flush=True)
    print("trained on %d words in %.2f s: %.0f words/s" % (trained, seconds, trained / seconds))
    print("accuracy %.4f on %d held-out words" % (accuracy, total))


if __name__ == "__main__":
    main()
