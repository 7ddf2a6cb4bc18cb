"""DLRM (Naumov et al., "Deep learning recommendation model", 2019), small."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TABLES, ROWS, LOOKUPS, DIM, DENSE = 4, 50, 3, 8, 13


def perceptron(*widths):
    layers = []
    for entering, leaving in zip(widths, widths[1:]):
        layers += [nn.Linear(entering, leaving), nn.ReLU()]
    return nn.Sequential(*layers)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        pairs = (TABLES + 1) * TABLES // 2
        self.bot_l = perceptron(DENSE, 32, 16, DIM)
        self.emb_l = nn.ModuleList(
            nn.EmbeddingBag(ROWS, DIM, mode="sum", sparse=True) for _ in range(TABLES)
        )
        self.top_l = perceptron(DIM + pairs, 32, 16)
        self.click = nn.Linear(16, 1)

    def interact(self, first, bags):
        vectors = torch.stack([first] + bags, 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        rows, columns = torch.tril_indices(TABLES + 1, TABLES + 1, -1)
        return torch.cat([first, products[:, rows, columns]], 1)

    def forward(self, dense, ids):
        first = self.bot_l(dense)
        bags = [table(ids[:, i]) for i, table in enumerate(self.emb_l)]
        return self.click(self.top_l(self.interact(first, bags))).squeeze(1)

    def loss(self, scores, clicks):
        return F.binary_cross_entropy_with_logits(scores, clicks)


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def inputs():
    asked = {"dense": torch.rand(16, DENSE), "ids": torch.randint(ROWS, (16, TABLES, LOOKUPS))}
    return asked, {"clicks": torch.randint(2, (16,)).float()}
