"""Multi-head attention, which the transformers here share."""

from __future__ import annotations

import torch
from torch import nn


def split_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Return (batch, head, position, feature)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class Attention(nn.Module):
    """Attend to what is given, or to oneself."""

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.out = [nn.Linear(width, width) for _ in range(4)]

    def forward(
        self,
        x: torch.Tensor,
        other: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Mix values by how well their keys fit."""
        source = x if other is None else other
        q, k, v = [
            split_heads(layer(y), self.heads)
            for layer, y in ((self.query, x), (self.key, source), (self.value, source))
        ]
        y = nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))
