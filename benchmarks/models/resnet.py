"""ResNet: residual blocks of convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from benchmarks.models import Model


def conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Build a convolution and its normalisation."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Block(nn.Module):
    """Two convolutions, or three with a bottleneck, and a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        outputs = width * 4 if bottleneck else width
        if bottleneck:
            self.body = nn.Sequential(
                conv_norm(inputs, width, 1),
                nn.ReLU(),
                conv_norm(width, width, 3, stride),
                nn.ReLU(),
                conv_norm(width, outputs, 1),
            )
        else:
            self.body = nn.Sequential(
                conv_norm(inputs, width, 3, stride), nn.ReLU(), conv_norm(width, outputs, 3)
            )
        plain = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if plain else conv_norm(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """The network, of stages of blocks that double the channels."""

    def __init__(
        self, counts: Sequence[int], *, width: int, bottleneck: bool, classes: int
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            conv_norm(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)
        )
        blocks: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(counts):
            own = width << stage
            for i in range(count):
                stride = 2 if stage and not i else 1
                blocks.append(Block(channels, own, stride, bottleneck=bottleneck))
                channels = own * 4 if bottleneck else own
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify images."""
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def small() -> Mapping[str, Model]:
    """Build networks of one block in each stage."""
    image = torch.randn(1, 3, 32, 32)
    return {
        "resnet18": Model(ResNet((1, 1), width=8, bottleneck=False, classes=10), (image,)),
        "resnet50": Model(ResNet((1, 1), width=8, bottleneck=True, classes=10), (image,)),
    }


def full() -> Mapping[str, Model]:
    """Build ResNet-18 and ResNet-50."""
    image = torch.randn(1, 3, 224, 224)
    plain = ResNet((2, 2, 2, 2), width=64, bottleneck=False, classes=1000)
    deep = ResNet((3, 4, 6, 3), width=64, bottleneck=True, classes=1000)
    return {"resnet18": Model(plain, (image,)), "resnet50": Model(deep, (image,))}
