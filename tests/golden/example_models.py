"""The models of examples/ in PyTorch, at small sizes, with their results. Each has a file with the
model's state dict, input.NAME, output.NAME and loss. Without dropout the file also has
stepped.NAME, the state after one step of SGD with LEARNING_RATE."""

import zlib

import torch
import torch.nn as nn
import torch.nn.functional as F

LEARNING_RATE = 0.1


class FashionBlock(nn.Module):
    def __init__(self, entering, channels):
        super().__init__()
        self.conv = nn.Conv2d(entering, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)


class FashionNetwork(nn.Module):
    def __init__(self, image=28, channels=(16, 32), hidden=128, classes=10):
        super().__init__()
        self.features = nn.ModuleDict({
            "block1": FashionBlock(1, channels[0]),
            "block2": FashionBlock(channels[0], channels[1]),
        })
        self.classifier = nn.ModuleDict({
            "hidden": nn.Linear(channels[1] * (image // 4) ** 2, hidden),
            "scores": nn.Linear(hidden, classes),
        })

    def forward(self, images):
        x = self.features["block2"](self.features["block1"](images)).flatten(1)
        x = F.dropout(F.relu(self.classifier["hidden"](x)), 0.25, self.training)
        return self.classifier["scores"](x)

    def loss(self, scores, classes):
        return F.cross_entropy(scores, classes)


def squash(s):
    square = (s * s).sum(-1, keepdim=True)
    return s * square.sqrt() / (1 + square)


class Routing(nn.Module):
    """Dynamic routing between capsules (Sabour, Frosst, Hinton 2017), procedure 1."""

    def __init__(self, below, entering, above, size, iterations):
        super().__init__()
        self.iterations = iterations
        self.weight = nn.Parameter(torch.randn(below, entering, above, size) * 0.05)

    def forward(self, u):  # (batch, below, entering)
        votes = torch.einsum("bip,ipjq->bijq", u, self.weight)
        agreement = torch.zeros_like(votes[..., 0])
        for iteration in range(self.iterations):
            coupling = agreement.softmax(2)
            v = squash((coupling.unsqueeze(-1) * votes).sum(1))  # (batch, above, size)
            agreement = agreement + (votes * v.unsqueeze(1)).sum(-1)
        return v


class CapsuleNetwork(nn.Module):
    def __init__(self, image=28, kernel=9, channels=32, types=8, classes=10):
        super().__init__()
        places = ((image - kernel + 1) - kernel) // 2 + 1
        self.features = nn.ModuleDict({
            "conv": nn.Conv2d(1, channels, kernel),
            "primary": nn.Conv2d(channels, types * 8, kernel, stride=2),
        })
        self.capsules = nn.ModuleDict({
            "routing": Routing(types * places * places, 8, classes, 16, 3),
        })

    def forward(self, images):
        x = self.features["primary"](F.relu(self.features["conv"](images)))
        x = x.unflatten(1, (-1, 8)).flatten(3).transpose(2, 3).flatten(1, 2)
        return self.capsules["routing"](squash(x)).norm(dim=2)

    def loss(self, lengths, classes):
        there = F.one_hot(classes, lengths.shape[1])
        absent = 0.5 * F.relu(lengths - 0.1) ** 2
        return (there * F.relu(0.9 - lengths) ** 2 + (1 - there) * absent).sum(1).mean()


class CharModel(nn.Module):
    def __init__(self, characters, embedding=32, hidden=192, layers=1):
        super().__init__()
        self.embedding = nn.Embedding(characters, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.scores = nn.Linear(hidden, characters)

    def forward(self, characters, h0, c0):  # (batch, length), (layers, batch, hidden) twice
        steps, (h_n, c_n) = self.lstm(self.embedding(characters), (h0, c0))
        return self.scores(steps), h_n, c_n

    def loss(self, scores, targets):
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


class Recommender(nn.Module):
    """DLRM (Naumov et al. 2019)."""

    def __init__(self, tables=26, rows=1000, lookups=1, dim=16, dense=13, hidden=64):
        super().__init__()
        pairs = (tables + 1) * tables // 2
        self.lookups = lookups
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(rows, dim, mode="sum", sparse=True) for _ in range(tables)
        )
        self.bottom = nn.ModuleDict({"hidden": nn.Linear(dense, hidden),
                                     "out": nn.Linear(hidden, dim)})
        self.top = nn.ModuleDict({"hidden": nn.Linear(dim + pairs, hidden),
                                  "out": nn.Linear(hidden, 1)})

    def forward(self, dense, ids):  # (batch, dense), (batch, tables lookups)
        first = F.relu(self.bottom["out"](F.relu(self.bottom["hidden"](dense))))
        rows = ids.split(self.lookups, 1)
        vectors = torch.stack([first] + [bag(part) for bag, part in zip(self.tables, rows)], 1)
        i, j = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        pairs = torch.bmm(vectors, vectors.transpose(1, 2))[:, i, j]
        return self.top["out"](F.relu(self.top["hidden"](torch.cat([first, pairs], 1))))

    def loss(self, logits, clicks):
        return F.binary_cross_entropy_with_logits(logits, clicks)


def drawn(model, scale=0.4):
    """The model with parameters and running statistics that are all different."""
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.randn(value.shape) * scale)
            if name.endswith("running_var"):
                value.abs_().add_(0.5)
    return model


def record(model, inputs, answer, steps):
    """The file of one model: answer(model, inputs) -> (outputs by name, loss)."""
    recorded = {name: value.clone() for name, value in model.state_dict().items()}
    recorded.update({"input." + name: value for name, value in inputs.items()})
    model.eval()
    outputs, loss = answer(model, inputs)
    recorded.update({"output." + name: value for name, value in outputs.items()})
    recorded["loss"] = loss
    if steps:
        loss.backward()
        torch.optim.SGD(model.parameters(), LEARNING_RATE).step()
        recorded.update({"stepped." + name: value for name, value in model.state_dict().items()})
    return recorded


def answer_images(model, inputs):
    scores = model(inputs["images"])
    return {"scores": scores}, model.loss(scores, inputs["classes"])


def answer_characters(model, inputs):
    scores, h_n, c_n = model(inputs["characters"], inputs["h0"], inputs["c0"])
    return {"scores": scores, "h_n": h_n, "c_n": c_n}, model.loss(scores, inputs["targets"])


def fashion_cnn():
    model = FashionNetwork(image=8, channels=(2, 3), hidden=5, classes=4)
    inputs = {"images": torch.randn(3, 1, 8, 8), "classes": torch.tensor([2, 0, 1])}
    return record(drawn(model), inputs, answer_images, steps=False)


def capsule():
    model = CapsuleNetwork(image=9, kernel=3, channels=3, types=2, classes=3)
    inputs = {"images": torch.randn(3, 1, 9, 9), "classes": torch.tensor([2, 0, 1])}
    return record(drawn(model), inputs, answer_images, steps=True)


def char_lm():
    model = CharModel(7, embedding=3, hidden=4, layers=2)
    inputs = {
        "characters": torch.randint(7, (3, 5)),
        "h0": torch.randn(2, 3, 4),
        "c0": torch.randn(2, 3, 4),
        "targets": torch.randint(7, (3, 5)),
    }
    return record(drawn(model), inputs, answer_characters, steps=True)


def answer_clicks(model, inputs):
    logits = model(inputs["dense"], inputs["ids"])
    return {"logits": logits}, model.loss(logits, inputs["click"])


def recommender():
    model = Recommender(tables=3, rows=5, lookups=2, dim=4, dense=3, hidden=6)
    inputs = {
        "dense": torch.randn(4, 3),
        "ids": torch.randint(5, (4, 6)),
        "click": torch.tensor([[1.0], [0.0], [0.0], [1.0]]),
    }
    return record(drawn(model), inputs, answer_clicks, steps=True)


def models():
    """Name of a file -> its contents. Each is drawn from a seed of its own."""
    files = {}
    for make in (fashion_cnn, capsule, char_lm, recommender):
        torch.manual_seed(zlib.crc32(make.__name__.encode()))
        files["example_" + make.__name__] = make()
    return files
