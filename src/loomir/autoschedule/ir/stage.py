"""A kernel as a list of stages: formulas for buffers, free of the loops in which they were written.

A stage computes each element of a buffer, or of a part of it, once. ``axes`` run over these
elements, ``reduced`` over the terms that are combined into one element. Both start at 0 and are
int64; so are indices in values, except where a narrower sum could wrap. A kernel keeps loops that
cannot be lifted as statements between its stages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, cast

from loomir.ir.visit import by_class
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, Stmt

__all__ = ["Axis", "Combine", "LiftedFunction", "Stage", "has_zero_trip_case"]


class Axis(NamedTuple):
    """An iterator: its variable, and how many values it takes from 0 on."""

    var: Var
    extent: PrimExpr

    @property
    def size(self) -> int | None:
        """The extent, where it is a number."""
        return self.extent.value if isinstance(self.extent, IntImm) else None


class Combine(Enum):
    """How a term is combined with the accumulator of an element.

    Of zeros of both signs, ``max`` and ``min`` keep the accumulator, the last ones take the term.
    ``GREATER`` and those after it compare floats: the term replaces the accumulator where it is
    greater, and so on, so that a term that is NaN never does, and an accumulator that is NaN stays.
    """

    NONE = "="
    SUM = "+"
    PROD = "*"
    MAX = "max"
    MIN = "min"
    LAST_MAX = "last max"
    LAST_MIN = "last min"
    AND = "and"
    OR = "or"
    GREATER = "if greater"
    NOT_LESS = "if not less"
    LESS = "if less"
    NOT_GREATER = "if not greater"


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """``buffer[indices] = value`` for all ``axes``, or combined over ``reduced``.

    ``indices`` mention axes only, each at most once, as ``axis``, ``axis + number`` or a number.
    ``value`` is the term that is combined with the element at each step of ``reduced``. It never
    loads ``buffer``, but for the element that is stored where nothing is reduced (``in_place``).
    ``init`` is what an element starts from, None if it starts from what it holds.
    ``free_order``: the terms may be combined in any order and grouping (iterators of a block that
    reduce, and integers, which wrap); otherwise each element takes its terms in the order of
    ``reduced``, the last fastest.
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
    in_place: bool = False
    block: Block | None = None
    """The block that it was read from, for names and places."""
    _reads: frozenset[int] | None = field(default=None, init=False, repr=False)

    def reads(self) -> frozenset[int]:
        """Return the memory that is read, by the identity of its pointer (cached)."""
        if self._reads is None:
            values = [self.value] if self.init is None else [self.value, self.init]
            found = {id(p.buffer.data) for v in values for p in by_class(v).get(BufferLoad, ())}
            if self.init is None:
                found.add(id(self.buffer.data))
            object.__setattr__(self, "_reads", frozenset(found))
        return cast("frozenset[int]", self._reads)


@dataclass(frozen=True, slots=True, eq=False)
class LiftedFunction:
    """The parts of a function in order, and the buffers that live between them."""

    func: PrimFunc
    parts: tuple[Stage | Stmt, ...]
    between: tuple[Buffer, ...]


def has_zero_trip_case(stage: Stage) -> bool:
    """Whether elements keep their previous values if there is no term to combine."""
    starts = stage.block is None or stage.block.init is None
    return not starts and any(not axis.size for axis in stage.reduced)
