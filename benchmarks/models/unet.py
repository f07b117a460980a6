"""U-Net: an encoder and a decoder of images, with concatenated shortcuts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import nn

from benchmarks.models import Model


def double(inputs: int, outputs: int) -> nn.Sequential:
    """Build two convolutions with normalisation and ReLU."""
    layers: list[nn.Module] = []
    for own in (inputs, outputs):
        layers += [nn.Conv2d(own, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """The network."""

    def __init__(self, width: int, depth: int, classes: int) -> None:
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.down = nn.ModuleList([double(a, b) for a, b in zip([3, *widths], widths)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths)])
        self.merge = nn.ModuleList([double(2 * a, a) for a in widths[:-1]])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Score each pixel."""
        seen: list[torch.Tensor] = []
        for i, layer in enumerate(self.down):
            x = layer(nn.functional.max_pool2d(x, 2) if i else x)
            seen.append(x)
        for i in reversed(range(len(self.up))):
            x = self.merge[i](torch.cat([seen[i], self.up[i](x)], 1))
        return self.head(x)


def small() -> Mapping[str, Model]:
    """Build a network of two sizes."""
    return {"unet": Model(UNet(4, 2, 2), (torch.randn(1, 3, 16, 16),))}


def full() -> Mapping[str, Model]:
    """Build a network of five sizes."""
    return {"unet": Model(UNet(32, 4, 2), (torch.randn(1, 3, 256, 256),))}
