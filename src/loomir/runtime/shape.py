"""Shapes as values: what a graph's shape is to Python."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import SupportsIndex

__all__ = ["Shape"]


class Shape(tuple[int, ...]):
    """A shape, apart from a tuple of values: a tuple of integers that never changes.

    ``Shape([2, 3])``; equal to ``(2, 3)``.
    """

    __slots__ = ()

    def __new__(cls, extents: Iterable[SupportsIndex] = ()) -> Shape:
        """Take extents. Errors: TypeError for what is no integer."""
        return super().__new__(cls, [operator.index(e) for e in extents])

    def __repr__(self) -> str:
        return f"Shape([{', '.join(map(str, self))}])"
