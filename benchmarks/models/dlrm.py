"""A recommender like DLRM: embedded categories that meet in products of pairs."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from benchmarks.models import Model
from benchmarks.models.mlp import perceptron


class Recommender(nn.Module):
    """The network."""

    def __init__(self, numbers: int, tables: int, rows: int, width: int, hidden: int) -> None:
        super().__init__()
        self.bottom = perceptron((numbers, hidden, width))
        self.tables = nn.ModuleList(
            [nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)]
        )
        pairs = (tables + 1) * tables // 2
        self.top = perceptron((width + pairs, hidden, 1))
        low = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("low", low)

    def forward(self, numbers: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Return the probability of a click; ``places`` are (item, table, category)."""
        x = torch.relu(self.bottom(numbers))
        found = [table(places[:, i]) for i, table in enumerate(self.tables)]
        each = torch.stack([x, *found], 1)
        products = each @ each.transpose(1, 2)
        pairs = products[:, self.low[0], self.low[1]]  # pyright: ignore[reportIndexIssue]
        return torch.sigmoid(self.top(torch.cat([x, pairs], 1)))


def small() -> Mapping[str, Model]:
    """Build a recommender of three tables."""
    given = (torch.randn(4, 5), torch.randint(0, 20, (4, 3, 2)))
    return {"dlrm": Model(Recommender(5, 3, 20, 8, 16), given)}


def full() -> Mapping[str, Model]:
    """Build a recommender of 26 tables."""
    given = (torch.randn(128, 13), torch.randint(0, 10000, (128, 26, 4)))
    return {"dlrm": Model(Recommender(13, 26, 10000, 64, 512), given)}
