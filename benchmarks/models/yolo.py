"""A detector like YOLO: features of three sizes, upsampled and concatenated, then suppression."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from benchmarks.models import Model


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """Build a convolution with normalisation and SiLU."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.SiLU())


class Split(nn.Module):
    """Blocks on half of the channels, whose results are concatenated."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        half = width // 2
        self.enter = conv(width, width, 1)
        self.blocks = nn.ModuleList(
            [nn.Sequential(conv(half, half), conv(half, half)) for _ in range(count)]
        )
        self.leave = conv(half * (2 + count), width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the blocks."""
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.leave(torch.cat(parts, 1))


def suppress(boxes: torch.Tensor, scores: torch.Tensor, keep: int) -> tuple[torch.Tensor, ...]:
    """Keep the best boxes that no better one overlaps by more than half, others scored 0."""
    best, places = scores.topk(keep, 1)
    chosen = boxes.gather(1, places[..., None].expand(-1, -1, 4))
    low = torch.maximum(chosen[:, :, None, :2], chosen[:, None, :, :2])
    high = torch.minimum(chosen[:, :, None, 2:], chosen[:, None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = (chosen[..., 2:] - chosen[..., :2]).prod(-1)
    overlap = shared / (areas[:, :, None] + areas[:, None] - shared)
    worst = overlap.triu(1).amax(1)
    return chosen, torch.where(worst <= 0.5, best, 0.0)


class Detector(nn.Module):
    """The network: backbone, pyramid and a head for each size."""

    def __init__(self, width: int, depth: int, classes: int, keep: int) -> None:
        super().__init__()
        w, self.keep = width, keep
        self.first = nn.Sequential(conv(3, w, 3, 2), conv(w, 2 * w, 3, 2), Split(2 * w, depth))
        self.second = nn.Sequential(conv(2 * w, 4 * w, 3, 2), Split(4 * w, depth))
        self.third = nn.Sequential(conv(4 * w, 8 * w, 3, 2), Split(8 * w, depth))
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.mix = conv(16 * w, 8 * w, 1)
        self.up = nn.Upsample(scale_factor=2)
        self.lateral = nn.Sequential(conv(12 * w, 4 * w, 1), Split(4 * w, depth))
        self.fine = nn.Sequential(conv(6 * w, 2 * w, 1), Split(2 * w, depth))
        self.heads = nn.ModuleList([nn.Conv2d(c * w, 4 + classes, 1) for c in (2, 4, 8)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return boxes and their scores."""
        a = self.first(x)
        b = self.second(a)
        c = self.third(b)
        c = self.mix(torch.cat([c, self.pool(c)], 1))
        b = self.lateral(torch.cat([self.up(c), b], 1))
        a = self.fine(torch.cat([self.up(b), a], 1))
        found = [head(y).flatten(2) for head, y in zip(self.heads, (a, b, c))]
        made = torch.cat(found, 2).transpose(1, 2)
        corner, size = made[..., :2].sigmoid(), made[..., 2:4].sigmoid()
        boxes = torch.cat([corner, corner + size], -1)
        return suppress(boxes, made[..., 4:].sigmoid().amax(-1), self.keep)


def small() -> Mapping[str, Model]:
    """Build a narrow detector."""
    return {"yolo": Model(Detector(4, 1, 3, 8), (torch.randn(1, 3, 32, 32),))}


def full() -> Mapping[str, Model]:
    """Build a detector of 80 classes for images of 320 by 320."""
    return {"yolo": Model(Detector(32, 2, 80, 300), (torch.randn(1, 3, 320, 320),))}
