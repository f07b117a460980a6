"""EfficientNet: inverted residuals with squeeze and excitation, and SiLU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from benchmarks.models import Model
from benchmarks.models.mobilenet import Squeeze, conv_norm


class Block(nn.Module):
    """An inverted residual whose channels are scaled by a squeeze."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        wide = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [conv_norm(inputs, wide, 1), nn.SiLU()]
        layers += [conv_norm(wide, wide, kernel, stride, wide), nn.SiLU()]
        layers.append(Squeeze(wide, max(inputs // 4, 1), nn.SiLU(), nn.Sigmoid()))
        layers.append(conv_norm(wide, outputs, 1))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return x + self.layers(x) if self.residual else self.layers(x)


def network(
    stem: int, plan: Sequence[tuple[int, int, int, int, int]], head: int, classes: int
) -> nn.Module:
    """Build the network of (expansion, kernel, stride, channels, blocks) for each stage."""
    channels = stem
    layers: list[nn.Module] = [conv_norm(3, stem, 3, 2), nn.SiLU()]
    for expansion, kernel, stride, outputs, count in plan:
        for i in range(count):
            layers.append(Block(channels, outputs, expansion, kernel, 1 if i else stride))
            channels = outputs
    layers += [conv_norm(channels, head, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(head, classes))


def small() -> Mapping[str, Model]:
    """Build a network of three blocks."""
    plan = [(1, 3, 1, 8, 1), (4, 5, 2, 12, 2)]
    return {"efficientnet_b0": Model(network(8, plan, 32, 10), (torch.randn(1, 3, 32, 32),))}


def full() -> Mapping[str, Model]:
    """Build EfficientNet-B0."""
    plan = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
            (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)]  # fmt: skip
    model = network(32, plan, 1280, 1000)
    return {"efficientnet_b0": Model(model, (torch.randn(1, 3, 224, 224),))}
