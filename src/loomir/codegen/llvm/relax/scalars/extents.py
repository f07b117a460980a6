"""Emit expressions of shape variables: 64-bit integer arithmetic with overflow checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loomir.codegen.llvm.assembler.types import I1, I64, struct
from loomir.codegen.llvm.assembler.values import FALSE, Value, const
from loomir.codegen.llvm.tir.expressions import EXPRESSIONS
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.ir.visit import Step
from loomir.relax.faults import division_by_zero, overflow
from loomir.support.dtype import DataType
from loomir.tir.builtins.table import BUILTINS
from loomir.tir.expr import Add, Call, Div, FloorDiv, FloorMod, IntImm, Mod, Mul, Sub

__all__ = ["EXTENTS"]

_INT64: Final = DataType("int64")
_INTRINSICS: Final[dict[type, str]] = {
    Add: "llvm.sadd.with.overflow",
    Sub: "llvm.ssub.with.overflow",
    Mul: "llvm.smul.with.overflow",
}
_LEAST: Final = -(2**63)
_SHIFT_LEFT: Final = BUILTINS["shift_left"].op


def _check(frame: FunctionFrame, e: Add | Sub | Mul) -> Step[Value]:
    if e.dtype is not _INT64:
        return (yield EXPRESSIONS[e.__class__](frame, e))
    x: Value = yield frame.value(e.a)
    y: Value = yield frame.value(e.b)
    b = frame.b
    name = _INTRINSICS[e.__class__]
    pair = b.intrinsic(name, [x, y], result=struct([I64, I1]), overloads=[I64])
    frame.require(b.not_(b.extractvalue(pair, 1)), overflow(e.span, str(e)))
    return b.extractvalue(pair, 0)


def _divide(frame: FunctionFrame, e: Div | FloorDiv | Mod | FloorMod) -> Step[Value]:
    if e.dtype is not _INT64:
        return (yield EXPRESSIONS[e.__class__](frame, e))
    x: Value = yield frame.value(e.a)
    y: Value = yield frame.value(e.b)
    b = frame.b
    divisor = e.b.value if isinstance(e.b, IntImm) else None
    if not divisor:
        nonzero = b.icmp("ne", y, const(I64, 0))
        frame.require(nonzero, division_by_zero(e.span, type(e).__name__))
    if isinstance(e, (Div, FloorDiv)):
        if divisor is None or divisor == -1:
            beyond = b.icmp("eq", x, const(I64, _LEAST))
            if divisor is None:
                beyond = b.and_(beyond, b.icmp("eq", y, const(I64, -1)))
            frame.require(b.not_(beyond), overflow(e.span, str(e)))
        quotient = b.sdiv(x, y)
        if isinstance(e, Div):
            return quotient
        rest = b.srem(x, y)
        return b.select(_crosses(b, rest, y), b.sub(quotient, const(I64, 1)), quotient)
    # The remainder by -1 is 0, also of the least integer, for which LLVM leaves it undefined.
    safe = (
        y
        if divisor not in (None, -1)
        else b.select(b.icmp("eq", y, const(I64, -1)), const(I64, 1), y)
    )
    rest = b.srem(x, safe)
    if isinstance(e, Mod):
        return rest
    return b.select(_crosses(b, rest, safe), b.add(rest, safe), rest)


def _call(frame: FunctionFrame, e: Call) -> Step[Value]:
    if e.op is not _SHIFT_LEFT or e.dtype is not _INT64:
        return (yield EXPRESSIONS[Call](frame, e))
    x: Value = yield frame.value(e.args[0])
    y: Value = yield frame.value(e.args[1])
    b = frame.b
    amount = b.and_(y, const(I64, 63))
    shifted = b.shl(x, amount)
    frame.require(b.icmp("eq", b.ashr(shifted, amount), x), overflow(e.span, str(e)))
    return shifted


def _crosses(b: Any, rest: Value, divisor: Value) -> Value:
    """Tell where truncating and flooring differ: the remainder has not the divisor's sign."""
    differ = b.icmp("slt", b.xor(rest, divisor), const(I64, 0))
    return b.select(b.icmp("ne", rest, const(I64, 0)), differ, FALSE)


EXTENTS: Final[Mapping[type, Callable[[FunctionFrame, Any], Step[Value]]]] = {
    **EXPRESSIONS,
    Add: _check,
    Sub: _check,
    Mul: _check,
    Div: _divide,
    FloorDiv: _divide,
    Mod: _divide,
    FloorMod: _divide,
    Call: _call,
}
