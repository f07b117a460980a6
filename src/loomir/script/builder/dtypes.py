"""Dtypes as functions: ``T.int32(5)`` makes a constant, ``T.int32(x)`` casts.

Without an argument they declare a variable, which takes the name to which it is assigned.
"""

from __future__ import annotations

import math
from typing import TypeAlias, Union

from loomir.script.builder.arguments import (
    add_describer,
    as_dtype,
    as_expr,
    as_text,
    describe,
)
from loomir.script.builder.mistakes import wrong_argument
from loomir.support.dtype import DataType
from loomir.tir.expr import Broadcast, ExprLike, FloatImm, PrimExpr, Var, cast, const
from loomir.tir.types import PointerType, PrimType

__all__ = [
    "DTypeFunction",
    "DTypeLike",
    "HandleFunction",
    "infinity",
    "max_value",
    "min_value",
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

    def __call__(self, value: ExprLike | str | None = None, is_size_var: bool = False) -> PrimExpr:
        """Convert a value; without one, declare a variable (``is_size_var`` means nothing)."""
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
    """Return the smallest finite value of a dtype."""
    wanted = as_dtype(dtype)
    if wanted.element.is_float:
        return const(-wanted.max_finite, wanted)
    _refuse_handle(wanted, dtype, "least")
    return const(wanted.min_value, wanted)


def max_value(dtype: DTypeLike) -> PrimExpr:
    """Return the largest finite value of a dtype."""
    wanted = as_dtype(dtype)
    if wanted.element.is_float:
        return const(wanted.max_finite, wanted)
    _refuse_handle(wanted, dtype, "largest")
    return const(wanted.max_value, wanted)


def infinity(dtype: DTypeLike) -> PrimExpr:
    """Return plus infinity in a float dtype."""
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


def _describe(value: object) -> str | None:
    if not isinstance(value, DTypeFunction):
        return None
    return "T.handle" if isinstance(value, HandleFunction) else f"the dtype T.{value.dtype}"


add_describer(_describe)
