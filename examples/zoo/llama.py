"""A Llama (Touvron et al., "Llama 2", 2023): RMSNorm, rotary embedding, SwiGLU and grouped-query
attention, small."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY, LENGTH, WIDTH, HEADS, KV_HEADS, HIDDEN, LAYERS = 40, 10, 32, 4, 2, 64, 2
DIM = WIDTH // HEADS


def rotate(x, angles):  # (batch, length, heads, dim), (length, 1, dim)
    first, second = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj = nn.Linear(WIDTH, KV_HEADS * DIM, bias=False)
        self.v_proj = nn.Linear(WIDTH, KV_HEADS * DIM, bias=False)
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, angles):
        q = rotate(self.q_proj(x).unflatten(-1, (HEADS, DIM)), angles)
        k = rotate(self.k_proj(x).unflatten(-1, (KV_HEADS, DIM)), angles)
        v = self.v_proj(x).unflatten(-1, (KV_HEADS, DIM))
        k, v = (kept.repeat_interleave(HEADS // KV_HEADS, 2) for kept in (k, v))
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up_proj = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down_proj = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.self_attn = Attention()
        self.post_attention_layernorm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.mlp = MLP()

    def forward(self, x, angles):
        x = x + self.self_attn(self.input_layernorm(x), angles)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        places = torch.arange(ids.shape[1]).float()
        speeds = (torch.arange(0, DIM, 2) * (-math.log(10000) / DIM)).exp().repeat(2)
        angles = places[:, None, None] * speeds
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, angles)
        return self.lm_head(self.norm(x))

    def loss(self, scores, targets):
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def inputs():
    text = torch.randint(VOCABULARY, (4, LENGTH + 1))
    return {"ids": text[:, :-1]}, {"targets": text[:, 1:]}
