"""GPT-2: a decoder of texts, for a whole prompt and for one more token."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from benchmarks.models import Model
from benchmarks.models.attention import split_heads


class Block(nn.Module):
    """Causal attention and a perceptron, each after a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.parts, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self, x: torch.Tensor, past: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the block; gives also the keys and values so far."""
        q, k, v = [split_heads(y, self.heads) for y in self.parts(self.first(x)).chunk(3, -1)]
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.narrow(nn.functional.gelu(self.wide(self.second(x)), approximate="tanh"))
        return x + y, torch.stack([k, v])


class GPT2(nn.Module):
    """The network; the words' embedding is also the head."""

    def __init__(self, words: int, longest: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, words: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Score the next word; gives also the keys and values of each block."""
        start = past[0].shape[3] if past else 0
        places = torch.arange(start, start + words.shape[1], device=words.device)
        x = self.words(words) + self.places(places)
        made: list[torch.Tensor] = []
        for i, block in enumerate(self.blocks):
            x, own = block(x, past[i] if past else None)
            made.append(own)
        return nn.functional.linear(self.norm(x[:, -1]), self.words.weight), *made


def _models(
    words: int, longest: int, width: int, heads: int, depth: int, lengths: tuple[int, int]
) -> Mapping[str, Model]:
    model = GPT2(words, longest, width, heads, depth)
    prompt = torch.randint(0, words, (1, lengths[0]))
    past = [torch.randn(2, 1, heads, lengths[1], width // heads) for _ in range(depth)]
    dynamic = {i + 1: {3: "past"} for i in range(depth)}
    return {
        "gpt2_prefill": Model(model, (prompt,), {0: {1: "length"}}),
        "gpt2_decode": Model(model, (prompt[:, :1], *past), dynamic),
    }


def small() -> Mapping[str, Model]:
    """Build a network of two blocks."""
    return _models(50, 32, 16, 2, 2, (6, 5))


def full() -> Mapping[str, Model]:
    """Build GPT-2 small, for a prompt of 128 words and one word after 512."""
    return _models(50257, 1024, 768, 12, 12, (128, 512))
