"""Static analysis of expressions: constants, value ranges, strides, and cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loomir.arith.bounds.interval import TRANSFER, Interval, fits
from loomir.ir.op import Op
from loomir.ir.visit import Step, children, trampoline
from loomir.tir.builtins.table import BUILTINS, CHECKED_INDEX
from loomir.tir.expr import (
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    CmpOp,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
)

__all__ = ["constant_of", "is_cheap", "range_of", "stride_of"]


def constant_of(expr: PrimExpr) -> int | None:
    """Return the integer that an expression is in every lane, if it is a literal one."""
    while isinstance(expr, Broadcast):
        expr = expr.value
    return expr.value if isinstance(expr, IntImm) else None


def stride_of(index: PrimExpr) -> int | None:
    """Return the constant by which each lane of an index exceeds the lane before, modulo 2**64."""
    while index.dtype.lanes > 1:
        if index.dtype.bits != 64:
            return None
        if isinstance(index, Ramp):
            return constant_of(index.stride)
        if isinstance(index, Broadcast):
            return 0
        if isinstance(index, (Add, Sub)) and isinstance(index.b, Broadcast):
            index = index.a
        elif isinstance(index, Add) and isinstance(index.a, Broadcast):
            index = index.b
        elif isinstance(index, Call) and index.op is CHECKED_INDEX:
            index = index.args[0]
        else:
            return None
    return 0


_CHEAP: Final = (
    Add,
    And,
    Broadcast,
    Cast,
    CmpOp,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
)
_CHEAP_CALLS: Final = frozenset(
    BUILTINS[name].op
    for name in (
        "abs",
        "bitwise_and",
        "bitwise_not",
        "bitwise_or",
        "bitwise_xor",
        "ceil",
        "clz",
        "copysign",
        "floor",
        "fma",
        "if_then_else",
        "isfinite",
        "isinf",
        "isnan",
        "likely",
        "nearbyint",
        "popcount",
        "reinterpret",
        "round",
        "shift_left",
        "shift_right",
        "sqrt",
        "trunc",
    )
)
_BUDGET: Final = 24
"""Nodes of an expression that is examined; a bound on time, not tuned."""


def _may_divide_by_zero(node: object) -> bool:
    if not isinstance(node, (Div, Mod, FloorDiv, FloorMod)):
        return False
    return not node.dtype.is_float and not constant_of(node.b)


def is_cheap(expr: PrimExpr) -> bool:
    """Tell whether evaluating an expression whose value is dropped is harmless and costs little.

    Nothing that may fault, read memory or call is cheap; neither is a long expression.
    """
    stack: list[object] = [expr]
    for _ in range(_BUDGET):
        if not stack:
            return True
        node = stack.pop()
        if isinstance(node, Call):
            if not isinstance(node.op, Op) or node.op not in _CHEAP_CALLS:
                return False
        elif not isinstance(node, _CHEAP) or _may_divide_by_zero(node):
            return False
        assert isinstance(node, PrimExpr)
        stack.extend(children(node))
    return not stack


def range_of(expr: PrimExpr, known: Mapping[Var, Interval]) -> Interval | None:
    """Bound an integer expression; None if a step of it might overflow its dtype.

    ``known`` bounds variables. An expression with bounds can be evaluated in a wider dtype, with
    the same result.
    """
    return trampoline(_range(expr, known))


def _range(expr: PrimExpr, known: Mapping[Var, Interval]) -> Step[Interval | None]:
    found: Interval | None = None
    if isinstance(expr, Var):
        return known.get(expr)
    if isinstance(expr, IntImm):
        return Interval(expr.value, expr.value)
    if isinstance(expr, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)) and expr.dtype.lanes == 1:
        a: Interval | None = yield _range(expr.a, known)
        b: Interval | None = None if a is None else (yield _range(expr.b, known))
        by_what = constant_of(expr.b) if isinstance(expr, (FloorDiv, FloorMod)) else 1
        if a is not None and b is not None and by_what is not None and by_what > 0:
            found = TRANSFER[type(expr)](a, b)
    return None if found is None or not fits(found, expr.dtype) else found
