"""Kernels as a list of stages: what each computes, free of the loops in which it was written.

A stage computes each element of a buffer (or of a part of it) once. ``axes`` run over the elements,
``reduced`` over what is combined into one element; both start at 0. A kernel whose loops cannot be
read so is left to the schedules that take loops as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block

__all__ = ["Axis", "Combine", "Kernel", "Stage"]


class Axis(NamedTuple):
    """An iterator: its variable, and how many values it takes from 0 on."""

    var: Var
    extent: PrimExpr

    @property
    def size(self) -> int | None:
        """The extent, where it is a number."""
        return self.extent.value if isinstance(self.extent, IntImm) else None


class Combine(Enum):
    """How a term joins what an element holds already."""

    NONE = "="
    SUM = "+"
    PROD = "*"
    MAX = "max"
    MIN = "min"
    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """``buffer[indices] = value`` for all ``axes``, or combined over ``reduced``.

    ``indices`` mention axes only, each at most once, as ``axis``, ``axis + number`` or a number.
    ``value`` is the term that joins the element at each step of ``reduced``; it never loads
    ``buffer``. ``init`` is what an element starts from, None where it starts from what it holds.
    ``free_order``: the terms may be combined in any order and grouping (iterators of a block that
    reduce); otherwise each element takes its terms in the order of ``reduced``, the last fastest.
    """

    name: str
    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    value: PrimExpr
    combine: Combine = Combine.NONE
    init: PrimExpr | None = None
    free_order: bool = True
    block: Block | None = None
    """The block that it was read from, for names and places."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """The stages of a function in order, and the buffers that live between them."""

    func: PrimFunc
    stages: tuple[Stage, ...]
    between: tuple[Buffer, ...]
