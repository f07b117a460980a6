"""Read shapes and dtypes as users give them, and say what was meant by other values."""

from __future__ import annotations

from typing import Any, Final, cast

from loomir.support.diagnostics import CompileError, nearest, with_article
from loomir.support.dtype import DataType, to_dtype
from loomir.support.runtime_types import show_value
from loomir.support.span import Span
from loomir.te.reduction import as_tuple
from loomir.tir.expr import IntImm, PrimExpr, convert
from loomir.tir.rules import refuse

__all__ = ["read_dtype", "read_shape"]

_USUAL: Final = ("bool", "float16", "float32", "float64", "int8", "int32", "int64", "uint8")


def read_shape(shape: object, name: str, span: Span | None) -> tuple[PrimExpr, ...]:
    """Read the extents of a tensor. Errors: TE0006 for what are no integers of 0 or more."""
    is_array = hasattr(shape, "__array__")
    if is_array or callable(shape):
        refuse(
            "TE0006",
            f"the shape of {name!r} is {with_article(type(shape).__name__)}",
            help="give the shape of the array here, and the array in the call"
            if is_array
            else "the shape comes first: te.compute((n,), lambda i: ...)",
            span=span,
        )
    made = tuple(convert(e) for e in as_tuple(shape))
    for axis, extent in enumerate(made):
        if not extent.dtype.is_integer or extent.dtype.lanes != 1:
            refuse(
                "TE0006",
                f"extent {axis} of {name!r} is {extent.dtype}",
                help="use integers: numbers, te.var or formulas of them",
                span=span,
            )
        if isinstance(extent, IntImm) and extent.value < 0:
            refuse(
                "TE0006",
                f"extent {axis} of {name!r} is {extent.value}",
                help="an extent is 0 or more",
                span=span,
            )
    return made


def read_dtype(shape: object, dtype: object, span: Span | None) -> DataType:
    """Read the dtype of a tensor. Errors: TIR0001, which tells shapes and names in its place."""
    try:
        return to_dtype(cast("Any", dtype))
    except CompileError:
        if isinstance(shape, str):
            meant = f'the shape comes first: te.placeholder({show_value(dtype)}, "{shape}")'
        elif isinstance(dtype, str) and dtype.isidentifier() and not nearest(dtype, _USUAL):
            meant = f'name it by name=: te.placeholder({show_value(shape)}, name="{dtype}")'
        else:
            raise
        return refuse("TIR0001", f"{show_value(dtype)} is no dtype", help=meant, span=span)
