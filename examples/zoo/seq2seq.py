"""A recurrent encoder and a decoder with attention (Bahdanau, Cho, Bengio, "Neural machine
translation by jointly learning to align and translate", 2015), small."""

import torch
import torch.nn as nn
import torch.nn.functional as F

LENGTH, WRITTEN, WORDS, WIDTH = 7, 6, 30, 24


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wa = nn.Linear(WIDTH, WIDTH)
        self.Ua = nn.Linear(2 * WIDTH, WIDTH)
        self.Va = nn.Linear(WIDTH, 1)

    def forward(self, state, keys):  # (batch, width), (batch, length, 2 width)
        scores = self.Va(torch.tanh(self.Wa(state).unsqueeze(1) + self.Ua(keys)))
        return (scores.softmax(1) * keys).sum(1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.attention = Attention()
        self.gru = nn.GRU(3 * WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, words, state, keys):
        x = torch.cat([self.embedding(words), self.attention(state, keys)], 1)
        _, state = self.gru(x.unsqueeze(0), state.unsqueeze(0))
        return self.out(state[0]), state[0]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(WIDTH, WIDTH)
        self.decoder = Decoder()

    def forward(self, read, written):  # (batch, length), (batch, written)
        keys, states = self.encoder(self.embedding(read))
        state = torch.tanh(self.bridge(states[1]))
        scores = []
        for step in range(WRITTEN):
            score, state = self.decoder(written[:, step], state, keys)
            scores.append(score)
        return torch.stack(scores, 2)

    def loss(self, scores, targets):
        return F.cross_entropy(scores, targets)


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=3e-3)


def inputs():
    text = torch.randint(WORDS, (5, WRITTEN + 1))
    asked = {"read": torch.randint(WORDS, (5, LENGTH)), "written": text[:, :-1]}
    return asked, {"targets": text[:, 1:]}
