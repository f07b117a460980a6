"""Functions as modules, and tensors to try them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["Function", "floats", "join", "pairs", "split"]


class Function(nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Call the function."""
        return self.function(*inputs)


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Draw floats, the same for each shape."""
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def pairs(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Draw complex numbers as pairs along a last axis."""
    return floats(*shape, 2, dtype=dtype)


def join(x: torch.Tensor) -> torch.Tensor:
    """View pairs as complex numbers."""
    return torch.view_as_complex(x)


def split(x: torch.Tensor) -> torch.Tensor:
    """View complex numbers as pairs."""
    return torch.view_as_real(x.resolve_conj())
