"""Search a contiguous row for the element to select, in lanes that note turns in place of indices.

In turn ``t``, a lane sees the element ``t * width + lane``. The number of the turn is as wide as an
element, so that no vector is widened, and it grows, so that equal elements need no comparison of
their indices. The index is computed once for each lane, after the last turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from loomir.arith.fold import fold_expr, imm, imm64
from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.builders.loops import INDEX, allocate, loop, scratch, vectorize
from loomir.autoschedule.ir.stage import Axis, Stage
from loomir.autoschedule.rewrite.affine_guards import affine_form
from loomir.autoschedule.rules.reduction.selection_order import keep_before_later
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Cast, Let, Min, PrimExpr, Select, Var
from loomir.tir.stmt import BufferStore, LetStmt, Stmt, seq

__all__ = ["LaneSearch", "find_lane_search"]

_VECTORS: Final = 4
"""Vectors that advance together, to hide the latency of a selection."""
_FEW: Final = 4
"""Turns of a row for which the lanes are worth combining."""
_INT32: Final = DataType("int32")
_BOOL: Final = DataType("bool")


@dataclass(frozen=True, slots=True, eq=False)
class LaneSearch:
    """How a row is searched: the condition to keep an element, also before a later one."""

    old: tuple[Var, ...]
    new: tuple[Var, ...]
    keep: PrimExpr
    later: PrimExpr
    place: int
    """Which part of an element is its index; the other one is its value."""
    lanes: int
    vectors: int

    @property
    def width(self) -> int:
        """Return the elements of a turn."""
        return self.lanes * self.vectors

    @property
    def value(self) -> DataType:
        """Return the type of values."""
        return self.old[1 - self.place].dtype

    @property
    def turn(self) -> DataType:
        """Return the type of the numbers of turns, which is as wide as a value."""
        bits = self.value.bits
        return DataType(f"uint{bits}" if bits < 32 else f"int{bits}")

    @property
    def _position(self) -> DataType:
        return INDEX if self.value.bits > 32 else _INT32

    @property
    def _most_turns(self) -> int | None:
        """Return how many turns and positions have numbers; None for more than memory has."""
        bits = self.value.bits
        if bits > 32:
            return None
        return min((1 << min(bits, 31)) - 1, _INT32.max_value // self.width - 1)

    def fit_row(self, size: int | None) -> LaneSearch | None:
        """Take fewer vectors for a row of few elements; None if they do not fill one."""
        vectors = self.vectors
        while vectors > 1 and size is not None and size < _FEW * vectors * self.lanes:
            vectors //= 2
        return None if size is not None and size < self.lanes else replace(self, vectors=vectors)

    def search(
        self,
        extent: PrimExpr,
        read: Callable[[PrimExpr], PrimExpr],
        take: Callable[[PrimExpr, PrimExpr], Stmt],
    ) -> Stmt:
        """Search ``extent`` elements, of which there must be one turn at least.

        ``read`` reads the value of an element by its position, ``take`` takes what was selected:
        the value and the position.
        """
        width = imm64(self.width)
        turns = fold_expr(extent // width)
        most = self._most_turns
        count = number(turns)
        if most is not None and (count is None or count > most):
            size = imm64(most)

            def block(b: PrimExpr) -> Stmt:
                begin = b * size
                here = Min(size, turns - begin)
                return self._block(begin * width, here, None, read, take)

            blocks = loop("block", fold_expr((turns + imm64(most - 1)) // size), block)
            if number(extent % width) == 0:
                return blocks
            return seq((blocks, self._block(extent - width, imm64(1), None, read, take)))
        left = number(extent % width)
        tail = None if left == 0 else fold_expr(extent - width)
        return self._block(imm64(0), turns, tail, read, take)

    def _block(
        self,
        begin: PrimExpr,
        turns: PrimExpr,
        tail: PrimExpr | None,
        read: Callable[[PrimExpr], PrimExpr],
        take: Callable[[PrimExpr, PrimExpr], Stmt],
    ) -> Stmt:
        """Search some turns, then the last elements from ``tail`` on, then among the lanes."""
        width = imm64(self.width)
        value = scratch("value", (self.width,), self.value, "local")
        turn = scratch("turn", (self.width,), self.turn, "local")
        at = scratch("at", (self.width,), self._position, "local")

        def put(buffer: Buffer, what: Callable[[PrimExpr], PrimExpr]) -> Stmt:
            return self.cover_lanes(lambda x: BufferStore(buffer, what(x), (x,)))

        def step(t: PrimExpr) -> Stmt:
            first = begin + (t + imm64(1)) * width
            number_of = Cast(t + imm64(1), self.turn)
            return self.cover_lanes(
                lambda x: self.select(
                    self.later, (value, x), read(first + x), ((turn, x), number_of)
                )
            )

        def position(x: PrimExpr) -> PrimExpr:
            turn_of = Cast(BufferLoad(turn, (x,)), self._position)
            return turn_of * imm(self.width, self._position) + Cast(x, self._position)

        parts = [
            put(value, lambda x: read(begin + x)),
            put(turn, lambda _: imm(0, self.turn)),
            loop("t", turns - imm64(1), step),
            put(at, position),
        ]
        if tail is not None:
            # Some elements are seen twice, and are equal to themselves.
            there = Cast(tail, self._position)
            parts.append(
                self.cover_lanes(
                    lambda x: self._join(value, at, x, read(tail + x), there + Cast(x, there.dtype))
                )
            )
        half = self.width // 2
        while half:
            parts.append(
                self.cover_lanes(
                    lambda x, half=half: self._join(
                        value,
                        at,
                        x,
                        BufferLoad(value, (x + imm64(half),)),
                        BufferLoad(at, (x + imm64(half),)),
                    ),
                    half,
                )
            )
            half //= 2
        zero = (imm64(0),)
        found = begin + Cast(BufferLoad(at, zero), INDEX)
        parts.append(take(BufferLoad(value, zero), found))
        return allocate((value, turn, at), *parts)

    def cover_lanes(self, body: Callable[[PrimExpr], Stmt], size: int | None = None) -> Stmt:
        """Run ``body`` in the lanes of a turn, or in ``size`` of them."""
        size = self.width if size is None else size
        step = min(size, self.lanes)
        if step == 1:
            return body(imm64(0))
        return seq(
            vectorize("lane", step, lambda x, first=first: body(imm64(first) + x if first else x))
            for first in range(0, size, step)
        )

    def select(
        self,
        condition: PrimExpr,
        kept: tuple[Buffer, PrimExpr],
        coming: PrimExpr,
        index: tuple[tuple[Buffer, PrimExpr], PrimExpr],
    ) -> Stmt:
        """Select between the kept value and the next one, and between their numbers."""
        (buffer, where), ((numbers, at), number_of) = kept, index
        old, new, keep = Var("old", self.value), Var("new", self.value), Var("keep", _BOOL)
        table = {self.old[1 - self.place]: old, self.new[1 - self.place]: new}
        before, after = Var("before", numbers.dtype), Var("after", numbers.dtype)
        table |= {self.old[self.place]: before, self.new[self.place]: after}
        made: Stmt = seq(
            (
                BufferStore(numbers, Select(keep, before, after), (at,)),
                BufferStore(buffer, Select(keep, old, new), (where,)),
            )
        )
        names = (
            (old, BufferLoad(buffer, (where,))),
            (new, coming),
            (before, BufferLoad(numbers, (at,))),
            (after, number_of),
            (keep, substitute(condition, table)),
        )
        for name, of in reversed(names):
            made = LetStmt(name, of, made)
        return made

    def _join(
        self, value: Buffer, at: Buffer, x: PrimExpr, coming: PrimExpr, where: PrimExpr
    ) -> Stmt:
        return self.select(self.keep, (value, x), coming, ((at, x), where))


def find_lane_search(
    stages: Sequence[Stage],
    old: tuple[Var, ...],
    new: tuple[Var, ...],
    keep: PrimExpr,
    axis: Axis,
    target: Target,
) -> LaneSearch | None:
    """Find how lanes note turns along an axis; None if no part of an element is its index."""
    if len(stages) != 2:
        return None
    for place in (0, 1):
        value = stages[1 - place]
        if not _grows_along(stages[place], axis) or BufferLoad not in by_class(value.value):
            continue
        lanes = target.lanes(max(8, value.buffer.dtype.bits))
        if lanes < 2:
            return None
        later = keep_before_later(keep, old, new, place)
        return LaneSearch(old, new, keep, later, place, lanes, _VECTORS)
    return None


def _grows_along(stage: Stage, axis: Axis) -> bool:
    """Whether a stage is an index that grows along an axis."""
    value = stage.value
    if not stage.buffer.dtype.is_integer or by_class(value).keys() & {BufferLoad, Let}:
        return False
    if isinstance(value, Cast) and value.value is axis.var:
        return axis.size is not None and axis.size <= value.dtype.max_value
    form = affine_form(value, (*stage.axes, *stage.reduced))
    return form is not None and form.terms.get(axis.var, 0) > 0
