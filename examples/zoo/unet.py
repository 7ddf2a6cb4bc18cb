"""U-Net (Ronneberger, Fischer, Brox, "U-Net: convolutional networks for biomedical image
segmentation", 2015), small and padded, with batch normalization."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CHANNELS, CLASSES, SIZE = 6, 3, 16


class DoubleConv(nn.Module):
    def __init__(self, entering, channels):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(entering, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.conv = DoubleConv(2 * channels, channels)

    def forward(self, x, skipped):
        return self.conv(torch.cat([skipped, self.up(x)], 1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc = DoubleConv(1, CHANNELS)
        self.down1 = DoubleConv(CHANNELS, 2 * CHANNELS)
        self.down2 = DoubleConv(2 * CHANNELS, 4 * CHANNELS)
        self.up1 = Up(2 * CHANNELS)
        self.up2 = Up(CHANNELS)
        self.outc = nn.Conv2d(CHANNELS, CLASSES, 1)

    def forward(self, images):
        x1 = self.inc(images)
        x2 = self.down1(F.max_pool2d(x1, 2))
        x = self.down2(F.max_pool2d(x2, 2))
        x = self.up2(self.up1(x, x2), x1)
        return self.outc(x)

    def loss(self, scores, classes):
        return F.cross_entropy(scores, classes)


def optimizer(model):
    return torch.optim.RMSprop(model.parameters(), lr=1e-3, eps=1e-3, momentum=0.9)


def inputs():
    images = torch.randn(2, 1, SIZE, SIZE)
    return {"images": images}, {"classes": torch.randint(CLASSES, (2, SIZE, SIZE))}
