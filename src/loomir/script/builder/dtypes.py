"""The dtypes as functions: ``T.int32(5)`` makes a constant, ``T.int32(x)`` casts.

Without an argument they declare a variable, which takes the name that it is assigned to.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias, Union

from loomir.script.builder.arguments import as_dtype, as_expr, as_text, describe
from loomir.script.builder.mistakes import wrong_argument
from loomir.support.dtype import DataType
from loomir.tir.expr import Broadcast, ExprLike, FloatImm, PrimExpr, Var, cast, const
from loomir.tir.types import PointerType, PrimType

__all__ = [
    "DTypeFunction",
    "DTypeLike",
    "HandleFunction",
    "bfloat16",
    "bfloat16x2",
    "bfloat16x3",
    "bfloat16x4",
    "bfloat16x8",
    "bfloat16x16",
    "bfloat16x32",
    "bfloat16x64",
    "boolean",
    "boolx2",
    "boolx3",
    "boolx4",
    "boolx8",
    "boolx16",
    "boolx32",
    "boolx64",
    "float16",
    "float16x2",
    "float16x3",
    "float16x4",
    "float16x8",
    "float16x16",
    "float16x32",
    "float16x64",
    "float32",
    "float32x2",
    "float32x3",
    "float32x4",
    "float32x8",
    "float32x16",
    "float32x32",
    "float32x64",
    "float64",
    "float64x2",
    "float64x3",
    "float64x4",
    "float64x8",
    "float64x16",
    "float64x32",
    "float64x64",
    "handle",
    "infinity",
    "int8",
    "int8x2",
    "int8x3",
    "int8x4",
    "int8x8",
    "int8x16",
    "int8x32",
    "int8x64",
    "int16",
    "int16x2",
    "int16x3",
    "int16x4",
    "int16x8",
    "int16x16",
    "int16x32",
    "int16x64",
    "int32",
    "int32x2",
    "int32x3",
    "int32x4",
    "int32x8",
    "int32x16",
    "int32x32",
    "int32x64",
    "int64",
    "int64x2",
    "int64x3",
    "int64x4",
    "int64x8",
    "int64x16",
    "int64x32",
    "int64x64",
    "max_value",
    "min_value",
    "uint8",
    "uint8x2",
    "uint8x3",
    "uint8x4",
    "uint8x8",
    "uint8x16",
    "uint8x32",
    "uint8x64",
    "uint16",
    "uint16x2",
    "uint16x3",
    "uint16x4",
    "uint16x8",
    "uint16x16",
    "uint16x32",
    "uint16x64",
    "uint32",
    "uint32x2",
    "uint32x3",
    "uint32x4",
    "uint32x8",
    "uint32x16",
    "uint32x32",
    "uint32x64",
    "uint64",
    "uint64x2",
    "uint64x3",
    "uint64x4",
    "uint64x8",
    "uint64x16",
    "uint64x32",
    "uint64x64",
    "void",
]

DTypeLike: TypeAlias = Union[DataType, str, "DTypeFunction"]


class DTypeFunction:
    """A dtype that converts: a number to a constant, an expression by a cast.

    A string gives the floats that have no digits: ``"inf"``, ``"-inf"``, ``"nan"``.
    """

    __slots__ = ("dtype",)

    dtype: DataType

    def __init__(self, dtype: str) -> None:
        self.dtype = DataType(dtype)

    def __call__(self, value: ExprLike | str | None = None) -> PrimExpr:
        """Convert a value; without one, declare a variable."""
        dtype = self.dtype
        if value is None:
            return Var("", dtype)
        if isinstance(value, (bool, int, float)):
            return const(value, dtype)
        if isinstance(value, str):
            return self._special(value)
        expr = as_expr(value, f"the argument of T.{dtype}")
        if expr.dtype.lanes == 1 and dtype.lanes > 1:
            return Broadcast(cast(expr, dtype.element), dtype.lanes)
        return cast(expr, dtype)

    def _special(self, text: str) -> PrimExpr:
        dtype = self.dtype
        if text not in ("inf", "-inf", "nan") or not dtype.is_float:
            raise wrong_argument(
                text,
                f"T.{dtype} does not read the string {text!r}",
                help='floats read "inf", "-inf" and "nan"; write other numbers without quotes',
            )
        made = FloatImm(float(text), dtype.element)
        return made if dtype.lanes == 1 else Broadcast(made, dtype.lanes)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


class HandleFunction(DTypeFunction):
    """``T.handle``: a pointer; ``T.handle("float32", "global")`` one to elements of a dtype."""

    __slots__ = ()

    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, dtype: DTypeLike | PrimExpr | None = None, storage_scope: str = "global"
    ) -> PrimExpr:
        """Declare a pointer variable; a handle as the argument is given back."""
        if dtype is None:
            return Var("", self.dtype)
        if isinstance(dtype, PrimExpr):
            if not dtype.dtype.is_handle:
                raise wrong_argument(
                    dtype,
                    f"T.handle cannot be made of {describe(dtype)}",
                    help="pass a pointer on, or declare one with T.handle()",
                )
            return dtype
        scope = as_text(storage_scope, "the storage scope")
        pointed = PointerType(PrimType(as_dtype(dtype)), scope)
        return Var("", type_annotation=pointed)


def min_value(dtype: DTypeLike) -> PrimExpr:
    """Give the smallest finite value of a dtype."""
    wanted = as_dtype(dtype)
    if wanted.element.is_float:
        return const(-wanted.max_finite, wanted)
    _refuse_handle(wanted, dtype, "least")
    return const(wanted.min_value, wanted)


def max_value(dtype: DTypeLike) -> PrimExpr:
    """Give the largest finite value of a dtype."""
    wanted = as_dtype(dtype)
    if wanted.element.is_float:
        return const(wanted.max_finite, wanted)
    _refuse_handle(wanted, dtype, "largest")
    return const(wanted.max_value, wanted)


def infinity(dtype: DTypeLike) -> PrimExpr:
    """Give plus infinity in a float dtype."""
    wanted = as_dtype(dtype)
    if not wanted.is_float:
        raise wrong_argument(
            dtype,
            f"{wanted} has no infinity",
            help=f"use T.max_value({str(wanted)!r}), or a float dtype",
        )
    return const(math.inf, wanted)


def _refuse_handle(wanted: DataType, given: object, which: str) -> None:
    if wanted.is_handle or wanted.is_void:
        raise wrong_argument(
            given, f"{wanted} has no {which} value", help="name a dtype of numbers"
        )


# One line each, so that editors know every name.
boolean: Final = DTypeFunction("bool")
void: Final = DTypeFunction("void")
handle: Final = HandleFunction("handle")
int8: Final = DTypeFunction("int8")
int8x2: Final = DTypeFunction("int8x2")
int8x3: Final = DTypeFunction("int8x3")
int8x4: Final = DTypeFunction("int8x4")
int8x8: Final = DTypeFunction("int8x8")
int8x16: Final = DTypeFunction("int8x16")
int8x32: Final = DTypeFunction("int8x32")
int8x64: Final = DTypeFunction("int8x64")
int16: Final = DTypeFunction("int16")
int16x2: Final = DTypeFunction("int16x2")
int16x3: Final = DTypeFunction("int16x3")
int16x4: Final = DTypeFunction("int16x4")
int16x8: Final = DTypeFunction("int16x8")
int16x16: Final = DTypeFunction("int16x16")
int16x32: Final = DTypeFunction("int16x32")
int16x64: Final = DTypeFunction("int16x64")
int32: Final = DTypeFunction("int32")
int32x2: Final = DTypeFunction("int32x2")
int32x3: Final = DTypeFunction("int32x3")
int32x4: Final = DTypeFunction("int32x4")
int32x8: Final = DTypeFunction("int32x8")
int32x16: Final = DTypeFunction("int32x16")
int32x32: Final = DTypeFunction("int32x32")
int32x64: Final = DTypeFunction("int32x64")
int64: Final = DTypeFunction("int64")
int64x2: Final = DTypeFunction("int64x2")
int64x3: Final = DTypeFunction("int64x3")
int64x4: Final = DTypeFunction("int64x4")
int64x8: Final = DTypeFunction("int64x8")
int64x16: Final = DTypeFunction("int64x16")
int64x32: Final = DTypeFunction("int64x32")
int64x64: Final = DTypeFunction("int64x64")
uint8: Final = DTypeFunction("uint8")
uint8x2: Final = DTypeFunction("uint8x2")
uint8x3: Final = DTypeFunction("uint8x3")
uint8x4: Final = DTypeFunction("uint8x4")
uint8x8: Final = DTypeFunction("uint8x8")
uint8x16: Final = DTypeFunction("uint8x16")
uint8x32: Final = DTypeFunction("uint8x32")
uint8x64: Final = DTypeFunction("uint8x64")
uint16: Final = DTypeFunction("uint16")
uint16x2: Final = DTypeFunction("uint16x2")
uint16x3: Final = DTypeFunction("uint16x3")
uint16x4: Final = DTypeFunction("uint16x4")
uint16x8: Final = DTypeFunction("uint16x8")
uint16x16: Final = DTypeFunction("uint16x16")
uint16x32: Final = DTypeFunction("uint16x32")
uint16x64: Final = DTypeFunction("uint16x64")
uint32: Final = DTypeFunction("uint32")
uint32x2: Final = DTypeFunction("uint32x2")
uint32x3: Final = DTypeFunction("uint32x3")
uint32x4: Final = DTypeFunction("uint32x4")
uint32x8: Final = DTypeFunction("uint32x8")
uint32x16: Final = DTypeFunction("uint32x16")
uint32x32: Final = DTypeFunction("uint32x32")
uint32x64: Final = DTypeFunction("uint32x64")
uint64: Final = DTypeFunction("uint64")
uint64x2: Final = DTypeFunction("uint64x2")
uint64x3: Final = DTypeFunction("uint64x3")
uint64x4: Final = DTypeFunction("uint64x4")
uint64x8: Final = DTypeFunction("uint64x8")
uint64x16: Final = DTypeFunction("uint64x16")
uint64x32: Final = DTypeFunction("uint64x32")
uint64x64: Final = DTypeFunction("uint64x64")
float16: Final = DTypeFunction("float16")
float16x2: Final = DTypeFunction("float16x2")
float16x3: Final = DTypeFunction("float16x3")
float16x4: Final = DTypeFunction("float16x4")
float16x8: Final = DTypeFunction("float16x8")
float16x16: Final = DTypeFunction("float16x16")
float16x32: Final = DTypeFunction("float16x32")
float16x64: Final = DTypeFunction("float16x64")
float32: Final = DTypeFunction("float32")
float32x2: Final = DTypeFunction("float32x2")
float32x3: Final = DTypeFunction("float32x3")
float32x4: Final = DTypeFunction("float32x4")
float32x8: Final = DTypeFunction("float32x8")
float32x16: Final = DTypeFunction("float32x16")
float32x32: Final = DTypeFunction("float32x32")
float32x64: Final = DTypeFunction("float32x64")
float64: Final = DTypeFunction("float64")
float64x2: Final = DTypeFunction("float64x2")
float64x3: Final = DTypeFunction("float64x3")
float64x4: Final = DTypeFunction("float64x4")
float64x8: Final = DTypeFunction("float64x8")
float64x16: Final = DTypeFunction("float64x16")
float64x32: Final = DTypeFunction("float64x32")
float64x64: Final = DTypeFunction("float64x64")
bfloat16: Final = DTypeFunction("bfloat16")
bfloat16x2: Final = DTypeFunction("bfloat16x2")
bfloat16x3: Final = DTypeFunction("bfloat16x3")
bfloat16x4: Final = DTypeFunction("bfloat16x4")
bfloat16x8: Final = DTypeFunction("bfloat16x8")
bfloat16x16: Final = DTypeFunction("bfloat16x16")
bfloat16x32: Final = DTypeFunction("bfloat16x32")
bfloat16x64: Final = DTypeFunction("bfloat16x64")
boolx2: Final = DTypeFunction("boolx2")
boolx3: Final = DTypeFunction("boolx3")
boolx4: Final = DTypeFunction("boolx4")
boolx8: Final = DTypeFunction("boolx8")
boolx16: Final = DTypeFunction("boolx16")
boolx32: Final = DTypeFunction("boolx32")
boolx64: Final = DTypeFunction("boolx64")
