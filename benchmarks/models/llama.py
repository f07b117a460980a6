"""A stack of blocks like Llama's: rotary embedding, shared heads, RMS norm and SwiGLU."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from benchmarks.models import Model
from benchmarks.models.attention import split_heads


def rotate(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Rotate pairs of features by angles that grow with the place."""
    half = x.shape[-1] // 2
    steps = torch.arange(half, device=x.device, dtype=x.dtype)
    angles = places.to(x.dtype)[:, None] * 10000.0 ** (-steps / half)
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    swapped = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + swapped * sin


class RMSNorm(nn.Module):
    """Written out, as published models write it, which every exporter takes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise."""
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5))


class Block(nn.Module):
    """Attention whose keys and values are shared by heads, and a gated perceptron."""

    def __init__(self, width: int, heads: int, shared: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.shared = heads, shared
        size = width // heads
        self.first, self.second = RMSNorm(width), RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = [nn.Linear(width, shared * size, bias=False) for _ in range(2)]
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = [nn.Linear(width, hidden, bias=False) for _ in range(2)]
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(
        self, x: torch.Tensor, places: torch.Tensor, past: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the block; gives also the keys and values so far."""
        y = self.first(x)
        q = rotate(split_heads(self.query(y), self.heads), places)
        k = rotate(split_heads(self.key(y), self.shared), places)
        v = split_heads(self.value(y), self.shared)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        times = self.heads // self.shared
        every = [t.repeat_interleave(times, 1) for t in (k, v)]
        y = nn.functional.scaled_dot_product_attention(q, *every, is_causal=past is None)  # pyright: ignore[reportArgumentType]
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.second(x)
        y = self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        return x + y, torch.stack([k, v])


class Stack(nn.Module):
    """The blocks, on embedded words."""

    def __init__(self, width: int, heads: int, shared: int, hidden: int, depth: int) -> None:
        super().__init__()
        blocks = [Block(width, heads, shared, hidden) for _ in range(depth)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = RMSNorm(width)

    def forward(self, x: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return what the words mean; gives also the keys and values of each block."""
        start = past[0].shape[3] if past else 0
        places = torch.arange(start, start + x.shape[1], device=x.device)
        made: list[torch.Tensor] = []
        for i, block in enumerate(self.blocks):
            x, own = block(x, places, past[i] if past else None)
            made.append(own)
        return self.norm(x), *made


def _models(
    width: int, heads: int, shared: int, hidden: int, depth: int, lengths: tuple[int, int]
) -> Mapping[str, Model]:
    model = Stack(width, heads, shared, hidden, depth)
    past = [torch.randn(2, 1, shared, lengths[1], width // heads) for _ in range(depth)]
    prompt = torch.randn(1, lengths[0], width)
    dynamic = {i + 1: {3: "past"} for i in range(depth)}
    return {
        "llama_prefill": Model(model, (prompt,), {0: {1: "length"}}),
        "llama_decode": Model(model, (prompt[:, :1], *past), dynamic),
    }


def small() -> Mapping[str, Model]:
    """Build a stack of two narrow blocks."""
    return _models(32, 4, 2, 48, 2, (6, 5))


def full() -> Mapping[str, Model]:
    """Build a stack of four blocks of 2048, for 128 words and one word after 512."""
    return _models(2048, 32, 8, 5632, 4, (128, 512))
