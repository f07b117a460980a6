"""MobileNet: inverted residuals with depthwise convolutions, V2 and V3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from benchmarks.models import Model


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Build a convolution and its normalisation."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Squeeze(nn.Module):
    """Scale channels by what the whole image says (squeeze and excitation)."""

    def __init__(self, channels: int, reduced: int, inner: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, reduced, 1),
            inner,
            nn.Conv2d(reduced, channels, 1),
            gate,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale the channels."""
        return x * self.layers(x)


class Inverted(nn.Module):
    """A wide depthwise convolution between two narrow ends."""

    def __init__(
        self,
        channels: tuple[int, int, int],
        kernel: int,
        stride: int,
        activation: type[nn.Module],
        *,
        squeeze: bool = False,
    ) -> None:
        super().__init__()
        inputs, wide, outputs = channels
        layers: list[nn.Module] = []
        if wide != inputs:
            layers += [conv_norm(inputs, wide, 1), activation()]
        layers += [conv_norm(wide, wide, kernel, stride, wide), activation()]
        if squeeze:
            layers.append(Squeeze(wide, max(wide // 4, 1), nn.ReLU(), nn.Hardsigmoid()))
        layers.append(conv_norm(wide, outputs, 1))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return x + self.layers(x) if self.residual else self.layers(x)


def _head(channels: int, wide: int, classes: int, activation: type[nn.Module]) -> list[nn.Module]:
    return [
        conv_norm(channels, wide, 1),
        activation(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(wide, classes),
    ]


def mobilenet_v2(plan: Sequence[tuple[int, int, int, int]], classes: int) -> nn.Module:
    """Build V2 of (expansion, channels, blocks, stride) for each stage."""
    channels = 32 if classes == 1000 else 8
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2), nn.ReLU6()]
    for expansion, outputs, count, stride in plan:
        for i in range(count):
            own = (channels, channels * expansion, outputs)
            layers.append(Inverted(own, 3, 1 if i else stride, nn.ReLU6))
            channels = outputs
    return nn.Sequential(*layers, *_head(channels, channels * 4, classes, nn.ReLU6))


def mobilenet_v3(plan: Sequence[tuple[int, int, int, bool, bool, int]], classes: int) -> nn.Module:
    """Build V3 of (kernel, wide, channels, squeeze, hard swish, stride) for each block."""
    channels = 16 if classes == 1000 else 8
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2), nn.Hardswish()]
    for kernel, wide, outputs, squeeze, swish, stride in plan:
        activation = nn.Hardswish if swish else nn.ReLU
        own = (channels, wide, outputs)
        layers.append(Inverted(own, kernel, stride, activation, squeeze=squeeze))
        channels = outputs
    return nn.Sequential(*layers, *_head(channels, channels * 6, classes, nn.Hardswish))


def small() -> Mapping[str, Model]:
    """Build networks of two blocks."""
    image = torch.randn(1, 3, 32, 32)
    second = mobilenet_v2([(1, 8, 1, 1), (4, 8, 2, 2)], 10)
    third = mobilenet_v3([(3, 16, 8, True, False, 1), (5, 24, 12, True, True, 2)], 10)
    return {"mobilenet_v2": Model(second, (image,)), "mobilenet_v3": Model(third, (image,))}


def full() -> Mapping[str, Model]:
    """Build MobileNetV2 and MobileNetV3-Large."""
    image = torch.randn(1, 3, 224, 224)
    second = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1)]  # fmt: skip
    third = [
        (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
        (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
        (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1),
        (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
        (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
    ]  # fmt: skip
    return {
        "mobilenet_v2": Model(mobilenet_v2(second, 1000), (image,)),
        "mobilenet_v3": Model(mobilenet_v3(third, 1000), (image,)),
    }
