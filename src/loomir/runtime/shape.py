"""Shape values of graphs, as Python objects."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import SupportsIndex

from loomir.runtime.errors import RunTypeError
from loomir.support.diagnostics import Diagnostic

__all__ = ["Shape"]


class Shape(tuple[int, ...]):
    """A shape, in contrast to a tuple of values: an immutable tuple of integers.

    ``Shape([2, 3])``; equal to ``(2, 3)``.
    """

    __slots__ = ()

    def __new__(cls, extents: Iterable[SupportsIndex] = ()) -> Shape:
        """Create a shape. Errors: RUN0401, a TypeError, for an extent that is not an integer."""
        try:
            made = [operator.index(e) for e in extents]
        except TypeError as error:
            what = f"the extents of a shape are integers: {error}"
            help_ = "give a list of them, as in loomir.Shape([2, 3])"
            raise RunTypeError(Diagnostic("RUN0401", what, help=help_)) from None
        return super().__new__(cls, made)

    def __repr__(self) -> str:
        return f"Shape([{', '.join(map(str, self))}])"
