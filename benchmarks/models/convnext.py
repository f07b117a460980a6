"""ConvNeXt: depthwise convolutions of 7 by 7, and layer norms with channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from benchmarks.models import Model


class ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of images."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Normalise."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    """A depthwise convolution, and a perceptron of each pixel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.narrow(nn.functional.gelu(self.wide(y)))
        return x + y.permute(0, 3, 1, 2)


def network(widths: Sequence[int], counts: Sequence[int], classes: int) -> nn.Module:
    """Build the network of stages of blocks."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for i, (width, count) in enumerate(zip(widths, counts)):
        if i:
            layers += [ChannelNorm(widths[i - 1]), nn.Conv2d(widths[i - 1], width, 2, 2)]
        layers += [Block(width) for _ in range(count)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(widths[-1])]
    return nn.Sequential(*layers, *head, nn.Linear(widths[-1], classes))


def small() -> Mapping[str, Model]:
    """Build a network of two blocks."""
    return {"convnext_t": Model(network((8, 16), (1, 1), 10), (torch.randn(1, 3, 32, 32),))}


def full() -> Mapping[str, Model]:
    """Build ConvNeXt-T."""
    model = network((96, 192, 384, 768), (3, 3, 9, 3), 1000)
    return {"convnext_t": Model(model, (torch.randn(1, 3, 224, 224),))}
