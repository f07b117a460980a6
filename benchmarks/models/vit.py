"""ViT: a transformer over patches of an image."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from benchmarks.models import Model
from benchmarks.models.attention import Attention


class Block(nn.Module):
    """Attention and a perceptron, each after a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class ViT(nn.Module):
    """The network."""

    def __init__(
        self, image: int, patch: int, width: int, heads: int, depth: int, classes: int
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify images."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


def small() -> Mapping[str, Model]:
    """Build a network of two blocks."""
    return {"vit": Model(ViT(16, 8, 16, 2, 2, 10), (torch.randn(2, 3, 16, 16),))}


def full() -> Mapping[str, Model]:
    """Build ViT-B/16."""
    return {"vit": Model(ViT(224, 16, 768, 12, 12, 1000), (torch.randn(1, 3, 224, 224),))}
