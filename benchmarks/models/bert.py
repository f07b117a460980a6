"""BERT: an encoder of texts."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from benchmarks.models import Model
from benchmarks.models.attention import Attention


class Layer(nn.Module):
    """Attention and a perceptron, each before a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.first, self.second = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Run the layer."""
        x = self.first(x + self.attention(x, mask=mask))
        return self.second(x + self.narrow(nn.functional.gelu(self.wide(x))))


class Bert(nn.Module):
    """The network."""

    def __init__(self, words: int, longest: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(depth)])
        self.pool = nn.Linear(width, width)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return what each word means in its text, and what the text means."""
        places = torch.arange(words.shape[1], device=words.device)
        x = self.words(words) + self.places(places) + self.kinds(torch.zeros_like(words))
        x = self.norm(x)
        seen = mask[:, None, None, :] != 0
        for layer in self.layers:
            x = layer(x, seen)
        return x, torch.tanh(self.pool(x[:, 0]))


def _model(model: Bert, words: int, length: int) -> Model:
    mask = torch.ones(1, length, dtype=torch.int64)
    mask[:, length - 2 :] = 0
    dynamic = {0: {1: "length"}, 1: {1: "length"}}
    return Model(model, (torch.randint(0, words, (1, length)), mask), dynamic)


def small() -> Mapping[str, Model]:
    """Build a network of two layers."""
    return {"bert": _model(Bert(50, 32, 16, 2, 2), 50, 8)}


def full() -> Mapping[str, Model]:
    """Build BERT-base, for 128 words."""
    return {"bert": _model(Bert(30522, 512, 768, 12, 12), 30522, 128)}
