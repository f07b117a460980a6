"""Prove which keys a causal mask hides from a whole block of rows, so that they can be skipped.

A masked score is minus infinity: it does not change the maximum of its row, its exponential is 0,
and so are the products of that with finite values. If the maximum of a row is minus infinity or
NaN, exponentials may be NaN; then they are NaN for every key of the row, so the result is NaN
however many keys are skipped, as long as one remains.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from loomir.arith.fold import add, imm64, mul, sub
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.ir.equality import structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class
from loomir.loops.conditions import conjuncts
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    Call,
    Cast,
    Div,
    Eq,
    FloatImm,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
)

__all__ = ["Mask", "find_mask"]


class Mask(NamedTuple):
    """Which keys a block of rows needs."""

    keys: tuple[Var | None, ...]
    """The iterator of each stage that goes over keys."""
    limit: PrimExpr
    """How many keys a row sees at most, by the axes of the first product."""


def find_mask(
    stages: Sequence[Stage], second: int, outer: Sequence[Axis], keys: Axis
) -> Mask | None:
    """Match a mask that shows each row only its first keys; None if that is not proved."""
    reader = _Reader(stages[0], outer, keys)
    for stage in stages[1:second]:
        if not reader.takes(stage):
            return None
    if not reader.ends(stages[second]) or any(reader.reads(s) for s in stages[second + 1 :]):
        return None
    assert reader.score is not None  # what is 0 where keys are masked comes from it
    limit = _limit(reader.score.condition, outer, keys)
    own = {axis.var for stage in stages for axis in (*stage.axes, *stage.reduced)}
    own -= {axis.var for axis in outer}
    if limit is None or own & set(by_class(limit).get(Var, ())):
        return None
    left = [None] * (len(stages) - second - 1)
    return Mask((*reader.found, *left), limit)


class _Reader:
    """Tracks masked scores through the stages, up to the second product."""

    def __init__(self, first: Stage, outer: Sequence[Axis], keys: Axis) -> None:
        self.outer, self.keys = outer, keys
        self.score: Select | None = None
        self.found: list[Var | None] = [keys.var]
        self.products = first.buffer
        self.masked: set[Buffer] = set()
        """Scores, minus infinity where they are masked."""
        self.tops: set[Buffer] = set()
        """The greatest score of each row."""
        self.zeros: set[Buffer] = set()
        """What is 0 where the score is masked, or NaN in the whole row."""
        self.totals: set[Buffer] = set()
        """Sums of such rows."""
        self.at: dict[Buffer, tuple[int, ...]] = {first.buffer: self._order(first.indices)}
        """For what has an element for each key, which index is what: axes of rows, keys last."""

    def _order(self, indices: Sequence[PrimExpr]) -> tuple[int, ...]:
        names = [*(axis.var for axis in self.outer), self.keys.var]
        return tuple(next((k for k, i in enumerate(indices) if i is name), -1) for name in names)

    def reads(self, stage: Stage) -> bool:
        """Whether a stage reads a buffer with an element for each key."""
        values = [stage.value] if stage.init is None else [stage.value, stage.init]
        return any(_mentions(value, self.at) for value in values)

    def takes(self, stage: Stage) -> bool:
        """Whether a stage computes the same if masked keys are skipped; record its result."""
        if not self.reads(stage):
            self.found.append(None)
            return True
        named = self._rename_axes(stage)
        if named is None:
            return False
        value, table = named
        if stage.combine is Combine.NONE:
            return not stage.reduced and self._take_each(stage, value, table)
        if stage.init is None or not self._goes_along(stage):
            return False
        if stage.combine is Combine.MAX:
            self.tops.add(stage.buffer)
            return _is_least(stage.init) and self._is_masked(value)
        if isinstance(stage.init, FloatImm) and stage.init.value == 0:
            self.totals.add(stage.buffer)
        return stage.combine is Combine.SUM and stage.free_order and self._is_zero(value)

    def ends(self, stage: Stage) -> bool:
        """Whether the second product is the same without masked keys, if its factor is finite."""
        named = self._rename_axes(stage)
        if named is None or not self._goes_along(stage) or not isinstance(named[0], Mul):
            return False
        a, b = named[0].a, named[0].b
        if not self._is_zero(a):
            a, b = b, a
        return self._is_zero(a) and not _mentions(b, self.at)

    def _goes_along(self, stage: Stage) -> bool:
        along = [axis.var for axis in stage.reduced if axis.size != 1]
        return along == [self.found[-1]]

    def _rename_axes(self, stage: Stage) -> tuple[PrimExpr, dict[Var, Var]] | None:
        """Return the value of a stage by the iterators of the first product."""
        loads = [p for p in by_class(stage.value).get(BufferLoad, ()) if p.buffer in self.at]
        if stage.init is not None and _mentions(stage.init, self.at):
            return None
        table = self._table(stage, loads)
        if table is None:
            return None
        self.found.append(next(var for var, name in table.items() if name is self.keys.var))
        single = [axis.var for axis in (*stage.axes, *stage.reduced) if axis.size == 1]
        return substitute(stage.value, {**dict.fromkeys(single, imm64(0)), **table}), table

    def _table(self, stage: Stage, loads: Sequence[BufferLoad]) -> dict[Var, Var] | None:
        """Name the iterators of a stage as those of the first product."""
        names = [*(axis.var for axis in self.outer), self.keys.var]
        extents = {axis.var: axis.extent for axis in (*stage.axes, *stage.reduced)}
        table: dict[Var, Var] = {}
        for load in loads:
            for name, place in zip(names, self.at[load.buffer], strict=True):
                var = load.indices[place]
                if not isinstance(var, Var) or table.setdefault(var, name) is not name:
                    return None
        key = next((var for var, name in table.items() if name is self.keys.var), None)
        if key is None or len(table) != len(names):
            return None
        return table if structural_equal(extents.get(key, imm64(-1)), self.keys.extent) else None

    def _take_each(self, stage: Stage, value: PrimExpr, table: Mapping[Var, Var]) -> bool:
        """Whether this holds for a stage with an element for each key; record its result."""
        place = self._order([substitute(i, table) for i in stage.indices])
        if -1 in place:
            return False
        if self._is_masked(value):
            self.masked.add(stage.buffer)
        elif self._is_weight(value) or self._is_share(value):
            self.zeros.add(stage.buffer)
        else:
            return False
        self.at[stage.buffer] = place
        return True

    def _is_masked(self, value: PrimExpr) -> bool:
        """Whether an expression is the masked score, the same in all stages that use it."""
        if isinstance(value, BufferLoad):
            return value.buffer in self.masked
        if not isinstance(value, Select) or not _is_least(value.false_value):
            return False
        if _mentions(value.condition, self.at) or _mentions(
            value.true_value, self.masked | self.zeros
        ):
            return False
        if self.score is None:
            self.score = value
        return structural_equal(self.score, value)

    def _is_share(self, value: PrimExpr) -> bool:
        """Whether this is ``weight / total``."""
        if not isinstance(value, Div) or not isinstance(value.b, BufferLoad):
            return False
        return self._is_zero(value.a) and value.b.buffer in self.totals

    def _is_weight(self, value: PrimExpr) -> bool:
        """Whether this is ``exp(score - top)``, maybe with another number for a top of -inf."""
        if not isinstance(value, Call) or getattr(value.op, "name", "") != "tir.exp":
            return False
        (power,) = value.args
        if not isinstance(power, Sub) or not self._is_masked(power.a):
            return False
        top = power.b
        if isinstance(top, Select):
            asked, other = top.condition, top.true_value
            guards = isinstance(asked, Eq) and _is_least(asked.b)
            if not guards or not isinstance(other, FloatImm) or not math.isfinite(other.value):
                return False
            assert isinstance(asked, Eq)
            if not structural_equal(asked.a, top.false_value):
                return False
            top = top.false_value
        return isinstance(top, BufferLoad) and top.buffer in self.tops

    def _is_zero(self, value: PrimExpr) -> bool:
        return isinstance(value, BufferLoad) and value.buffer in self.zeros


def _mentions(value: PrimExpr, buffers: Container[Buffer]) -> bool:
    return any(load.buffer in buffers for load in by_class(value).get(BufferLoad, ()))


def _is_least(value: PrimExpr) -> bool:
    return isinstance(value, FloatImm) and value.value == -math.inf


# -- conditions --------------------------------------------------------------------------------
def _limit(condition: PrimExpr, outer: Sequence[Axis], keys: Axis) -> PrimExpr | None:
    """Return how many keys a row may see at most, by one of the mask's conditions."""
    row = outer[-1]
    for part in reversed(conjuncts(condition)):
        if not isinstance(part, (LE, LT, GE, GT)):
            continue
        less, more = (part.a, part.b) if isinstance(part, (LE, LT)) else (part.b, part.a)
        line = _line(less, more, (row, keys))
        if line is None or line.of_key != 1 or line.of_row > 0:
            continue
        found = sub(mul(row.var, imm64(-line.of_row)), line.rest)
        return add(found, imm64(1)) if isinstance(part, (LE, GE)) else found
    return None


