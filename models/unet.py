"""A plain U-Net for segmentation, from which models/unet.pt is made."""

import torch
from torch import nn


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """(N, 3, H, W) to logits (N, classes, H, W); H and W are multiples of 16."""

    def __init__(self, width=64, classes=2):
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(block(i, o) for i, o in zip([3, *widths], widths))
        self.bottom = block(8 * width, 16 * width)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths))
        self.merge = nn.ModuleList(block(2 * w, w) for w in reversed(widths))
        self.head = nn.Conv2d(width, classes, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
            x = self.pool(x)
        x = self.bottom(x)
        for i, (up, merge) in enumerate(zip(self.up, self.merge)):
            x = merge(torch.cat([kept[len(kept) - 1 - i], up(x)], 1))
        return self.head(x)
