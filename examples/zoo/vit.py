"""ViT (Dosovitskiy et al., "An image is worth 16x16 words", 2021), small."""

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, PATCH, WIDTH, HEADS, LAYERS, CLASSES = 16, 4, 32, 4, 2, 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.ln_2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        patches = (SIZE // PATCH) ** 2
        self.conv_proj = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.class_token = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.02)
        self.pos_embedding = nn.Parameter(torch.randn(1, 1 + patches, WIDTH) * 0.02)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        x = self.conv_proj(images).flatten(2).transpose(1, 2)
        token = self.class_token.expand_as(x[:, :1])
        x = torch.cat([token, x], 1) + self.pos_embedding
        for block in self.layers:
            x = block(x)
        return self.head(self.ln(x)[:, 0])

    def loss(self, scores, classes):
        return F.cross_entropy(scores, classes, label_smoothing=0.1)


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)


def inputs():
    images = torch.randn(4, 3, SIZE, SIZE)
    return {"images": images}, {"classes": torch.randint(CLASSES, (4,))}
