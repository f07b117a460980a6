"""Smart constructors: arithmetic that folds constants as it builds nodes, and int64 indices.

Every rewrite here is exact in two's complement, in which sums and products of wrapping integers
form a ring. An operand is dropped only if evaluating it has no effect and cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from loomir.ir.visit import rewrite
from loomir.support.dtype import BOOL, DataType
from loomir.tir.analysis.effects import is_discardable
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Sub,
)

__all__ = [
    "FOLDS",
    "INT64",
    "add",
    "fold_expr",
    "fold_node",
    "imm",
    "imm64",
    "int64",
    "mul",
    "product",
    "splat",
    "sub",
    "to_int",
]

INT64: Final = DataType("int64")


def imm(value: int, dtype: DataType) -> IntImm:
    """Make a constant, wrapped to its dtype in two's complement."""
    if dtype.min_value <= value <= dtype.max_value:
        return IntImm(value, dtype)
    value &= (1 << dtype.bits) - 1
    return IntImm(value - (1 << dtype.bits) if value > dtype.max_value else value, dtype)


def imm64(value: int) -> IntImm:
    """Make an int64 constant, wrapped."""
    return imm(value, INT64)


def splat(e: PrimExpr, lanes: int) -> PrimExpr:
    """Broadcast a scalar if more than one lane is wanted."""
    return e if lanes == e.dtype.lanes else Broadcast(e, lanes)


def _value(e: PrimExpr) -> int | None:
    return e.value if isinstance(e, IntImm) else None


def to_int(e: PrimExpr, dtype: DataType) -> PrimExpr:
    """Convert an integer to an integer dtype of as many lanes.

    Dropping high bits commutes with sums, so that a ramp stays one; extending them does not, unless
    the ramp is constant and does not wrap.
    """
    source = e.dtype
    if source is dtype:
        return e
    if isinstance(e, IntImm):
        return imm(e.value, dtype)
    element = dtype.element
    if isinstance(e, Broadcast):
        return Broadcast(to_int(e.value, element), e.lanes)
    if isinstance(e, Ramp):
        exact = element.bits <= source.bits
        if isinstance(e.base, IntImm) and isinstance(e.stride, IntImm):
            last = e.base.value + (e.lanes - 1) * e.stride.value
            exact = exact or source.min_value <= last <= source.max_value
        if exact:
            return Ramp(to_int(e.base, element), to_int(e.stride, element), e.lanes)
    return Cast(e, dtype)


def int64(e: PrimExpr) -> PrimExpr:
    """Extend an index to int64 by its own signedness, lane by lane."""
    return to_int(e, INT64.with_lanes(e.dtype.lanes))


