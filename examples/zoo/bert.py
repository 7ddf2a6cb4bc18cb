"""BERT (Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019) that
classifies pairs of sentences, small."""

import torch
import torch.nn as nn
import torch.nn.functional as F

LENGTH, VOCABULARY, WIDTH, HEADS, LAYERS, CLASSES = 10, 40, 32, 4, 2, 3


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, hidden):
        q, k, v = (
            layer(x).unflatten(2, (HEADS, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        seen = ~hidden[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return y.transpose(1, 2).flatten(2)


class Output(nn.Module):
    def __init__(self, entering):
        super().__init__()
        self.dense = nn.Linear(entering, WIDTH)
        self.LayerNorm = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, y, x):
        return self.LayerNorm(self.dense(y) + x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.ModuleDict({"self": SelfAttention(), "output": Output(WIDTH)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(WIDTH, 4 * WIDTH)})
        self.output = Output(4 * WIDTH)

    def forward(self, x, hidden):
        x = self.attention["output"](self.attention["self"](x, hidden), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.position_embeddings = nn.Embedding(LENGTH, WIDTH)
        self.token_type_embeddings = nn.Embedding(2, WIDTH)
        self.LayerNorm = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, ids, types):
        places = torch.arange(ids.shape[1])
        x = self.word_embeddings(ids) + self.token_type_embeddings(types)
        return self.LayerNorm(x + self.position_embeddings(places))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer() for _ in range(LAYERS))})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(WIDTH, WIDTH)})
        self.classifier = nn.Linear(WIDTH, CLASSES)

    def forward(self, ids, types):
        x = self.embeddings(ids, types)
        for layer in self.encoder["layer"]:
            x = layer(x, ids == 0)
        return self.classifier(torch.tanh(self.pooler["dense"](x[:, 0])))

    def loss(self, scores, classes):
        return F.cross_entropy(scores, classes)


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=5e-4)


def inputs():
    ids = torch.randint(1, VOCABULARY, (4, LENGTH))
    ids[1, 7:] = 0
    ids[3, 5:] = 0
    types = (torch.arange(LENGTH) > 4).long().expand(4, LENGTH)
    return {"ids": ids, "types": types}, {"classes": torch.tensor([0, 2, 1, 2])}
