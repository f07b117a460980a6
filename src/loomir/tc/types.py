"""Scalar types, and the C conversions between them."""

from __future__ import annotations

from typing import Final

from loomir.support.dtype import BOOL, DataType
from loomir.tir.expr import NE, FloatImm, IntImm, PrimExpr, cast, const

__all__ = [
    "INDEX",
    "SCALARS",
    "as_index",
    "as_truth",
    "common_dtype",
    "convert",
    "identity",
    "promote",
]

INDEX: Final = DataType("int64")
"""The dtype of sizes and index variables."""
_INT: Final = DataType("int32")

SCALARS: Final[dict[str, DataType]] = {
    "double": DataType("float64"),
    "float": DataType("float32"),
    "half": DataType("float16"),
    "int": _INT,
    "byte": DataType("uint8"),
    "bool": BOOL,
    **{
        name: DataType(name)
        for name in (
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "bfloat16"),
        )
    },
}
"""The scalar types by name."""


def promote(dtype: DataType) -> DataType:
    """Return the dtype in which C computes with a value: integers narrower than int32 widen."""
    if dtype.is_bool or (dtype.is_integer and dtype.bits < 32):
        return _INT
    return dtype


def common_dtype(a: DataType, b: DataType) -> DataType | None:
    """Return the dtype in which C computes with two values; None for float16 beside bfloat16."""
    if a.is_float or b.is_float:
        if not (a.is_float and b.is_float):
            return a if a.is_float else b
        if a.bits == b.bits and a is not b:
            return None
        return a if a.bits >= b.bits else b
    a, b = promote(a), promote(b)
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.is_uint else b


def convert(value: PrimExpr, dtype: DataType) -> PrimExpr:
    """Convert a value as C's assignment does; constants become constants where that is exact."""
    if value.dtype is dtype:
        return value
    if dtype.is_bool:
        return as_truth(value)
    if isinstance(value, IntImm) and dtype.is_float and abs(value.value) <= 1 << 8:
        return const(float(value.value), dtype)
    narrows = dtype.bits < value.dtype.bits and dtype.is_float
    if isinstance(value, FloatImm) and narrows and abs(value.value) <= dtype.max_finite:
        return FloatImm(value.value, dtype, span=value.span)
    return cast(value, dtype)


def as_truth(value: PrimExpr) -> PrimExpr:
    """Return whether a value is not zero."""
    return value if value.dtype.is_bool else NE(value, const(0, value.dtype))


def as_index(value: PrimExpr) -> PrimExpr:
    """Convert an integer to the dtype of sizes."""
    return cast(value, INDEX)


def identity(op: str, dtype: DataType) -> PrimExpr:
    """Return what a reduction starts from."""
    if op[0] in "+*":
        return const(0 if op[0] == "+" else 1, dtype)
    low = op.startswith("max")
    if dtype.is_float:
        return FloatImm(float("-inf") if low else float("inf"), dtype)
    return IntImm(dtype.min_value if low else dtype.max_value, dtype)
