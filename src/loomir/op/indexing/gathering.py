"""Gather operators: read elements at indices from other tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any, cast

import numpy as np

from loomir.op.indexing.index import as_places
from loomir.op.rules.arguments import common_extent, dims_of, integers, must_equal, number_of
from loomir.relax.node import StructInfo
from loomir.relax.operator.broadcast import broadcast
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import integer, prim, tensor, tensors, text
from loomir.relax.operator.reference import NPArray
from loomir.relax.operator.rules import need
from loomir.relax.shape import ShapeExpr, as_dim
from loomir.relax.struct_info import OBJECT, TensorStructInfo, TupleStructInfo
from loomir.te import topi
from loomir.te.operation import compute
from loomir.te.tensor import Tensor
from loomir.tir.expr import PrimExpr

__all__ = ["gather_elements", "gather_nd", "index_tensor", "meshgrid", "one_hot"]

T = TensorSample
X = T((2, 3, 4))
PAIRS = T((3, 2), "int64", values=((0, 1), (-1, 2), (1, 0)))


# -- one element for each place ------------------------------------------------------------------
def require_same_rank(c: OpContext, a: TensorStructInfo, b: TensorStructInfo, what: str) -> None:
    """Refuse tensors of two ranks. Errors: OPS0030."""
    if a.ndim >= 0 and b.ndim >= 0 and a.ndim != b.ndim:
        c.refuse(
            "OPS0030",
            f"{what} have {a.ndim} and {b.ndim} axes",
            help="give tensors of one rank; R.expand_dims inserts axes",
            arg=1,
        )


def require_within(
    c: OpContext, x: TensorStructInfo, indices: TensorStructInfo, along: int
) -> None:
    """Refuse indices that are certain to have more elements than the data. Errors: OPS0032."""
    for axis, (d, e) in enumerate(zip(x.dims or (), indices.dims or ())):
        if axis != along and c.analyzer.can_prove_greater_equal(e - d, 1):
            c.refuse(
                "OPS0032",
                f"axis {axis} of the indices has the extent {e}, that of the data {d}",
                help="give as many indices as the data has elements there, or fewer",
                arg=1,
            )


def _gather_elements(c: OpContext) -> StructInfo:
    x, indices = c.tensor(0), integers(c, 1)
    require_same_rank(c, x, indices, "the data and the indices")
    rank = max(x.ndim, indices.ndim)
    if rank >= 0:
        require_within(c, x, indices, c.axis(c["axis"], rank))
    return c.make(indices.dims, x.dtype, x, ndim=rank)


def _gather(data: Any, indices: Any, axis: int) -> NPArray:
    data, places = np.asarray(data), as_places(indices)
    along = axis % data.ndim
    at: list[NPArray] = list(cast("NPArray", np.indices(places.shape)))
    at[along] = places
    return np.asarray(data[tuple(at)])


gather_elements = define_op(
    "gather_elements",
    tensor("data"),
    tensor("indices"),
    integer("axis", 0),
    infer=_gather_elements,
    doc="""Take one element for each index along an axis; other coordinates are those of the index.

    Negative indices count from the end; indices outside raise (RUN0203). Shapes: that of
    ``indices``, of as many axes as ``data``; except at ``axis``, its extents are at most those of
    ``data``. Errors: OPS0005, OPS0007, OPS0030, OPS0032.""",
    family="manipulate",
    lower=topi.gather_elements,
    reference=_gather,
    samples=(
        Sample((T((3, 4)), T((2, 3), "int64", -3, 2))),
        Sample((T((3, 4), "bfloat16"), T((3, 6), "uint8", 0, 3), -1)),
        Sample((T((3,), "bool"), T((0,), "int32"))),
        Sample((T((2, 3), "int8"), T((2, 1), "int32", -3, 2), 1)),
    ),
    mistakes=(
        Mistake((X, T((2, 3, 4))), {}, "OPS0007"),
        Mistake((X, T((2, 3), "int64")), {}, "OPS0030"),
        Mistake((X, T((2, 4, 4), "int64")), {}, "OPS0032"),
        Mistake((X, T((2, 3, 4), "int64"), 3), {}, "OPS0005"),
    ),
)


# -- parts, by rows of places --------------------------------------------------------------------
def row_length(
    c: OpContext, x: TensorStructInfo, indices: TensorStructInfo, batch: int
) -> int | None:
    """Return how many axes a row of indices names, None if that is unknown.

    Errors: OPS0030 for more than there are.
    """
    if indices.ndim >= 0 and not 0 <= batch < max(indices.ndim, 1):
        c.refuse(
            "OPS0030",
            f"indices of {indices.ndim} axes have no {batch} axes of a batch",
            help="give indices whose last axis holds the places",
            arg=1,
        )
    if indices.ndim == 0:
        c.refuse(
            "OPS0030",
            "indices of no axes name no place",
            help="give indices whose last axis holds the places",
            arg=1,
        )
    count = None if indices.dims is None else number_of(indices.dims[-1])
    if count is not None and x.ndim >= 0 and not 1 <= count <= x.ndim - batch:
        c.refuse(
            "OPS0030",
            f"rows of {count} places are not places in a tensor of rank {x.ndim}",
            help=f"give rows of 1 to {x.ndim - batch} places" if x.ndim > batch else "use R.take",
            arg=1,
        )
    return count


def _gather_nd(c: OpContext) -> StructInfo:
    x, indices, batch = c.tensor(0), integers(c, 1), c["batch_dims"]
    if batch < 0:
        c.refuse("OPS0039", f"batch_dims is {batch}", help="share 0 axes or more")
    count = row_length(c, x, indices, batch)
    if count is None or x.ndim < 0 or indices.ndim < 0:
        return c.make(None, x.dtype, x)
    rank = indices.ndim - 1 + x.ndim - batch - count
    if x.dims is None or indices.dims is None:
        return c.make(None, x.dtype, x, ndim=rank)
    made = list(indices.dims[:-1])
    for axis in range(batch):
        must_equal(c, x.dims[axis], indices.dims[axis], f"the extents of axis {axis}", arg=1)
        made[axis] = common_extent(x.dims[axis], indices.dims[axis])
    return c.make([*made, *x.dims[batch + count :]], x.dtype, x)


def _gather_nd_of(data: Tensor, indices: Tensor, batch_dims: int, out: StructInfo) -> Tensor:
    shared = dims_of(out)[:batch_dims]
    data = topi.assume_shape(data, [*shared, *data.shape[batch_dims:]])
    indices = topi.assume_shape(indices, [*shared, *indices.shape[batch_dims:]])
    return topi.gather_nd(data, indices, batch_dims)


def _gather_nd_with_numpy(data: Any, indices: Any, batch_dims: int) -> NPArray:
    data, places = np.asarray(data), as_places(indices)
    rows = places.shape[:-1]
    batch = list(cast("NPArray", np.indices(rows)))[:batch_dims]
    named = [places[..., k] for k in range(places.shape[-1])]
    return np.asarray(data[(*batch, *named)])


gather_nd = define_op(
    "gather_nd",
    tensor("data"),
    tensor("indices"),
    integer("batch_dims", 0),
    infer=_gather_nd,
    doc="""Take parts whose first indices are the rows of ``indices``, after axes that both share.

    Negative indices count from the end; indices outside raise (RUN0203).
    Shapes: ``(*batch, ..., k)`` gives ``(*batch, ..., *data.shape[batch_dims + k:])``.
    Errors: OPS0007, OPS0030, OPS0032, OPS0039.""",
    family="manipulate",
    lower=_gather_nd_of,
    reference=_gather_nd_with_numpy,
    samples=(
        Sample((X, PAIRS)),
        Sample((X, T((3, 1), "int32", -2, 1))),
        Sample((T((2, 3), "bool"), T((2,), "uint8", 0, 1))),
        Sample((T((2, 3, 4), "float16"), T((2, 5, 1), "int64", -3, 2), 1)),
        Sample((X, T((0, 2), "int64"))),
    ),
    mistakes=(
        Mistake((X, T((3, 2))), {}, "OPS0007"),
        Mistake((X, T((3, 4), "int32")), {}, "OPS0030"),
        Mistake((X, T((), "int32")), {}, "OPS0030"),
        Mistake((X, T((2, 1), "int32"), 2), {}, "OPS0030"),
        Mistake((X, T((3, 1), "int32"), 1), {}, "OPS0032"),
        Mistake((X, T((3, 1), "int32"), -1), {}, "OPS0039"),
    ),
)


# -- places, axis by axis ------------------------------------------------------------------------
def places_of(c: OpContext, x: TensorStructInfo, index: int) -> tuple[TensorStructInfo, ...] | None:
    """Return what is known of tensors of places, one for each of the first axes.

    Errors: OPS0004, OPS0007, OPS0030 for more tensors than axes, OPS0035.
    """
    found = c.tensors(index)
    if found is None:
        return None
    if not found:
        c.refuse("OPS0035", "there are no tensors", help="give at least one", arg=index)
    for info in found:
        need(c, "integer", info.dtype, index)
    if 0 <= x.ndim < len(found):
        c.refuse(
            "OPS0030",
            f"a tensor of rank {x.ndim} has no {len(found)} axes to index",
            help="give one tensor of places for each axis, or for the first ones",
            arg=index,
        )
    return found


def describe_taken_part(
    c: OpContext, x: TensorStructInfo, found: Sequence[TensorStructInfo]
) -> TensorStructInfo:
    """Describe what indexing with tensors takes. Errors: OPS0008."""
    shape, rank = broadcast(c, found)
    if x.ndim < 0 or rank < 0:
        return c.make(None, x.dtype, x)
    rank += x.ndim - len(found)
    front = shape.values if isinstance(shape, ShapeExpr) else None
    if x.dims is None or front is None:
        return c.make(None, x.dtype, x, ndim=rank)
    return c.make([*front, *x.dims[len(found) :]], x.dtype, x)


def _index_tensor(c: OpContext) -> StructInfo:
    x = c.tensor(0)
    found = places_of(c, x, 1)
    return c.make(None, x.dtype, x) if found is None else describe_taken_part(c, x, found)


def rows_of(indices: Sequence[Tensor], shape: Sequence[Any]) -> Tensor:
    """Put tensors of places next to each other, as rows of the shape that they broadcast to."""
    return topi.stack([topi.assume_broadcast(_saturate(i), shape) for i in indices], -1)


def _saturate(x: Tensor) -> Tensor:
    return topi.cast(topi.clip(x, None, 2**63 - 1) if x.dtype == "uint64" else x, "int64")


def _index(data: Tensor, indices: Sequence[Tensor], out: StructInfo) -> Tensor:
    rank = max(i.ndim for i in indices)
    return topi.gather_nd(data, rows_of(indices, dims_of(out)[:rank]))


def _index_with_numpy(data: Any, indices: Sequence[Any]) -> NPArray:
    return np.asarray(np.asarray(data)[tuple(map(as_places, indices))])


index_tensor = define_op(
    "index_tensor",
    tensor("data"),
    tensors("indices"),
    infer=_index_tensor,
    doc="""Take elements at indices, given by one tensor for each of the first axes.

    Negative indices count from the end; indices outside raise (RUN0203). Shapes: the broadcast
    shape of ``indices``, then the other axes of ``data``. Errors: OPS0004, OPS0007, OPS0008,
    OPS0030, OPS0035.""",
    family="manipulate",
    lower=_index,
    reference=_index_with_numpy,
    samples=(
        Sample((X, (T((2, 2), "int64", -2, 1), T((2,), "int32", -3, 2)))),
        Sample((T((4,), "bool"), (T((3,), "uint64", 0, 3),))),
        Sample((X, (T((2, 1), "int64", 0, 1), T((3,), "int64", 0, 2), T((), "int8", 0, 3)))),
        Sample((T((3, 2), "bfloat16"), (T((0,), "int64"),))),
    ),
    mistakes=(
        Mistake((X, (T((2,)),)), {}, "OPS0007"),
        Mistake((X, (T((2,), "int64"), T((3,), "int64"))), {}, "OPS0008"),
        Mistake((T((2,)), (T((2,), "int64"), T((2,), "int64"))), {}, "OPS0030"),
        Mistake((X, ()), {}, "OPS0035"),
        Mistake((X, T((2,), "int64")), {}, "OPS0004"),
    ),
)


# -- one tensor of places ------------------------------------------------------------------------
def _one_hot(c: OpContext) -> StructInfo:
    indices, on, off = integers(c, 0), c.prim(1), c.prim(2)
    if c["depth"] < 0:
        c.refuse("OPS0039", f"depth is {c['depth']}", help="give an extent of 0 or more")
    if on is not None and off is not None and on.dtype is not off.dtype:
        c.refuse(
            "OPS0006",
            f"on_value is {on.dtype}, but off_value {off.dtype}",
            help=f"give values of one dtype, as in R.prim_value(T.{on.dtype}(1))",
            arg=2,
        )
    dtype = next((v.dtype for v in (on, off) if v is not None), "void")
    if indices.ndim < 0:
        return c.make(None, dtype, indices)
    new = c.axis(c["axis"], indices.ndim, extra=1)
    if indices.dims is None:
        return c.make(None, dtype, indices, ndim=indices.ndim + 1)
    made = list(indices.dims)
    made.insert(new, as_dim(c["depth"]))
    return c.make(made, dtype, indices)


def _hot(indices: Tensor, on_value: PrimExpr, off_value: PrimExpr, depth: int, axis: int) -> Tensor:
    return topi.one_hot(indices, depth, on_value, off_value, axis, on_value.dtype)


def _hot_with_numpy(indices: Any, on_value: Any, off_value: Any, depth: int, axis: int) -> NPArray:
    places = as_places(indices)
    here = np.where(places < 0, places + depth, places)[..., None] == np.arange(depth)
    made = np.empty(here.shape, np.asarray(on_value).dtype)
    made[...] = off_value
    made[here] = on_value
    return np.moveaxis(made, -1, axis)


one_hot = define_op(
    "one_hot",
    tensor("indices"),
    prim("on_value"),
    prim("off_value"),
    integer("depth"),
    integer("axis", -1),
    infer=_one_hot,
    doc="""Write ``on_value`` at the indices along a new axis, ``off_value`` elsewhere.

    Negative indices count from the end; indices out of range have no ``on_value``. Shapes: with
    ``depth`` at ``axis``. Types: that of the values. Errors: OPS0005 to OPS0007, OPS0039.""",
    family="manipulate",
    lower=_hot,
    reference=_hot_with_numpy,
    samples=(
        Sample((T((2, 2), "int64", values=((0, 2), (-1, 5))), 1.0, 0.0, 3)),
        Sample((T((3,), "uint8", 0, 4), 7, -1, 4, 0)),
        Sample((T((), "int32", values=1), True, False, 2)),
        Sample((T((0,), "int32"), 1, 0, 3)),
        Sample((T((2,), "int32"), 1, 0, 0)),
    ),
    mistakes=(
        Mistake((T((2,)), 1, 0, 3), {}, "OPS0007"),
        Mistake((T((2,), "int32"), 1.0, 0, 3), {}, "OPS0006"),
        Mistake((T((2,), "int32"), 1, 0, -1), {}, "OPS0039"),
        Mistake((T((2,), "int32"), 1, 0, 3, 2), {}, "OPS0005"),
        Mistake((T((2,), "int32"), T((2,)), 0, 3), {}, "OPS0004"),
    ),
)


def _meshgrid(c: OpContext) -> StructInfo:
    found = c.tensors(0)
    if found is None:
        return OBJECT
    if not found:
        c.refuse("OPS0035", "there are no tensors", help="give at least one", arg=0)
    for info in found:
        if info.ndim not in (-1, 1):
            c.refuse(
                "OPS0030",
                f"a tensor has {info.ndim} axes, not 1",
                help="give tensors of coordinates, each of one axis",
                arg=0,
            )
    lengths = [None if info.dims is None else info.dims[0] for info in found]
    if c["indexing"] == "xy":
        lengths[:2] = lengths[:2][::-1]
    known = [d for d in lengths if d is not None]
    shape = known if len(known) == len(lengths) else None
    return TupleStructInfo(
        tuple([c.make(shape, info.dtype, info, ndim=len(found)) for info in found])
    )


def _grids(tensors: Sequence[Tensor], indexing: str) -> list[Tensor]:
    order = list(range(len(tensors)))
    if indexing == "xy":
        order[:2] = order[:2][::-1]
    shape = [tensors[k].shape[0] for k in order]

    def grid(x: Tensor, axis: int) -> Tensor:
        return compute(shape, lambda *i: x(i[axis]), name="meshgrid")

    return list(starmap(grid, [(x, order.index(k)) for k, x in enumerate(tensors)]))


def _grids_with_numpy(tensors: Sequence[Any], indexing: Any) -> Any:
    return tuple(np.meshgrid(*tensors, indexing=indexing))


meshgrid = define_op(
    "meshgrid",
    tensors("tensors"),
    text("indexing", "ij", ("ij", "xy")),
    infer=_meshgrid,
    doc="""Return the coordinates of the points of a grid, axis by axis.

    With ``"xy"`` the first two axes of the results are exchanged.
    Shapes: tensors of one axis give as many tensors, of all their extents.
    Errors: OPS0004, OPS0030, OPS0035.""",
    family="manipulate",
    lower=_grids,
    reference=_grids_with_numpy,
    samples=(
        Sample(((T((2,)), T((3,), "int8"), T((4,), "bool")),)),
        Sample(((T((2,)), T((3,)), T((4,))), "xy")),
        Sample(((T((2,), "bfloat16"),), "xy")),
        Sample(((T((0,)), T((3,))),)),
    ),
    mistakes=(
        Mistake(((T((2, 2)),),), {}, "OPS0030"),
        Mistake(((),), {}, "OPS0035"),
        Mistake(((T((2,)),), "yx"), {}, "OPS0002"),
        Mistake((X,), {}, "OPS0004"),
    ),
)
