"""The hook through which lower layers load the operators of Relax on first use."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["load_operators", "set_loader"]

_loader: list[Callable[[], object]] = []


def set_loader(loader: Callable[[], object]) -> None:
    """Set the function that ``load_operators`` calls once."""
    _loader[:] = [loader]


def load_operators() -> None:
    """Load the operators, unless they are loaded already."""
    if _loader:
        loader = _loader.pop()
        loader()
