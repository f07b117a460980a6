"""What a rule returns for a group of stages: the loops, and the reasons for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from loomir.autoschedule.ir.stage import Stage
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr
from loomir.tir.stmt import Stmt

__all__ = ["Plan", "Prepack"]


class Prepack(NamedTuple):
    """Prepacking, done before any call: a statement that reads constants, and what it fills."""

    stmt: Stmt
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Loops that compute the stages of a group.

    ``kind`` names the rule (``matrix product``, ``rows``, …); ``choices`` says what was chosen and
    why, a sentence each; ``flops`` and ``bytes`` are the work of one call, None if sizes are
    symbolic. Rules leave these to their caller, and also ``stages``, those of the group, and
    ``inner``, the buffers that only they use.
    """

    kind: str
    stmt: Stmt
    choices: tuple[str, ...] = ()
    flops: int | None = None
    bytes: int | None = None
    stages: tuple[Stage, ...] = ()
    inner: frozenset[Buffer] = frozenset()
    ahead: tuple[Prepack, ...] = ()
    """What ``stmt`` finds done, where arguments are known to be constant."""
    repeats: tuple[PrimExpr, ...] = ()
    """Iterations of loops in ``stmt`` that run the stages again and again."""
    at_once: int = 1
    """Steps of a sum that an element of a vector takes in one instruction."""
