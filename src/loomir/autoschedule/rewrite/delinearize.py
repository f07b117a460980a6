"""Delinearize element-wise stages whose indices divide axes: mixed-radix digits become axes.

Reshapes around a transposition read ``x[(i * 768 + j) // 64 // 12, ...]``. Written in the digits
that such divisions name, indices are affine again, and arrays are contiguous along some digits.
Sizes that are known only at run time are treated like numbers: indices that divide by them, or
repeat an array as ``x[i % n, j % m]``, get digits of these sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final, NamedTuple

from loomir.arith.fold import add, fold_expr, imm64, int64, mul
from loomir.autoschedule.builders.evaluate import value_at
from loomir.autoschedule.builders.loops import with_shape
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.monomial import ONE, Monomial
from loomir.ir.visit import by_class, fold, rewrite
from loomir.support.dtype import DataType
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Add, Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Sub, Var

__all__ = ["delinearize"]

_MOST: Final = 12
"""Axes that a stage may get."""

_Size = Monomial | None
_Digits = dict[Var, list["_Digit"]]


class _Digit(NamedTuple):
    """A part of an axis: its variable, how many values it has, and how that is written."""

    var: Var
    size: Monomial | None
    """None if an axis is as long as something that is not a product: it stays whole."""
    extent: PrimExpr


class _Sum(dict[Var, Monomial]):
    """Digits times factors, and a number (``rest``), all of them 0 or more."""

    rest: int = 0


class _SplitError(Exception):
    """Raised to split a digit first, into two that take so many values."""

    def __init__(self, digit: Var, high: Monomial, low: Monomial) -> None:
        super().__init__()
        self.digit, self.sizes = digit, (high, low)


def delinearize(stage: Stage, sizes: Set[Var] = frozenset()) -> Stage | None:
    """Return the stage with an axis for each digit, which stores to a view; None for others.

    ``sizes`` are never negative.
    """
    if stage.combine is not Combine.NONE or stage.in_place or stage.buffer.strides:
        return None
    loads: list[BufferLoad] = by_class(stage.value).get(BufferLoad, [])
    indices = [index for load in loads for index in load.indices]
    if not any(_divides(index) for index in indices):
        return None
    if any(axis.size is not None and axis.size < 1 for axis in stage.axes):
        return None
    # Where an element is computed at all, each factor of an extent is 1 or more.
    extents = [Monomial.of(_strip_max_zero(axis.extent)) for axis in stage.axes]
    sizes = sizes & {name for found in extents if found is not None for name in found.names}
    digits: _Digits = {axis.var: [_digit_of(axis, sizes)] for axis in stage.axes}
    while sum(map(len, digits.values())) <= max(_MOST, len(stage.axes)):
        try:
            sums = {id(index): _read(index, digits, sizes) for index in indices}
        except _SplitError as wanted:
            if not _split(stage, digits, wanted, sizes):
                return None
            continue
        if any(found is None for found in sums.values()):
            return None
        known = {k: s for k, s in sums.items() if s is not None}
        return _rewrite_stage(stage, digits, known, sizes)
    return None


def _digit_of(axis: Axis, sizes: Set[Var]) -> _Digit:
    return _Digit(axis.var, _size_of(axis.extent, sizes), axis.extent)


def _size_of(expr: PrimExpr, sizes: Set[Var]) -> Monomial | None:
    """Read a size that is positive whenever the axes are not empty."""
    found = Monomial.of(_strip_max_zero(expr))
    return found if found is not None and found.number > 0 and sizes >= {*found.names} else None


def _strip_max_zero(extent: PrimExpr) -> PrimExpr:
    """Drop the ``max(…, 0)`` of an extent: a product of sizes is never negative."""
    zero = isinstance(extent, Max) and isinstance(extent.b, IntImm) and extent.b.value == 0
    return extent.a if zero and isinstance(extent, Max) else extent


def _divides(index: PrimExpr) -> bool:
    found = by_class(index)
    return bool(found.get(FloorDiv) or found.get(FloorMod))


def _is_plain(stage: Stage, axis: Var, parts: Sequence[_Digit], sizes: Set[Var]) -> bool:
    """Whether an axis indexes the whole of one dimension."""
    whole = ONE
    for part in parts:
        assert part.size is not None
        whole = whole.times(part.size)
    for index, extent in zip(stage.indices, stage.buffer.shape, strict=True):
        if index is axis:
            return _size_of(int64(extent), sizes) == whole
    return False


def _split(stage: Stage, digits: _Digits, wanted: _SplitError, sizes: Set[Var]) -> bool:
    """Split a digit; return whether that is possible."""
    axis, parts = next((a, p) for a, p in digits.items() if any(d.var is wanted.digit for d in p))
    if not _is_plain(stage, axis, parts, sizes):
        return False
    k = next(k for k, digit in enumerate(parts) if digit.var is wanted.digit)
    dtype, name = wanted.digit.dtype, wanted.digit.name_hint
    parts[k : k + 1] = [_Digit(Var(name, dtype), n, n.expr()) for n in wanted.sizes]
    return True


def _read(index: PrimExpr, digits: _Digits, known: Set[Var]) -> _Sum | None:
    """Read an index as a sum of digits; None if it is none."""
    sizes = {part.var: part.size for parts in digits.values() for part in parts}

    def node(e: Any, parts: list[_Sum | Monomial | None]) -> _Sum | Monomial | None:
        if isinstance(e, Var) and e in digits:
            return _digits_of(digits[e])
        size = _size_of(e, known) if isinstance(e, (Var, Cast, Mul)) else None
        if size is not None:
            return size
        made = _strip_clamp(e, parts, sizes, known) or _evaluate(e, parts, sizes)
        if made is None or e.dtype.bits == 64:
            return made
        fits = isinstance(made, _Sum) and _fits(made, e.dtype, sizes)
        return made if fits else None

    found = fold(index, node) if index.dtype.bits == 64 else None
    return found if isinstance(found, _Sum) else None


def _evaluate(
    e: Any, parts: list[_Sum | Monomial | None], sizes: Mapping[Var, _Size]
) -> _Sum | Monomial | None:
    if isinstance(e, IntImm):
        return _number(e.value)
    if isinstance(e, Cast) and e.dtype.is_int and isinstance(parts[0], _Sum):
        return parts[0]
    left, right = parts if len(parts) == 2 else (None, None)
    if left is None or right is None:
        return None
    if isinstance(e, Mul):
        return _multiply(left, right)
    divisor = right if isinstance(right, Monomial) else _constant(right)
    if isinstance(e, (FloorDiv, FloorMod)) and isinstance(left, _Sum) and divisor is not None:
        high, low = _divide(left, divisor, sizes)
        return high if isinstance(e, FloorDiv) else low
    if isinstance(left, Monomial) or isinstance(right, Monomial):
        return None
    if isinstance(e, Add):
        return _add(left, right)
    if isinstance(e, Sub) and not right and right.rest <= left.rest:
        made = _Sum(left)
        made.rest = left.rest - right.rest
        return made
    return None


def _strip_clamp(
    e: Any, parts: list[_Sum | Monomial | None], sizes: Mapping[Var, _Size], known: Set[Var]
) -> _Sum | None:
    """Drop the clamp of an index that is within its dimension anyway."""
    if not isinstance(e, (Max, Min)) or not isinstance(parts[0], _Sum):
        return None
    if isinstance(e, Max):
        return parts[0] if isinstance(e.b, IntImm) and e.b.value <= 0 else None
    last = e.b
    if not isinstance(last, Sub) or not isinstance(last.b, IntImm) or last.b.value != 1:
        return None
    extent = _size_of(last.a, known)
    below = extent is not None and _stays_below(parts[0], extent, sizes)
    return parts[0] if below else None


def _fits(a: _Sum, dtype: DataType, sizes: Mapping[Var, _Size]) -> bool:
    """Whether the dtype can represent a sum for all values of its digits."""
    most = a.rest
    for var, factor in a.items():
        size = sizes[var]
        if size is None or size.names or factor.names:
            return False
        most += factor.number * (size.number - 1)
    return most <= dtype.max_value


def _number(value: int) -> _Sum | None:
    made = _Sum()
    made.rest = value
    return made if value >= 0 else None


def _constant(a: _Sum) -> Monomial | None:
    return Monomial(a.rest) if not a and a.rest > 0 else None


def _digits_of(parts: Sequence[_Digit]) -> _Sum:
    made = _Sum()
    factor: Monomial | None = ONE
    for part in reversed(parts):
        assert factor is not None  # what has no size is the only part
        if part.size != ONE:
            made[part.var] = factor
        factor = None if part.size is None else factor.times(part.size)
    return made


def _add(a: _Sum, b: _Sum) -> _Sum | None:
    made = _Sum(a)
    made.rest = a.rest + b.rest
    for var, factor in b.items():
        before = made.get(var)
        if before is not None and before.names != factor.names:
            return None
        number = factor.number + (0 if before is None else before.number)
        made[var] = Monomial(number, factor.names)
    return made


def _multiply(left: _Sum | Monomial, right: _Sum | Monomial) -> _Sum | Monomial | None:
    if isinstance(left, Monomial) and isinstance(right, Monomial):
        return left.times(right)
    if isinstance(left, Monomial) or (isinstance(right, _Sum) and not left):
        left, right = right, left
    assert isinstance(left, _Sum)
    if isinstance(right, Monomial):
        return _times(left, right) if not left.rest else None
    return None if right else _times(left, Monomial(right.rest))


def _times(a: _Sum, factor: Monomial) -> _Sum:
    made = _Sum({var: f.times(factor) for var, f in a.items() if factor.number})
    made.rest = a.rest * factor.number
    return made


def _divide(
    a: _Sum, divisor: Monomial, sizes: Mapping[Var, _Size]
) -> tuple[_Sum | None, _Sum | None]:
    """Return quotient and remainder, if the terms that are not multiples stay below the divisor."""
    if divisor.names and a.rest:
        return None, None
    high, low = _Sum(), _Sum()
    if not divisor.names:
        high.rest, low.rest = divmod(a.rest, divisor.number)
    for var, factor in a.items():
        quotient = factor.divide(divisor)
        if quotient is not None:
            high[var] = quotient
        else:
            low[var] = factor
    if _stays_below(low, divisor, sizes):
        return high, low
    for var, factor in low.items():
        step, size = divisor.divide(factor), sizes[var]
        if step in (None, ONE) or size is None:
            continue
        assert step is not None
        rest = size.divide(step)
        if rest is not None and rest != ONE:
            raise _SplitError(var, rest, step)
    return None, None


def _stays_below(low: _Sum, divisor: Monomial, sizes: Mapping[Var, _Size]) -> bool:
    """Whether a sum of digits is always less than a size; sizes count as positive."""
    terms: list[tuple[Monomial, Monomial]] = []
    for var, factor in low.items():
        size = sizes[var]
        if size is None:
            return False
        terms.append((factor, size))
    if divisor.known is not None and all(f.known and n.known for f, n in terms):
        most = low.rest + sum(f.number * (n.number - 1) for f, n in terms)
        return most < divisor.number
    # Each factor is a multiple of what all lower digits stay below.
    bound = Monomial(low.rest + 1)
    for factor, size in sorted(terms, key=lambda t: (len(t[0].names), t[0].number)):
        if factor.divide(bound) is None:
            return False
        bound = factor.times(size)
    return divisor.divide(bound) is not None


def _rewrite_stage(
    stage: Stage, digits: _Digits, sums: Mapping[int, _Sum], known: Set[Var]
) -> Stage:
    """Write the stage over its digits; the buffer gets a dimension for each of them."""

    def expression(found: _Sum) -> PrimExpr:
        made: PrimExpr = imm64(found.rest)
        for var, factor in found.items():
            made = add(made, mul(var, factor.expr()))
        return made

    def load_of(load: BufferLoad) -> PrimExpr:
        return BufferLoad(load.buffer, tuple(expression(sums[id(i)]) for i in load.indices))

    def digit_of(e: FloorDiv | FloorMod) -> PrimExpr:
        """Write a division that the value itself depends on, such as which bit is meant."""
        if not e.dtype.is_int:
            return e  # of unsigned constants: no index
        try:
            found = _read(e, digits, known)
        except _SplitError:
            return e
        return e if found is None else expression(found)

    table: dict[Var, PrimExpr] = {}
    for axis, parts in digits.items():
        table[axis] = expression(_digits_of(parts))
    indices: list[PrimExpr] = []
    shape: list[PrimExpr] = []
    for index, extent in zip(stage.indices, stage.buffer.shape, strict=True):
        parts = digits[index] if isinstance(index, Var) and index in digits else []
        if len(parts) > 1:
            indices += [part.var for part in parts]
            shape += [part.extent for part in parts]
        else:
            indices.append(index)
            shape.append(int64(extent))
    value = rewrite(stage.value, {BufferLoad: load_of})
    value = value_at(rewrite(value, {FloorDiv: digit_of, FloorMod: digit_of}), table)
    axes = tuple(Axis(part.var, part.extent) for parts in digits.values() for part in parts)
    return replace(
        stage,
        axes=axes,
        buffer=with_shape(stage.buffer, shape),
        indices=tuple(indices),
        value=fold_expr(value),
    )
