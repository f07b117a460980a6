"""Operators with data-dependent shapes, such as ``unique`` and ``nonzero``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loomir.op.rules.arguments import product
from loomir.op.shapes import tensor_to_shape
from loomir.relax.expr import Call, TupleGetItem
from loomir.relax.node import Expr, RelaxExpr, StructInfo
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import flag, integer, tensor
from loomir.relax.operator.reference import NPArray, widen, xp
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from loomir.support.dtype import DataType
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims
from loomir.te.topi.shape import product as total_size
from loomir.tir.expr import Var as ShapeVar

__all__ = ["nonzero", "unique"]

_INT64 = DataType("int64")


def _bind_count(b: BlockBuilder, count: Expr) -> ShapeExpr:
    """Make the element of a tensor an extent, which is a new shape variable."""
    shape = b.emit(tensor_to_shape(count), "shape")
    size = ShapeVar("count", _INT64)
    b.match_cast(shape, ShapeStructInfo((size,)))
    return ShapeExpr((size,))


# -- unique ------------------------------------------------------------------------------------
def _infer_unique(c: OpContext) -> StructInfo:
    info, axis = c.tensor(0), c["axis"]
    ndim = 1 if axis is None else info.ndim
    if axis is not None and info.ndim >= 0:
        c.axis(axis, info.ndim)
    counts = c.make(None, _INT64, info, ndim=1)
    # The places in the result of what went in are as many as went in.
    if axis is not None and info.dims is not None:
        at: int = axis
        inverse = c.make([info.dims[at]], _INT64, info)
    else:
        inverse = _flat(c, info) if axis is None else counts
    made: list[TensorStructInfo] = [c.make(None, info.dtype, info, ndim=ndim)]
    wanted = (
        (c["return_index"], counts),
        (c["return_inverse"], inverse),
        (c["return_counts"], counts),
    )
    made += [described for chosen, described in wanted if chosen]
    return made[0] if len(made) == 1 else TupleStructInfo(tuple(made))


def _flat(c: OpContext, info: TensorStructInfo) -> TensorStructInfo:
    known = info.dims
    return c.make(None if known is None else [product(known)], _INT64, info, ndim=1)


def _unique(
    x: NPArray,
    sorted: bool,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    axis: int | None,
) -> Any:
    rows = xp.reshape(x, (-1, 1)) if axis is None else xp.moveaxis(x, axis, 0)
    flat = xp.reshape(widen(rows), (len(rows), rows[0].size if len(rows) else 0))
    first, inverse, counts = _groups(flat)
    values = xp.take(rows, first, 0)
    values = xp.reshape(values, -1) if axis is None else xp.moveaxis(values, 0, axis)
    wanted = (return_index, first), (return_inverse, inverse), (return_counts, counts)
    made = [xp.ascontiguousarray(values), *[a.astype("int64") for chosen, a in wanted if chosen]]
    return made[0] if len(made) == 1 else tuple(made)


def _groups(rows: NPArray) -> tuple[NPArray, NPArray, NPArray]:
    """Return the first of each group of equal rows, the group of each row, and their sizes.

    Groups are in the order of their contents. NaN equals NaN and is the greatest, and zeros of
    both signs are equal.
    """
    columns = xp.transpose(rows)
    ranks = [xp.unique(column, return_inverse=True)[1].reshape(-1) for column in columns]
    order = xp.lexsort([*reversed(ranks)]) if ranks else xp.arange(len(rows))
    differs = xp.zeros(len(rows), bool)
    for rank in ranks:
        differs[1:] |= rank[order][1:] != rank[order][:-1]
    number = xp.cumsum(differs)
    inverse = xp.empty(len(rows), "int64")
    inverse[order] = number
    starts = xp.flatnonzero(xp.concatenate([[True], differs[1:]])) if len(rows) else order
    counts = xp.diff(xp.append(starts, len(rows)))
    return order[starts], inverse, counts


def _rows(x: Tensor, axis: int | None) -> Tensor:
    """Make a matrix of what is compared: each element, or each slice along the axis."""
    if axis is None:
        return topi.reshape(x, [total_size(dims(x)), 1])
    first = topi.moveaxis(x, axis, 0)
    count, *others = dims(first)
    return topi.reshape(first, [count, total_size(others)])


def _group(x: Tensor, axis: int | None) -> tuple[Tensor, Tensor, Tensor]:
    return topi.group_rows(_rows(x, axis))


def _distinct(
    x: Tensor, order: Tensor, group: Tensor, shape: Sequence[Any], call: Call
) -> list[Tensor]:
    axis: int | None = call.attrs["axis"]
    first, inverse, counts = topi.distinct_rows(order, group, shape[0])
    rows = topi.take(_rows(x, axis), first, 0)
    if axis is None:
        values = topi.reshape(rows, [shape[0]])
    else:
        _, *others = dims(topi.moveaxis(x, axis, 0))
        values = topi.moveaxis(topi.reshape(rows, [shape[0], *others]), 0, axis)
    wanted = {"return_index": first, "return_inverse": inverse, "return_counts": counts}
    return [values, *[made for option, made in wanted.items() if call.attrs[option]]]


def _legalize_unique(b: BlockBuilder, call: Call) -> RelaxExpr:
    x = call.args[0]
    if not _has_extents(b.struct_info_of(x)):
        return call
    groups = b.emit(b.call_te(_group, x, call.attrs["axis"], primfunc_name_hint="group"))
    order, group, count = (b.emit(TupleGetItem(groups, i)) for i in range(3))
    extents = _bind_count(b, count)

    def distinct(x: Tensor, order: Tensor, group: Tensor, shape: Sequence[Any]) -> Any:
        made = _distinct(x, order, group, shape, call)
        return made[0] if len(made) == 1 else made

    return b.call_te(distinct, x, order, group, extents, primfunc_name_hint="unique")


def _has_extents(info: StructInfo) -> bool:
    return isinstance(info, TensorStructInfo) and info.dims is not None and not info.dtype.is_void


_SPECIAL = TensorSample((6,), values=[np.nan, 0.0, -0.0, np.nan, -1.0, np.inf])
unique = define_op(
    "unique",
    tensor("x"),
    flag("sorted", True),
    flag("return_index", False),
    flag("return_inverse", False),
    flag("return_counts", False),
    integer("axis", None),
    infer=_infer_unique,
    doc="Return distinct elements in ascending order; with ``axis``, distinct slices along it."
    "\n\nNaN equals NaN, and is the greatest; of equal elements the first is returned."
    " ``return_index`` also returns the indices of the first ones, ``return_inverse`` the index in"
    " the result of each element, ``return_counts`` how often each occurs; as int64, in a tuple."
    " The order is the same if ``sorted`` is false.",
    family="set",
    reference=_unique,
    legalize=_legalize_unique,
    samples=(
        Sample((TensorSample((3, 4), "int8", -3, 3),)),
        Sample((TensorSample((3, 4), "int32", 0, 2), True, True, True, True)),
        Sample((TensorSample((4, 2), "uint8", 0, 1), False, False, True, True, 0)),
        Sample((TensorSample((2, 4), "bool"),), {"axis": -1, "return_index": True}),
        Sample((_SPECIAL, True, True, True, True)),
        Sample((TensorSample((), "float16"),), {"return_inverse": True}),
        Sample((TensorSample((0, 2), "bfloat16"),), {"return_counts": True}),
        Sample((TensorSample((0, 2), "bfloat16"),), {"return_inverse": True, "axis": 0}),
    ),
    mistakes=(
        Mistake((TensorSample((2, 3)),), {"axis": 2}, "OPS0005"),
        Mistake((1,), {}, "OPS0004"),
        Mistake((TensorSample((2, 3)), 2), {}, "OPS0002"),
    ),
)


# -- nonzero -----------------------------------------------------------------------------------
def _infer_nonzero(c: OpContext) -> StructInfo:
    return c.make(None, _INT64, c.tensor(0), ndim=2)


def _nonzero(x: NPArray) -> NPArray:
    made: NPArray = xp.ascontiguousarray(xp.argwhere(widen(x) != 0).T.astype("int64"))
    return made


def _legalize_nonzero(b: BlockBuilder, call: Call) -> RelaxExpr:
    x = call.args[0]
    if not _has_extents(b.struct_info_of(x)):
        return call
    extents = _bind_count(b, b.emit(b.call_te(topi.count_nonzero, x), "count"))

    def places(x: Tensor, shape: Sequence[Any]) -> Tensor:
        return topi.nonzero(x, shape[0])

    return b.call_te(places, x, extents, primfunc_name_hint="nonzero")


nonzero = define_op(
    "nonzero",
    tensor("x"),
    infer=_infer_nonzero,
    doc="Return the indices of elements that are not 0, in row-major order."
    "\n\nNaN is not 0. Shapes: a row for each axis, with a column for each element found; int64.",
    family="set",
    reference=_nonzero,
    legalize=_legalize_nonzero,
    samples=(
        Sample((TensorSample((2, 3), "int8", -1, 1),)),
        Sample((TensorSample((4,), "bool"),)),
        Sample((TensorSample((3,), values=[np.nan, -0.0, 1e-30]),)),
        Sample((TensorSample((), "int32", 1, 1),)),
        Sample((TensorSample((0, 2)),)),
        Sample((TensorSample((2, 2, 2), "bfloat16"),)),
    ),
    mistakes=(Mistake((1,), {}, "OPS0004"), Mistake((), {}, "OPS0001")),
)
