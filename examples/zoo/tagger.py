"""A tagger of words: a bidirectional LSTM of two layers over sentences of different lengths."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

WORDS, LENGTH, EMBEDDING, HIDDEN, TAGS, NONE = 50, 8, 16, 16, 7, -1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, EMBEDDING, padding_idx=0)
        self.lstm = nn.LSTM(
            EMBEDDING, HIDDEN, num_layers=2, batch_first=True, bidirectional=True
        )
        self.hidden2tag = nn.Linear(2 * HIDDEN, TAGS)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(
            self.embedding(words), lengths, batch_first=True, enforce_sorted=False
        )
        packed, _ = self.lstm(packed)
        steps, _ = pad_packed_sequence(packed, batch_first=True, total_length=words.shape[1])
        return self.hidden2tag(steps)

    def loss(self, scores, tags):
        return F.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=NONE)


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


def inputs():
    lengths = torch.tensor([8, 3, 5, 1])
    beyond = torch.arange(LENGTH) >= lengths[:, None]
    words = torch.randint(1, WORDS, (4, LENGTH)).masked_fill(beyond, 0)
    tags = torch.randint(TAGS, (4, LENGTH)).masked_fill(beyond, NONE)
    return {"words": words, "lengths": lengths}, {"tags": tags}
