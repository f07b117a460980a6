"""Random variables: names of loops, blocks and numbers in a schedule and its trace."""

from __future__ import annotations

from typing import TypeAlias

from loomir.tir.expr import Var

__all__ = ["BlockRV", "ExprRV", "LoopRV"]


class BlockRV:
    """A name for a block; what it stands for is the schedule's to say."""

    __slots__ = ()


class LoopRV:
    """A name for a loop; what it stands for is the schedule's to say."""

    __slots__ = ()


ExprRV: TypeAlias = Var
"""A number that was drawn: a variable, so that numbers can be computed from it."""