class _Line(NamedTuple):
    """``of_row * row + of_key * key + rest``."""

    of_row: int
    of_key: int
    rest: PrimExpr


def _line(less: PrimExpr, more: PrimExpr, axes: tuple[Axis, Axis]) -> _Line | None:
    """Read a difference as affine in row and key; None if it is not, or may overflow."""
    row, key = axes
    done: list[_Line] = []
    ahead: list[tuple[PrimExpr, int]] = [(less, 1), (more, -1)]
    while ahead:
        part, sign = ahead.pop()
        bare = _strip_casts(part, axes)
        if bare is row.var or bare is key.var:
            done.append(_Line(sign * (bare is row.var), sign * (bare is key.var), imm64(0)))
        elif isinstance(part, (Add, Sub)) and _is_wide(part):
            ahead.append((part.a, sign))
            ahead.append((part.b, -sign if isinstance(part, Sub) else sign))
        elif {row.var, key.var} & set(by_class(part).get(Var, ())) or not _is_plain(part):
            return None
        else:
            done.append(_Line(0, 0, mul(imm64(sign), part)))
    rest: PrimExpr = imm64(0)
    for line in done:
        rest = add(rest, line.rest)
    return _Line(sum(line.of_row for line in done), sum(line.of_key for line in done), rest)


def _is_wide(expr: PrimExpr) -> bool:
    return expr.dtype.is_int and expr.dtype.bits == 64 and expr.dtype.lanes == 1


def _is_plain(expr: PrimExpr) -> bool:
    """Whether an expression has 64 bits, and neither reads memory nor calls a function."""
    seen = by_class(expr)
    return _is_wide(expr) and not seen.get(BufferLoad) and not seen.get(Call)


def _strip_casts(expr: PrimExpr, axes: tuple[Axis, Axis]) -> PrimExpr | None:
    """Strip a cast of an iterator, if its values fit."""
    bits = expr.dtype.bits
    while isinstance(expr, Cast) and expr.dtype.is_int:
        bits = min(bits, expr.dtype.bits)
        expr = expr.value
    for axis in axes:
        if expr is axis.var:
            fits = bits >= expr.dtype.bits or (
                axis.size is not None and axis.size < 2 ** (bits - 1)
            )
            return expr if fits else None
    return None
