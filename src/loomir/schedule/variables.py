"""Random variables: the names of loops, blocks and numbers in a schedule and its trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakMethod

from loomir.tir.expr import Var

__all__ = ["BlockRV", "ExprRV", "LoopRV"]


class _Variable:
    """A name for a part of a program; what it stands for is the schedule's to say.

    ``describe`` refers to what writes that for ``repr``, and keeps no schedule alive; it is None
    where no schedule made the name.
    """

    __slots__ = ("_describe",)

    def __init__(self, describe: WeakMethod[Callable[[object], str | None]] | None = None) -> None:
        self._describe = describe

    def __repr__(self) -> str:
        kind = "block" if isinstance(self, BlockRV) else "loop"
        if self._describe is None:
            return f"<{kind} of a trace>"
        describe = self._describe()
        known = None if describe is None else describe(self)
        return f"<{kind} {known or 'that is gone'}>"


class BlockRV(_Variable):
    """A name for a block."""

    __slots__ = ()


class LoopRV(_Variable):
    """A name for a loop."""

    __slots__ = ()


ExprRV: TypeAlias = Var
"""A number that was drawn: a variable, so that numbers can be computed from it."""
