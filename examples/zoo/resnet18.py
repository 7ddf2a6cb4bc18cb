"""ResNet-18 (He et al., "Deep residual learning for image recognition", 2016), narrow."""

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, CLASSES = 4, 10


def conv(entering, channels, kernel, stride):
    return nn.Conv2d(entering, channels, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, entering, channels, stride):
        super().__init__()
        self.conv1 = conv(entering, channels, 3, stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = conv(channels, channels, 3, 1)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride > 1:
            self.downsample = nn.Sequential(
                conv(entering, channels, 1, stride), nn.BatchNorm2d(channels)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.downsample:
            x = self.downsample(x)
        return F.relu(x + y)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = conv(3, WIDTH, 7, 2)
        self.bn1 = nn.BatchNorm2d(WIDTH)
        self.layer1 = nn.Sequential(Block(WIDTH, WIDTH, 1), Block(WIDTH, WIDTH, 1))
        self.layer2 = self.stage(2)
        self.layer3 = self.stage(4)
        self.layer4 = self.stage(8)
        self.fc = nn.Linear(8 * WIDTH, CLASSES)

    def stage(self, times):
        channels = times * WIDTH
        return nn.Sequential(Block(channels // 2, channels, 2), Block(channels, channels, 1))

    def forward(self, images):
        x = F.relu(self.bn1(self.conv1(images)))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.fc(x)

    def loss(self, scores, classes):
        return F.cross_entropy(scores, classes)


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9, weight_decay=1e-4)


def inputs():
    return {"images": torch.randn(6, 3, 48, 48)}, {"classes": torch.randint(CLASSES, (6,))}