def add(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Add two integers of one element; a scalar beside a vector is broadcast."""
    if a.dtype.lanes > 1 or b.dtype.lanes > 1:
        return _add_vectors(a, b)
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return imm(x + y, a.dtype)
    if x is not None:  # constants move to the right
        a, b, x, y = b, a, y, x
    if y == 0:
        return a
    inner = _value(a.b) if isinstance(a, Add) else None
    if isinstance(a, Add) and inner is not None:
        if y is not None:
            return add(a.a, imm(inner + y, a.dtype))
        return Add(Add(a.a, b), a.b)
    return Add(a, b)


def _add_vectors(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    x = a.value if isinstance(a, Broadcast) else a
    y = b.value if isinstance(b, Broadcast) else b
    lanes = max(a.dtype.lanes, b.dtype.lanes)
    if x.dtype.lanes == y.dtype.lanes == 1:
        return Broadcast(add(x, y), lanes)
    if _value(x) == 0:
        return y
    if _value(y) == 0:
        return x
    if isinstance(x, Ramp) and y.dtype.lanes == 1:
        return Ramp(add(x.base, y), x.stride, lanes)
    if isinstance(y, Ramp) and x.dtype.lanes == 1:
        return Ramp(add(x, y.base), y.stride, lanes)
    if isinstance(x, Ramp) and isinstance(y, Ramp):
        return Ramp(add(x.base, y.base), add(x.stride, y.stride), lanes)
    return Add(splat(x, lanes), splat(y, lanes))


def sub(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Subtract two integers of one element; a scalar beside a vector is broadcast."""
    lanes = max(a.dtype.lanes, b.dtype.lanes)
    if lanes == 1:
        x, y = _value(a), _value(b)
        if x is not None and y is not None:
            return imm(x - y, a.dtype)
        return a if y == 0 else Sub(a, b)
    u = a.value if isinstance(a, Broadcast) else a
    v = b.value if isinstance(b, Broadcast) else b
    if u.dtype.lanes == v.dtype.lanes == 1:
        return Broadcast(sub(u, v), lanes)
    if isinstance(u, Ramp) and v.dtype.lanes == 1:
        return Ramp(sub(u.base, v), u.stride, lanes)
    if isinstance(v, Ramp) and u.dtype.lanes == 1:
        down = sub(imm(0, v.stride.dtype), v.stride)
        return Ramp(sub(u, v.base), down, lanes)
    if isinstance(u, Ramp) and isinstance(v, Ramp):
        return Ramp(sub(u.base, v.base), sub(u.stride, v.stride), lanes)
    return Sub(splat(u, lanes), splat(v, lanes))


def mul(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Multiply two integers of one element; a scalar beside a vector is broadcast."""
    if a.dtype.lanes > 1 or b.dtype.lanes > 1:
        return _mul_vectors(a, b)
    x, y = _value(a), _value(b)
    if x is not None and y is not None:
        return imm(x * y, a.dtype)
    if x is not None:
        a, b, x, y = b, a, y, x
    if y == 1:
        return a
    if y == 0 and is_discardable(a):
        return b
    if y is not None and isinstance(a, Mul):
        inner = _value(a.b)
        if inner is not None:
            return mul(a.a, imm(inner * y, a.dtype))
    return Mul(a, b)


def _mul_vectors(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    x = a.value if isinstance(a, Broadcast) else a
    y = b.value if isinstance(b, Broadcast) else b
    lanes = max(a.dtype.lanes, b.dtype.lanes)
    if x.dtype.lanes == y.dtype.lanes == 1:
        return Broadcast(mul(x, y), lanes)
    if x.dtype.lanes == 1:
        x, y = y, x
    if _value(y) == 1:
        return x
    if isinstance(x, Ramp) and y.dtype.lanes == 1:
        return Ramp(mul(x.base, y), mul(x.stride, y), lanes)
    return Mul(splat(x, lanes), splat(y, lanes))


def product(factors: Iterable[PrimExpr]) -> PrimExpr:
    """Multiply extents, as int64."""
    made: PrimExpr = imm64(1)
    for factor in factors:
        made = mul(made, int64(factor))
    return made


# -- nodes with folded operands ------------------------------------------------------------------
def _divide_truncating(a: int, b: int) -> int:
    """Divide towards zero."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


_FOLD: Final[dict[type, Callable[[int, int], int]]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: _divide_truncating,
    Mod: lambda a, b: a - _divide_truncating(a, b) * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
    Eq: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
}
_TESTS: Final = frozenset({Eq, NE, LT, LE, GT, GE})
_DIVIDE: Final = frozenset({Div, Mod, FloorDiv, FloorMod})
_RING: Final[dict[type, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {Add: add, Sub: sub, Mul: mul}


def _binary(e: Any) -> PrimExpr:
    a, b = e.a, e.b
    kind: Any = e.__class__
    if isinstance(a, IntImm) and isinstance(b, IntImm) and (a.dtype.is_integer or kind in _TESTS):
        if kind in _DIVIDE and b.value == 0:
            return e
        value = int(_FOLD[kind](a.value, b.value))
        return imm(value, e.dtype)
    if not e.dtype.is_integer or not a.dtype.is_integer:
        return e
    if kind in _RING:
        made = _RING[kind](a, b)
        same = type(made) is kind and made.a is a and made.b is b  # type: ignore[attr-defined]
        return e if same else made
    if isinstance(b, IntImm) and b.value == 1:
        if kind in (Div, FloorDiv):
            return a
        if kind in (Mod, FloorMod) and is_discardable(a):
            return imm(0, e.dtype)
    return e


def _truth(e: PrimExpr) -> bool | None:
    return bool(e.value) if isinstance(e, IntImm) else None


def _and(e: And) -> PrimExpr:
    left, right = _truth(e.a), _truth(e.b)
    if left is not None:
        return e.b if left else e.a
    if right is False and is_discardable(e.a):
        return e.b
    return e.a if right else e


def _or(e: Or) -> PrimExpr:
    left, right = _truth(e.a), _truth(e.b)
    if left is not None:
        return e.a if left else e.b
    if right and is_discardable(e.a):
        return e.b
    return e.a if right is False else e


def _not(e: Not) -> PrimExpr:
    value = _truth(e.a)
    return e if value is None else imm(not value, BOOL)


def _select(e: Select) -> PrimExpr:
    condition = _truth(e.condition)
    if condition is None or e.condition.dtype.lanes != 1:
        return e
    kept, other = e.true_value, e.false_value
    if not condition:
        kept, other = other, kept
    return kept if is_discardable(other) else e


def _cast(e: Cast) -> PrimExpr:
    source, target = e.value.dtype, e.dtype
    if source is target:
        return e.value
    if isinstance(e.value, IntImm) and target.is_bool:
        return imm(e.value.value != 0, BOOL)
    if source.is_integer and target.is_integer:
        made = to_int(e.value, target)
        return e if isinstance(made, Cast) else made
    return e


def _call(e: Call) -> PrimExpr:
    if e.op is IF_THEN_ELSE:
        condition = _truth(e.args[0])
        if condition is not None:
            return e.args[1] if condition else e.args[2]
    return e


FOLDS: Final[dict[type, Callable[[Any], PrimExpr]]] = {
    **dict.fromkeys(_FOLD, _binary),
    And: _and,
    Or: _or,
    Not: _not,
    Select: _select,
    Cast: _cast,
    Call: _call,
}
"""The function that folds a node, by class."""


def fold_node(e: PrimExpr) -> PrimExpr:
    """Fold a node with folded operands; return the same one if nothing is constant.

    Only integers and conditions are folded. Expressions that may fail stay, such as a division by a
    constant zero.
    """
    fold = FOLDS.get(e.__class__)
    return e if fold is None else fold(e)


def fold_expr(expr: PrimExpr) -> PrimExpr:
    """Fold all nodes of an expression, the innermost first."""
    return rewrite(expr, FOLDS)
