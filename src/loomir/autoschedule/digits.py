"""Element-wise stages that take their axes apart by division: each digit becomes an axis.

Reshapes around a transposition read ``x[(i * 768 + j) // 64 // 12, ...]``. Written by the digits
that such divisions name, indices are sums of axes again, and the arrays lie along some of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

from loomir.arith.fold import FOLDS, add, imm64, mul
from loomir.autoschedule.instance import at
from loomir.autoschedule.nest import with_shape
from loomir.autoschedule.stage import Axis, Combine, Stage
from loomir.ir.visit import by_class, fold, rewrite
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Sub, Var

__all__ = ["in_digits"]

_MOST: Final = 12
"""Axes that a stage may get."""

_Digits = dict[Var, list[Axis]]


class _Sum(dict[Var, int]):
    """Digits times numbers, and a number (``rest``), all of them 0 or more."""

    rest: int = 0


class _SplitError(Exception):
    """An axis that has to be taken apart first, so that so many values are the lower digit."""

    def __init__(self, axis: Var, low: int) -> None:
        super().__init__()
        self.axis, self.low = axis, low


def in_digits(stage: Stage) -> Stage | None:
    """Give the stage with an axis for each digit, which stores to a view; None for others."""
    if stage.combine is not Combine.NONE or stage.in_place or stage.buffer.strides:
        return None
    loads: list[BufferLoad] = by_class(stage.value).get(BufferLoad, [])
    indices = [index for load in loads for index in load.indices]
    if not any(_divides(index) for index in indices):
        return None
    if any(axis.size is None or axis.size < 1 for axis in stage.axes) or not _is_plain(stage):
        return None
    digits: _Digits = {axis.var: [axis] for axis in stage.axes}
    while sum(map(len, digits.values())) <= max(_MOST, len(stage.axes)):
        try:
            sums = {id(index): _read(index, digits) for index in indices}
        except _SplitError as wanted:
            if not _split(digits, wanted):
                return None
            continue
        if any(found is None for found in sums.values()):
            return None
        return _written(stage, digits, {k: s for k, s in sums.items() if s is not None})
    return None


def _divides(index: PrimExpr) -> bool:
    found = by_class(index)
    return bool(found.get(FloorDiv) or found.get(FloorMod))


def _is_plain(stage: Stage) -> bool:
    """Whether the elements are all of a buffer, and each index is an axis."""
    extents = {axis.var: axis.size for axis in stage.axes}
    pairs = zip(stage.indices, stage.buffer.shape, strict=True)
    return all(
        isinstance(extent, IntImm)
        and (
            (isinstance(index, Var) and extents.get(index) == extent.value)
            or (isinstance(index, IntImm) and extent.value == 1)
        )
        for index, extent in pairs
    )


def _split(digits: _Digits, wanted: _SplitError) -> bool:
    for parts in digits.values():
        for k, axis in enumerate(parts):
            if axis.var is wanted.axis:
                size = axis.size
                if size is None or size % wanted.low or not 1 < wanted.low < size:
                    return False
                dtype, name = axis.var.dtype, axis.var.name_hint
                sizes = (size // wanted.low, wanted.low)
                parts[k : k + 1] = [Axis(Var(name, dtype), imm64(n)) for n in sizes]
                return True
    return False


def _read(index: PrimExpr, digits: _Digits) -> _Sum | None:
    """Read an index as a sum of digits; None where it is none."""
    sizes = {part.var: part.size or 1 for parts in digits.values() for part in parts}

    def node(e: Any, parts: list[_Sum | None]) -> _Sum | None:
        if isinstance(e, IntImm):
            return _number(e.value)
        if isinstance(e, Var):
            return _digits_of(digits[e]) if e in digits else None
        left, right = parts if len(parts) == 2 else (None, None)
        if left is None or right is None:
            return None
        if isinstance(e, Add):
            return _added(left, right)
        if isinstance(e, Sub) and not right and right.rest <= left.rest:
            return _added(left, _number(-right.rest))
        if isinstance(e, Mul) and not (left and right):
            factor, other = (left.rest, right) if not left else (right.rest, left)
            return _times(other, factor)
        if isinstance(e, (FloorDiv, FloorMod)) and not right and right.rest > 0:
            high, low = _parted(left, right.rest, sizes)
            return high if isinstance(e, FloorDiv) else low
        return None

    return fold(index, node) if index.dtype.bits == 64 else None


def _number(value: int) -> _Sum | None:
    made = _Sum()
    made.rest = value
    return made if value >= 0 else None


def _digits_of(parts: Sequence[Axis]) -> _Sum:
    made = _Sum()
    for k, part in enumerate(parts):
        if part.size != 1:
            made[part.var] = prod(later.size or 1 for later in parts[k + 1 :])
    return made


def _added(a: _Sum, b: _Sum | None) -> _Sum | None:
    if b is None:
        return None
    made = _Sum(a)
    made.rest = a.rest + b.rest
    for var, factor in b.items():
        made[var] = made.get(var, 0) + factor
    return made


def _times(a: _Sum, factor: int) -> _Sum | None:
    if factor < 0:
        return None
    made = _Sum({var: f * factor for var, f in a.items() if factor})
    made.rest = a.rest * factor
    return made


def _parted(a: _Sum, divisor: int, sizes: Mapping[Var, int]) -> tuple[_Sum | None, _Sum | None]:
    """Give quotient and rest: what is no multiple of the divisor has to stay below it."""
    high, low = _Sum(), _Sum()
    high.rest, low.rest = divmod(a.rest, divisor)
    most = low.rest
    for var, factor in a.items():
        if factor % divisor == 0:
            high[var] = factor // divisor
        else:
            low[var] = factor
            most += factor * (sizes[var] - 1)
    if most < divisor:
        return high, low
    for var, factor in low.items():
        if divisor % factor == 0 and 1 < divisor // factor < sizes[var]:
            raise _SplitError(var, divisor // factor)
    return None, None


def _written(stage: Stage, digits: _Digits, sums: Mapping[int, _Sum]) -> Stage:
    """Write the stage over digits, of which the buffer gets a dimension each."""

    def expression(found: _Sum) -> PrimExpr:
        made: PrimExpr = imm64(found.rest)
        for var, factor in found.items():
            made = add(made, mul(var, imm64(factor)))
        return made

    def load_of(load: BufferLoad) -> PrimExpr:
        return BufferLoad(load.buffer, tuple(expression(sums[id(i)]) for i in load.indices))

    table: dict[Var, PrimExpr] = {}
    for axis, parts in digits.items():
        table[axis] = expression(_digits_of(parts))
    indices: list[PrimExpr] = []
    shape: list[PrimExpr] = []
    for index, extent in zip(stage.indices, stage.buffer.shape, strict=True):
        parts = (
            digits[index] if isinstance(index, Var) else [Axis(Var("unit", extent.dtype), extent)]
        )
        indices += [part.var if part.size != 1 else imm64(0) for part in parts]
        shape += [part.extent for part in parts]
    value = at(rewrite(stage.value, {BufferLoad: load_of}), table)
    axes = tuple(part for parts in digits.values() for part in parts)
    return replace(
        stage,
        axes=axes,
        buffer=with_shape(stage.buffer, shape),
        indices=tuple(indices),
        value=rewrite(value, FOLDS),
    )
