"""Broadcast the shapes of tensors by NumPy's rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from loomir.relax.info.describe import format_extent
from loomir.relax.node import Expr
from loomir.relax.operator.context import OpContext
from loomir.relax.shape import Dim, ShapeExpr, as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.tir.expr import Eq, IntImm, PrimExpr, Select

__all__ = ["Extents", "broadcast", "broadcast_extents", "extents_of"]


class Extents(NamedTuple):
    """What is known of a shape: an expression (a ``ShapeExpr`` or a variable), or only a rank."""

    shape: Expr | None
    ndim: int


UNKNOWN = Extents(None, -1)


def extents_of(info: TensorStructInfo) -> Extents:
    """Return what is known of a tensor's shape."""
    return Extents(info.shape, info.ndim)


def broadcast(c: OpContext, infos: Sequence[TensorStructInfo]) -> Extents:
    """Return the shape that tensors broadcast to, aligned at their last axes.

    On each axis, an extent of 1 is broadcast to the other one; equal ones stay. If it is not
    certain whether two are equal the shape is unknown, and checked when the program runs; a context
    that assumes says what it will be then.
    Errors: OPS0008 for extents that are certain to fit neither way.
    """
    if any(info.ndim < 0 for info in infos):
        return UNKNOWN
    ndim = max((info.ndim for info in infos), default=0)
    kept = _find_shape_variable([info for info in infos if info.ndim > 0], ndim)
    if kept is not None:
        return Extents(kept, ndim)
    known = [info.dims for info in infos]
    made = [_axis(c, infos, known, axis - ndim) for axis in range(ndim)]
    if any(dims is None for dims in known) or any(d is None for d in made):
        return Extents(None, ndim)
    return Extents(ShapeExpr(tuple([d for d in made if d is not None])), ndim)


def _find_shape_variable(infos: Sequence[TensorStructInfo], ndim: int) -> Expr | None:
    """Return the variable that holds the shape of all tensors, None if there is none."""
    shapes = [info.shape for info in infos]
    if not shapes or shapes[0] is None or isinstance(shapes[0], ShapeExpr):
        return None
    same = infos[0].ndim == ndim and all(shape is shapes[0] for shape in shapes)
    return shapes[0] if same else None


def _axis(
    c: OpContext,
    infos: Sequence[TensorStructInfo],
    known: Sequence[tuple[PrimExpr, ...] | None],
    at: int,
) -> PrimExpr | None:
    """Return the extent at an axis counted from the end, None if it is uncertain."""
    here = [d[at] for d in known if d is not None and len(d) >= -at]
    one = next((d for d in here if isinstance(d, IntImm)), None)
    wide = [d for d in here if not (isinstance(d, IntImm) and d.value == 1)]
    if not wide:
        return one
    for other in wide[1:]:
        if c.equal(wide[0], other):
            continue
        if c.differ_by_broadcasting(wide[0], other):
            shapes = " and ".join(_show(info) for info in infos)
            c.refuse(
                "OPS0008",
                f"the shapes {shapes} do not broadcast: {format_extent(wide[0])} is"
                f" beside {format_extent(other)}",
                help="give extents that are equal, or 1 where one is to be repeated; shapes are"
                " aligned at their last axes",
            )
        return broadcast_extents(wide, c.equal) if c.assume else None
    return wide[0]


def broadcast_extents(extents: Sequence[Dim], equal: Callable[[Dim, Dim], bool | None]) -> PrimExpr:
    """Return the extent that extents broadcast to, also if it is unknown which of them is 1."""
    found: list[PrimExpr] = []
    for extent in map(as_dim, extents):
        if isinstance(extent, IntImm) and extent.value != 1:
            return extent
        if not isinstance(extent, IntImm) and not any(equal(extent, other) for other in found):
            found.append(extent)
    if not found:
        return as_dim(1)
    made, *others = found
    for other in others:
        made = Select(Eq(made, as_dim(1)), other, made)
    return made


def _show(info: TensorStructInfo) -> str:
    dims = info.dims or ()
    return "(" + ", ".join(map(format_extent, dims)) + ("," if len(dims) == 1 else "") + ")"
