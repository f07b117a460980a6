"""Integers of 2 and 4 bits, and floats of 4 and 8: stored as bytes, converted by bit arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loomir import op
from loomir.frontend.onnx.model import STORED_AS
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.proto import element_dtype
from loomir.relax.expr import Constant
from loomir.relax.node import RelaxExpr
from loomir.relax.operator.reference import xp
from loomir.support.array import Array
from loomir.support.dtype import DataType
from loomir.te import Tensor, compute, round, select
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Max, Min, PrimExpr, const

__all__ = ["decode", "encode", "is_low"]


@dataclass(frozen=True, slots=True)
class Format:
    """A float format of few bits: mantissa bits, bias, and special codes."""

    mantissa: int
    bias: int
    largest: float
    nan: int
    """The code of NaN, or its substitute."""
    infinity: int | None
    """The code of infinity; that of NaN if the format has no infinity."""
    negative_zero: bool = True
    sign: int = 0x80


_FORMATS: Final = {
    "float8e4m3fn": Format(3, 7, 448.0, 0x7F, None),
    "float8e4m3fnuz": Format(3, 8, 240.0, 0x80, None, negative_zero=False),
    "float8e5m2": Format(2, 15, 57344.0, 0x7E, 0x7C),
    "float8e5m2fnuz": Format(2, 16, 57344.0, 0x80, None, negative_zero=False),
    "float4e2m1": Format(1, 1, 6.0, 0x8, None, sign=0x8),
}
_INT32: Final = DataType("int32")
_FLOAT32: Final = DataType("float32")
_WIDTHS: Final = {"int4": 4, "int2": 2, "uint4": 4, "uint2": 2}


def is_low(element: str) -> bool:
    """Tell whether elements of a type are stored in another dtype."""
    return element in STORED_AS and STORED_AS[element] != element


def decode(node: Node, x: RelaxExpr, element: str, dtype: str = "float32") -> RelaxExpr:
    """Convert low-precision elements to numbers of a plain dtype."""
    if element in _WIDTHS or not is_low(element):
        return x if STORED_AS[element] == dtype else node.emit(op.astype(x, dtype))
    codes = xp.arange(16 if element == "float4e2m1" else 256, dtype="uint8")
    values = codes.view(element_dtype(element)).astype("float32")
    places = node.emit(op.astype(x, "int32"))
    found = node.emit(op.take(Constant(Array(values)), places, 0))
    return found if dtype == "float32" else node.emit(op.astype(found, dtype))


def encode(
    node: Node, x: RelaxExpr, element: str, *, saturate: bool = True, rounding: str = "up"
) -> RelaxExpr:
    """Convert numbers of a plain dtype to low-precision elements."""
    if element in _WIDTHS:
        return _integers(node, x, element)
    wide = x
    if str(node.info_of(x).dtype) != "float32":
        wide = node.emit(op.astype(x, "float32"))
    if element == "float8e8m0":
        return node.compute(_powers, wide, rounding, saturate)
    return node.compute(_floats, wide, _FORMATS[element], saturate)


def _integers(node: Node, x: RelaxExpr, element: str) -> RelaxExpr:
    """Keep the lowest bits of integers, including the sign."""
    bits, stored = _WIDTHS[element], STORED_AS[element]
    whole = x
    if not str(node.info_of(x).dtype).startswith(("int", "uint")):
        whole = node.emit(op.astype(x, "int32"))
    low = node.emit(
        op.bitwise_and(node.emit(op.astype(whole, stored)), _small(2**bits - 1, stored))
    )
    if stored == "uint8":
        return low
    half = _small(2 ** (bits - 1), stored)
    return node.emit(op.subtract(node.emit(op.bitwise_xor(low, half)), half))


def _small(value: int, dtype: str) -> Constant:
    return constant(value, dtype)


def _bits(value: PrimExpr) -> PrimExpr:
    return call_builtin("reinterpret", value, dtype=_INT32)


def _as_float(bits: PrimExpr) -> PrimExpr:
    return call_builtin("reinterpret", bits, dtype=_FLOAT32)


def _and(a: PrimExpr, mask: int) -> PrimExpr:
    return call_builtin("bitwise_and", a, const(mask, "int32"))


def _shift_up(a: PrimExpr, bits: int) -> PrimExpr:
    return call_builtin("shift_left", a, const(bits, "int32"))


def _down(a: PrimExpr, bits: int) -> PrimExpr:
    return call_builtin("shift_right", a, const(bits, "int32"))


def _power(exponent: PrimExpr) -> PrimExpr:
    """Return 2 to the power of a small integer."""
    return _as_float(_shift_up(exponent + 127, 23))


def _int(value: int) -> PrimExpr:
    return const(value, "int32")


def _floats(x: Tensor, form: Format, saturate: bool) -> Tensor:
    least = 1 - form.bias
    far = int(xp.float32(2 * form.largest).view("int32"))

    def element(*index: PrimExpr) -> PrimExpr:
        raw = _bits(x[index])
        size = _and(raw, 0x7FFFFFFF)
        # Larger numbers are clamped to twice the largest one, so that powers stay within float32.
        near = Min(size, _int(far))
        value = _as_float(near)
        exponent = Max(_down(near, 23) - 127, _int(least))
        step = exponent - form.mantissa
        # Round half to even; a result that reaches the next power of two gets its exponent.
        rounded = round(value * _power(-step)) * _power(step)
        grown = Max(_down(_bits(rounded), 23) - 127, _int(least))
        whole = (rounded * _power(form.mantissa - grown)).astype("int32")
        code = _shift_up(grown - least, form.mantissa) + whole
        top = _code_of(form)
        above = top if saturate else form.infinity or form.nan
        code = select(rounded > const(form.largest, "float32"), _int(above), code)
        sign = _and(_down(raw, 24 if form.sign == 0x80 else 28), form.sign)
        if not form.negative_zero:
            sign = select(code == _int(0), _int(0), sign)
        code = call_builtin("bitwise_or", code, sign)
        if not saturate and not form.negative_zero:
            code = select(rounded > const(form.largest, "float32"), _int(form.nan), code)
        code = select(size > _int(0x7F800000), _int(form.nan), code)
        return code.astype("uint8")

    return compute(x.shape, element, name="encode")


def _code_of(form: Format) -> int:
    """Return the code of the largest number."""
    mantissa, exponent = xp.frexp(form.largest)
    grown = int(exponent) - 1
    whole = int(mantissa * 2 * 2**form.mantissa)
    return ((grown - 1 + form.bias) << form.mantissa) + whole


def _powers(x: Tensor, rounding: str, saturate: bool) -> Tensor:
    def element(*index: PrimExpr) -> PrimExpr:
        size = _and(_bits(x[index]), 0x7FFFFFFF)
        exponent, rest = _down(size, 23), _and(size, 0x7FFFFF)
        more = {"up": rest > _int(0), "down": rest < _int(0)}.get(rounding, rest >= _int(0x400000))
        code = exponent + select(more, _int(1), _int(0))
        code = Min(code, _int(254)) if saturate else select(code > _int(254), _int(255), code)
        return select(size > _int(0x7F800000), _int(255), code).astype("uint8")

    return compute(x.shape, element, name="encode")
