"""A tagger of words with an LSTM in both directions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from benchmarks.models import Model


class Tagger(nn.Module):
    """Embed, read both ways, and score the tags of each word."""

    def __init__(self, words: int, width: int, hidden: int, layers: int, tags: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, tags)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return logarithms of probabilities."""
        return torch.log_softmax(self.head(self.lstm(self.words(words))[0]), -1)


def small() -> Mapping[str, Model]:
    """Build a tagger of five words."""
    return {"lstm": Model(Tagger(30, 8, 8, 1, 4), (torch.randint(0, 30, (2, 5)),))}


def full() -> Mapping[str, Model]:
    """Build a tagger of 32 words with two layers."""
    words = torch.randint(0, 20000, (1, 32))
    return {"lstm": Model(Tagger(20000, 128, 256, 2, 45), (words,))}
