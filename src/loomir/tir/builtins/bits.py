"""Builtins on integers, on bits, and on numbers of any kind."""

from __future__ import annotations

from typing import Final

from loomir.support.dtype import DataType
from loomir.tir.builtins.row import AcceptedDTypes, Args, Kind, Param, read_first_dtype, row
from loomir.tir.expr import PrimExpr

__all__ = ["FAMILY"]

FAMILY: Final = "integers and bits"

row(
    "abs",
    "x",
    AcceptedDTypes.NUMBER,
    read_first_dtype,
    "magnitude; the smallest integer stays itself",
    family=FAMILY,
    corners="0 for -0; unsigned integers stay",
)
row("bitwise_and", "x y", AcceptedDTypes.BITS, read_first_dtype, "bits set in both", family=FAMILY)
row("bitwise_or", "x y", AcceptedDTypes.BITS, read_first_dtype, "bits set in either", family=FAMILY)
row(
    "bitwise_xor",
    "x y",
    AcceptedDTypes.BITS,
    read_first_dtype,
    "bits set in exactly one",
    family=FAMILY,
)
row(
    "bitwise_not",
    "x",
    AcceptedDTypes.BITS,
    read_first_dtype,
    "bits not set",
    family=FAMILY,
    corners="for a bool, the other truth value",
)
row(
    "shift_left",
    "x y",
    AcceptedDTypes.INTEGER,
    read_first_dtype,
    "x shifted up by y modulo its width",
    family=FAMILY,
    corners="bits shifted out are lost",
)
row(
    "shift_right",
    "x y",
    AcceptedDTypes.INTEGER,
    read_first_dtype,
    "x shifted down by y modulo its width; keeps the sign",
    family=FAMILY,
    corners="unsigned integers fill up with zeros",
)


def _count(args: Args) -> DataType:
    return DataType("int32").with_lanes(args[0].dtype.lanes)


row("popcount", "x", AcceptedDTypes.INTEGER, _count, "number of bits set", family=FAMILY)
row(
    "clz",
    "x",
    AcceptedDTypes.INTEGER,
    _count,
    "number of zero bits above the highest set bit",
    family=FAMILY,
    corners="the width for 0",
)

# -- fixed point -------------------------------------------------------------------------------
row(
    "q_multiply_shift",
    "x y q s",
    AcceptedDTypes.INT32,
    read_first_dtype,
    "x * y * 2**(s - q), rounded to nearest, halves up",
    family=FAMILY,
    corners="the product is exact before it is rounded; then it wraps to int32",
)


def _is_int32(arg: PrimExpr) -> bool:
    return arg.dtype.element == "int32"


def _is_bool(arg: PrimExpr) -> bool:
    return arg.dtype.is_bool


_INT32: Final = Kind("int32", _is_int32)
_BOOL: Final = Kind("a bool", _is_bool)


def _equal_lanes(args: Args, result: DataType) -> str | None:
    wrong = next((a for a in args if a.dtype.lanes != args[0].dtype.lanes), None)
    if wrong is None:
        return None
    return f"takes arguments of as many lanes as x ({args[0].dtype}), not {wrong.dtype}"


row(
    "q_multiply_shift_per_axis",
    (
        Param("x", _INT32),
        Param("y", _INT32),
        Param("ls", _INT32),
        Param("rs", _INT32),
        Param("q", _INT32),
        Param("is_lshift_required", _BOOL),
        Param("is_rshift_required", _BOOL),
    ),
    AcceptedDTypes.EACH,
    read_first_dtype,
    "x * y * 2**(ls - rs - q), rounded to nearest, halves up; a shift counts where it is required",
    family=FAMILY,
    corners="the product is exact before it is rounded; then it wraps to int32",
    check=_equal_lanes,
)
