"""A multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import nn

from benchmarks.models import Model


def perceptron(widths: tuple[int, ...]) -> nn.Sequential:
    """Build layers of widths with ReLU between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def small() -> Mapping[str, Model]:
    """Build a small one."""
    return {"mlp": Model(perceptron((20, 32, 10)), (torch.randn(4, 20),), {0: {0: "batch"}})}


def full() -> Mapping[str, Model]:
    """Build the one for digits of 28 by 28."""
    model = perceptron((784, 512, 512, 10))
    return {"mlp": Model(model, (torch.randn(64, 784),), {0: {0: "batch"}})}
