"""Emit integer division: by zero is a fault, ``INT_MIN / -1`` is ``INT_MIN`` with remainder 0."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import I1, I32
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.tir.constants import constant_of
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.support.dtype import DataType
from loomir.tir.expr import Div, FloorDiv, FloorMod, Mod
from loomir.tir.faults import fault

__all__ = ["DIVISIONS", "divide"]

DIVISIONS: Final = (Div, Mod, FloorDiv, FloorMod)
_QUOTIENTS: Final = (Div, FloorDiv)


def divide(
    frame: FunctionFrame, op: Div | Mod | FloorDiv | FloorMod, dtype: DataType, x: Value, y: Value
) -> Value:
    """Emit a division of integers in ``dtype``, which may be wider than the operator's."""
    kind = type(op)
    known = constant_of(op.b)
    if not known:
        by_zero = fault("zero_division", op.span, operator=kind.__name__)
        frame.require(_all_nonzero(frame.b, y), by_zero)
    b = frame.b
    if dtype.is_bool:
        # The divisor is a truth value, and not 0: it is 1.
        return x if kind in _QUOTIENTS else const(x.type, 0)
    if known is None and dtype.lanes == 1 and dtype.bits == 16:
        return _divide_in_32_bits(b, kind, dtype, x, y)
    if not dtype.is_int:
        return b.udiv(x, y) if kind in _QUOTIENTS else b.urem(x, y)
    if known == -1:
        return b.neg(x) if kind in _QUOTIENTS else const(x.type, 0)
    if known is not None and known > 0:
        return _divide_by_positive(b, kind, dtype, x, y, known)
    minus = b.icmp("eq", y, const(y.type, -1))
    safe = b.select(minus, const(y.type, 1), y) if known is None else y
    if kind in _QUOTIENTS:
        quotient = b.sdiv(x, safe)
        if kind is FloorDiv:
            quotient = _floor(b, quotient, b.srem(x, safe), safe)
        return quotient if known is not None else b.select(minus, b.neg(x), quotient)
    rest = b.srem(x, safe)
    return _sign_of_divisor(b, rest, safe) if kind is FloorMod else rest


def _divide_in_32_bits(b: Builder, kind: type, dtype: DataType, x: Value, y: Value) -> Value:
    """Divide 16-bit integers as 32-bit ones; no quotient may overflow.

    On x86, 16-bit divisions take up to five times as long.
    """
    if not dtype.is_int:
        x32, y32 = b.zext(x, I32), b.zext(y, I32)
        return b.trunc(b.udiv(x32, y32) if kind in _QUOTIENTS else b.urem(x32, y32), x.type)
    x32, y32 = b.sext(x, I32), b.sext(y, I32)
    if kind in _QUOTIENTS:
        made = b.sdiv(x32, y32)
        if kind is FloorDiv:
            made = _floor(b, made, b.srem(x32, y32), y32)
    else:
        made = b.srem(x32, y32)
        if kind is FloorMod:
            made = _sign_of_divisor(b, made, y32)
    return b.trunc(made, x.type)


def _all_nonzero(b: Builder, y: Value) -> Value:
    nonzero = b.icmp("ne", y, const(y.type, 0))
    if nonzero.type is I1:
        return nonzero
    return b.intrinsic("llvm.vector.reduce.and", [nonzero], result=I1)


def _divide_by_positive(
    b: Builder, kind: type, dtype: DataType, x: Value, y: Value, divisor: int
) -> Value:
    if divisor & (divisor - 1) == 0 and kind is FloorDiv:
        return b.ashr(x, const(x.type, divisor.bit_length() - 1))
    if divisor & (divisor - 1) == 0 and kind is FloorMod:
        return b.and_(x, const(x.type, divisor - 1))
    if kind is Div:
        return b.sdiv(x, y)
    rest = b.srem(x, y)
    if kind is Mod:
        return rest
    negative = b.ashr(rest, const(x.type, dtype.bits - 1))
    if kind is FloorMod:
        return b.add(rest, b.and_(negative, y))
    return b.add(b.sdiv(x, y), negative)


def _crosses(b: Builder, rest: Value, divisor: Value) -> Value:
    """Tell where truncating and flooring differ: the remainder has not the divisor's sign."""
    zero = const(rest.type, 0)
    differ = b.icmp("slt", b.xor(rest, divisor), zero)
    return b.and_(b.icmp("ne", rest, zero), differ)


def _floor(b: Builder, quotient: Value, rest: Value, divisor: Value) -> Value:
    down = b.sub(quotient, const(quotient.type, 1))
    return b.select(_crosses(b, rest, divisor), down, quotient)


def _sign_of_divisor(b: Builder, rest: Value, divisor: Value) -> Value:
    return b.select(_crosses(b, rest, divisor), b.add(rest, divisor), rest)
