"""Shapes as expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, cast

from loomir.ir.node import child, meta, node, reset
from loomir.relax.node import Expr
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.expr import cast as cast_to
from loomir.tir.rules import refuse

__all__ = ["INT64", "Dim", "ShapeExpr", "as_dim", "as_dims"]

INT64 = DataType("int64")

Dim: TypeAlias = int | PrimExpr
"""An extent as users write it."""
_named: dict[str, Var] = {}


def as_dim(value: Any, span: Span | None = None) -> PrimExpr:
    """Return an extent as an int64 expression; narrower integers are widened.

    A name means the same shape variable everywhere, so that shapes with that name agree.
    Errors: RLX0002 for what is not an integer.
    """
    if isinstance(value, PrimExpr):
        if value.dtype is INT64:
            return value
        if value.dtype.is_integer and value.dtype.lanes == 1:
            return cast_to(value, INT64)
    elif hasattr(value, "__index__") and not isinstance(value, bool):
        return IntImm(int(value), INT64)
    elif isinstance(value, str) and value.isidentifier():
        return _named.setdefault(value, Var(value, INT64))
    return refuse(
        "RLX0002",
        f"an extent is an integer, not {value}",
        help='write a name for one that calls decide, as in ("n", 4)'
        if value is None
        else "give a number, or an expression of shape variables",
        span=span or getattr(value, "span", None),
    )


def as_dims(values: Iterable[Any], span: Span | None = None) -> tuple[PrimExpr, ...]:
    """Return extents as int64 expressions.

    Errors: RLX0002 for what is not an integer.
    """
    return tuple([as_dim(value, span) for value in values])


@node
class ShapeExpr(Expr):
    """A shape: extents in int64, of any shape variables in scope.

    Errors: RLX0002 for an extent that is not an integer.
    """

    values: tuple[PrimExpr, ...] = child(converter=as_dims)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = cast("Iterable[Any]", self.values)
        made = as_dims(given, self.span)
        if type(self.values) is not tuple or any(a is not b for a, b in zip(made, self.values)):
            reset(self, "values", made)
