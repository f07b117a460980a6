"""Index arithmetic in int64 that folds constants while it builds.

Every rewrite here is exact in two's complement: sums and products of wrapping integers form a ring. An
operand is dropped only where evaluating it has no effect and cannot fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from loomir.support.dtype import DataType
from loomir.tir.expr import Add, Broadcast, Cast, IntImm, Mul, PrimExpr, Ramp, Sub
from loomir.transform.tir.effects import is_discardable

__all__ = ["INT64", "add", "imm64", "int64", "mul", "product", "splat", "wrapped"]

INT64: Final = DataType("int64")


def wrapped(value: int, dtype: DataType) -> int:
    """Reduce a number to what an integer dtype holds, in two's complement."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.max_value else value


def imm64(value: int) -> IntImm:
    """Make an int64 constant, wrapped."""
    return IntImm(wrapped(value, INT64), INT64)


def int64(e: PrimExpr) -> PrimExpr:
    """Extend an index to int64 by its own signedness, lane by lane."""
    dtype = e.dtype
    if dtype.element is INT64:
        return e
    if isinstance(e, IntImm):
        return IntImm(wrapped(e.value, INT64), INT64, span=e.span)
    if isinstance(e, Broadcast):
        return Broadcast(int64(e.value), e.lanes)
    if isinstance(e, Ramp) and isinstance(e.base, IntImm) and isinstance(e.stride, IntImm):
        last = e.base.value + (e.lanes - 1) * e.stride.value
        if dtype.min_value <= last <= dtype.max_value:
            return Ramp(int64(e.base), int64(e.stride), e.lanes)
    return Cast(e, INT64.with_lanes(dtype.lanes))


def splat(e: PrimExpr, lanes: int) -> PrimExpr:
    """Broadcast a scalar where lanes are asked for."""
    return e if lanes == e.dtype.lanes else Broadcast(e, lanes)


def _value(e: PrimExpr) -> int | None:
    return e.value if isinstance(e, IntImm) else None


def add(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Add two int64 indices; a scalar beside a vector is broadcast."""
    if a.dtype.lanes != b.dtype.lanes:
        vector, scalar = (a, b) if a.dtype.lanes > 1 else (b, a)
        if _value(scalar) == 0:
            return vector
        if isinstance(vector, Ramp):
            ordered = add(a.base, b) if isinstance(a, Ramp) else add(a, vector.base)
            return Ramp(ordered, vector.stride, vector.lanes)
        if isinstance(vector, Broadcast):
            both = (add(vector.value, scalar)) if vector is a else add(scalar, vector.value)
            return Broadcast(both, vector.lanes)
        lanes = vector.dtype.lanes
        return Add(splat(a, lanes), splat(b, lanes))
    if isinstance(a, Broadcast) and not isinstance(b, Broadcast):
        return add(a.value, b)
    if isinstance(b, Broadcast):
        return add(a, b.value)
    if isinstance(a, Ramp) and isinstance(b, Ramp):
        return Ramp(add(a.base, b.base), add(a.stride, b.stride), a.lanes)
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return imm64(x + y)
    if x == 0:
        return b
    if y == 0:
        return a
    if y is not None and isinstance(a, Add) and isinstance(a.b, IntImm):
        return add(a.a, imm64(a.b.value + y))
    return Add(a, b)


def mul(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Multiply two int64 indices; a scalar beside a vector is broadcast."""
    if isinstance(a, Broadcast) and isinstance(b, Broadcast):
        return Broadcast(mul(a.value, b.value), a.lanes)
    if isinstance(a, Broadcast):
        a, b = b, a.value
    elif isinstance(b, Broadcast):
        b = b.value
    if a.dtype.lanes == 1 < b.dtype.lanes:
        a, b = b, a
    if a.dtype.lanes != b.dtype.lanes:
        if isinstance(a, Broadcast):
            return Broadcast(mul(a.value, b), a.lanes)
        if _value(b) == 1:
            return a
        if isinstance(a, Ramp):
            return Ramp(mul(a.base, b), mul(a.stride, b), a.lanes)
        return Mul(a, Broadcast(b, a.dtype.lanes))
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return imm64(x * y)
    if x is not None:
        a, b, x, y = b, a, y, x
    if y == 1:
        return a
    if y == 0 and is_discardable(a):
        return b
    if y is not None and isinstance(a, Mul) and isinstance(a.b, IntImm):
        return mul(a.a, imm64(a.b.value * y))
    return Mul(a, b)


def product(factors: Iterable[PrimExpr]) -> PrimExpr:
    """Multiply extents, as int64."""
    made: PrimExpr = imm64(1)
    for factor in factors:
        made = mul(made, int64(factor))
    return made


def minus(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Subtract two int64 scalars."""
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return imm64(x - y)
    return a if y == 0 else Sub(a, b)
