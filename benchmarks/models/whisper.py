"""An encoder of sound and a decoder of words, like Whisper's."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from benchmarks.models import Model
from benchmarks.models.attention import Attention


class Block(nn.Module):
    """Attention to oneself, to the sound where there is one, and a perceptron."""

    def __init__(self, width: int, heads: int, *, decodes: bool) -> None:
        super().__init__()
        self.first, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.own = Attention(width, heads, causal=decodes)
        self.middle = nn.LayerNorm(width) if decodes else None
        self.other = Attention(width, heads) if decodes else None
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor, sound: torch.Tensor | None = None) -> torch.Tensor:
        """Run the block."""
        x = x + self.own(self.first(x))
        if self.other is not None and self.middle is not None:
            x = x + self.other(self.middle(x), sound)
        return x + self.mlp(self.last(x))


class Encoder(nn.Module):
    """Two convolutions along time, then blocks."""

    def __init__(self, bands: int, frames: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(bands, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, 2, 1)
        self.places = nn.Parameter(torch.randn(frames // 2, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads, decodes=False) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each moment sounds like."""
        x = nn.functional.gelu(self.second(nn.functional.gelu(self.first(x))))
        return self.norm(self.blocks(x.transpose(1, 2) + self.places))


class Decoder(nn.Module):
    """Blocks over words that attend to the sound."""

    def __init__(self, words: int, longest: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(longest, width) * 0.02)
        self.blocks = nn.ModuleList([Block(width, heads, decodes=True) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, words: torch.Tensor, sound: torch.Tensor) -> torch.Tensor:
        """Score the word after each."""
        x = self.words(words) + self.places[: words.shape[1]]
        for block in self.blocks:
            x = block(x, sound)
        return nn.functional.linear(self.norm(x), self.words.weight)


def _models(
    bands: int, frames: int, width: int, heads: int, depth: int, words: int
) -> Mapping[str, Model]:
    encoder = Encoder(bands, frames, width, heads, depth)
    decoder = Decoder(words, 448, width, heads, depth)
    given = (torch.randint(0, words, (1, 8)), torch.randn(1, frames // 2, width))
    return {
        "whisper_encoder": Model(encoder, (torch.randn(1, bands, frames),)),
        "whisper_decoder": Model(decoder, given, {0: {1: "length"}}),
    }


def small() -> Mapping[str, Model]:
    """Build one narrow block on each side."""
    return _models(8, 12, 16, 2, 1, 40)


def full() -> Mapping[str, Model]:
    """Build the size of Whisper tiny."""
    return _models(80, 3000, 384, 6, 4, 51865)
