"""Structural information in messages: on one line, as in TVMScript, and the difference of two."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.ir.node import Node
from loomir.relax.expr import Var
from loomir.relax.info.proof import Match, equal
from loomir.relax.info.relations import is_same_device
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import (
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.dtype import VOID
from loomir.support.span import Span
from loomir.tir.expr import PrimExpr

__all__ = ["ErrorSpans", "differences", "error_spans_of", "format_extent", "format_info"]


class ErrorSpans(NamedTuple):
    """Where a mistake is, and other places that explain it."""

    span: Span | None
    secondary: tuple[tuple[Span, str], ...]


_LIMIT: Final = 200
_NUMBER: Final = re.compile(r"T\.int64\((-?\d+)\)")


def format_info(info: StructInfo) -> str:
    """Write structural information for a message; a very long text is shortened."""
    text = " ".join(str(info).split())
    return text if len(text) <= _LIMIT else text[: _LIMIT - 1] + "…"


def format_extent(value: PrimExpr) -> str:
    """Write an extent for a message."""
    return _NUMBER.sub(r"\1", str(value))


def error_spans_of(expr: object, owner: Node | None) -> ErrorSpans:
    """Say where a mistake about ``expr`` is: at it, or where ``owner`` uses a variable.

    Also returns where the variable is bound.
    """
    own: Span | None = getattr(expr, "span", None)
    used: Span | None = getattr(owner, "span", None)
    if not isinstance(expr, Var) or used is None:
        return ErrorSpans(own or used, ())
    bound = () if own is None else ((own, f"{expr.name_hint!r} is bound here"),)
    return ErrorSpans(used, bound)


def differences(given: StructInfo, wanted: StructInfo, analyzer: Analyzer) -> tuple[str, ...]:
    """Say in which parts ``given`` does not fit ``wanted``, for the notes of a message."""
    if isinstance(given, TupleStructInfo) and isinstance(wanted, TupleStructInfo):
        if len(given.fields) != len(wanted.fields):
            return (f"it has {len(given.fields)} fields, not {len(wanted.fields)}",)
        for i, (a, b) in enumerate(zip(given.fields, wanted.fields)):
            if a is not b and not isinstance(a, TupleStructInfo):
                found = differences(a, b, analyzer)
                if found:
                    return tuple(f"field {i}: {text}" for text in found)
        return ()
    if isinstance(given, TensorStructInfo) and isinstance(wanted, TensorStructInfo):
        return _tensor_differences(given, wanted, analyzer)
    if isinstance(given, ShapeStructInfo) and isinstance(wanted, ShapeStructInfo):
        return _dim_differences(given.values, wanted.values, analyzer)
    return ()


def _tensor_differences(
    a: TensorStructInfo, b: TensorStructInfo, analyzer: Analyzer
) -> tuple[str, ...]:
    found: list[str] = []
    if b.dtype is not VOID and a.dtype is not b.dtype:
        found.append(
            f"its dtype is not known to be {b.dtype}"
            if a.dtype is VOID
            else f"its dtype is {a.dtype}, not {b.dtype}"
        )
    if b.ndim >= 0 and a.ndim != b.ndim:
        found.append(
            f"its rank is not known to be {b.ndim}"
            if a.ndim < 0
            else f"its rank is {a.ndim}, not {b.ndim}"
        )
    if b.vdevice is not None and not is_same_device(a.vdevice, b.vdevice):
        found.append("its device is not known" if a.vdevice is None else "its device is another")
    return (*found, *_dim_differences(a.dims, b.dims, analyzer))


def _dim_differences(
    a: tuple[PrimExpr, ...] | None, b: tuple[PrimExpr, ...] | None, analyzer: Analyzer
) -> tuple[str, ...]:
    if a is None or b is None or len(a) != len(b):
        return ()
    found: list[str] = []
    for axis, (x, y) in enumerate(zip(a, b)):
        same = equal(x, y, analyzer)
        if same is not Match.YES:
            verb = "is not known to be" if same is Match.MAYBE else "is not"
            found.append(f"on axis {axis}, {format_extent(x)} {verb} {format_extent(y)}")
    return tuple(found)
