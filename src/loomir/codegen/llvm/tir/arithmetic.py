"""Emit arithmetic and comparisons that cannot fail, on scalars and vectors.

Integers wrap. 16-bit floats are computed in float32 and rounded after each operation. This is the
correctly rounded result, because float32 has 24 bits of precision, at least twice the 11 of float16
plus two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import I16, integer
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.floats import narrow, widen
from loomir.codegen.llvm.math.fused_multiply_add import multiply_add, multiply_add_odd
from loomir.codegen.llvm.math.neighbours import compare_by_neighbour, number_of
from loomir.support.dtype import DataType
from loomir.tir.expr import GE, GT, LE, LT, NE, Add, Div, Eq, FloorDiv, FloorMod, Max, Min, Mul, Sub

__all__ = ["binary", "compare", "fused_multiply_add", "sign_bits"]

BinaryEmitter: TypeAlias = Callable[[Builder, Value, Value], Value]


def _extreme(predicate: str, first: str) -> BinaryEmitter:
    """Return the emitter of a minimum or maximum: x if both are equal, NaN if either is NaN.

    ``y`` is the result if it compares with ``x`` by ``predicate``, ``x`` if it compares with ``y``
    by ``first``.
    """

    def emit(b: Builder, x: Value, y: Value) -> Value:
        if _is_number(y):
            return b.select(b.fcmp(predicate, y, x), y, x)
        if _is_number(x):
            return b.select(b.fcmp(first, x, y), x, y)
        # One instruction of x86, whose result is x if either is NaN.
        chosen = b.select(b.fcmp(predicate, y, x), y, x)
        # All bits set are a NaN. With y itself, LLVM would combine both selects into one of masks.
        t = integer(x.type.bits).with_lanes(x.type.lanes)
        bits = b.select(b.fcmp("uno", y, y), const(t, -1), b.bitcast(chosen, t))
        return b.bitcast(bits, x.type)

    return emit


def _is_number(x: Value) -> bool:
    number = number_of(x)
    return number is not None and not math.isnan(number)


_FLOAT: Final[dict[type, BinaryEmitter]] = {
    Add: Builder.fadd,
    Sub: Builder.fsub,
    Mul: Builder.fmul,
    Div: Builder.fdiv,
    Min: _extreme("olt", "ole"),
    Max: _extreme("ogt", "oge"),
}
_INTEGER: Final[dict[type, BinaryEmitter]] = {Add: Builder.add, Sub: Builder.sub, Mul: Builder.mul}
_SIGNED: Final = {Eq: "eq", NE: "ne", LT: "slt", LE: "sle", GT: "sgt", GE: "sge"}
_UNSIGNED: Final = {Eq: "eq", NE: "ne", LT: "ult", LE: "ule", GT: "ugt", GE: "uge"}
_ORDERED: Final = {Eq: "oeq", NE: "une", LT: "olt", LE: "ole", GT: "ogt", GE: "oge"}
# If this comparison holds, the result is the first operand.
_KEEPS: Final[dict[type, type]] = {Min: LE, Max: GE}


def binary(b: Builder, kind: type, dtype: DataType, x: Value, y: Value) -> Value:
    """Emit an operator of ``BinaryOp`` other than integer division."""
    if dtype.is_float:
        if kind is FloorMod:
            return _float_remainder(b, dtype, x, y)
        if kind is FloorDiv:
            quotient = binary(b, Div, dtype, x, y)
            return narrow(b, b.intrinsic("llvm.floor", [widen(b, quotient, dtype)]), dtype)
        return narrow(b, _FLOAT[kind](b, widen(b, x, dtype), widen(b, y, dtype)), dtype)
    if kind in _KEEPS:
        return b.select(compare(b, _KEEPS[kind], dtype, x, y), x, y)
    return _INTEGER[kind](b, x, y)


def _float_remainder(b: Builder, dtype: DataType, x: Value, y: Value) -> Value:
    whole = binary(b, FloorDiv, dtype, x, y)
    return binary(b, Sub, dtype, x, binary(b, Mul, dtype, whole, y))


def compare(b: Builder, kind: type, dtype: DataType, x: Value, y: Value) -> Value:
    """Emit an operator of ``CmpOp``."""
    if dtype.is_float:
        return compare_by_neighbour(b, _ORDERED[kind], widen(b, x, dtype), widen(b, y, dtype))
    return b.icmp((_SIGNED if dtype.is_int else _UNSIGNED)[kind], x, y)


def fused_multiply_add(
    b: Builder, dtype: DataType, x: Value, y: Value, z: Value, convert: Callable[..., Value]
) -> Value:
    """Emit ``x * y + z``, rounded once. ``convert`` casts between dtypes."""
    if dtype.bits > 16:
        return multiply_add(b, x, y, z)
    double = DataType("float64").with_lanes(dtype.lanes)
    made = multiply_add_odd(b, *(convert(b, v, dtype, double) for v in (x, y, z)))
    return convert(b, made, double, dtype)


def sign_bits(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return the bits of a 16-bit float, and only its sign bit."""
    t = I16.with_lanes(x.type.lanes)
    bits = b.bitcast(x, t)
    return bits, b.and_(bits, const(t, 0x8000))
