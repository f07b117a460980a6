"""Scatter operators: write elements at indices into a copy of a tensor."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from loomir.arith.analyzer import Analyzer
from loomir.op.indexing.gathering import (
    describe_taken_part,
    places_of,
    require_same_rank,
    require_within,
    row_length,
    rows_of,
)
from loomir.op.indexing.index import as_places
from loomir.op.rules.arguments import find_common_dtype, format_dim, integers, must_equal
from loomir.op.rules.slicing import slice_bounds
from loomir.relax.node import StructInfo
from loomir.relax.operator.broadcast import broadcast, broadcast_extents
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import flag, integer, prim, tensor, tensors, text
from loomir.relax.operator.reference import NPArray, compute_dtype, convert_array, greater, lesser
from loomir.relax.operator.rules import need
from loomir.relax.shape import ShapeExpr, as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import dtype_of_numpy
from loomir.te import topi
from loomir.te.operation import compute
from loomir.te.scalar import if_then_else
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import wide
from loomir.te.topi.shape import compute_dtype as working_in
from loomir.te.topi.shape import has_equal_sizes
from loomir.tir.expr import And, Eq, PrimExpr

__all__ = ["index_put", "scatter_elements", "scatter_nd", "slice_scatter"]

T = TensorSample
X = T((2, 3, 4))
Places = tuple[NPArray, ...]


# -- combining -----------------------------------------------------------------------------------
def _combine(data: Any, to: Places, updates: NPArray, reduction: str) -> NPArray:
    """Write updates in row-major order, combined with what is there."""
    made = np.array(data)
    rows = [p.ravel() for p in to]
    values = updates.ravel()
    if reduction == "mean":
        return _mean(made, rows, values)
    step = _STEPS[reduction]
    # Where places are outside, indexing raises before anything is written.
    np.asarray(made[tuple(rows)])
    with np.errstate(all="ignore"):
        for place, value in zip(zip(*rows, strict=True), values, strict=True):
            made[place] = step(made[place], value)
    return made


def _mean(made: NPArray, rows: Sequence[NPArray], values: NPArray) -> NPArray:
    wanted = made.dtype
    inner = compute_dtype(wanted) if wanted.kind not in "iu" else np.dtype("int64")
    total, count = made.astype(inner), np.ones(made.shape, "int64")
    with np.errstate(all="ignore"):
        np.add.at(total, tuple(rows), values.astype(inner))
        np.add.at(count, tuple(rows), 1)
        divided = total // count if wanted.kind in "iu" else total / count.astype(inner)
    kind = dtype_of_numpy(wanted)
    assert kind is not None
    return convert_array(np.where(count == 1, made.astype(inner), divided), kind)


def _take_last(_old: Any, new: Any) -> Any:
    return new


_STEPS: Final[dict[str, Any]] = {
    "update": _take_last,
    "add": operator.add,
    "mul": operator.mul,
    "max": greater,
    "min": lesser,
}
_REDUCTIONS: Final = ("update", "add", "mul", "mean", "max", "min")


def _average(scatter: Any, data: Tensor, indices: Tensor, updates: Tensor, *more: Any) -> Tensor:
    """Average what is there with its updates."""
    whole = data.dtype.is_integer
    inner = "int64" if whole else working_in(data.dtype)
    total = scatter(topi.cast(data, inner), indices, topi.cast(updates, inner), *more, "add")
    ones = topi.ones_like(updates, "int64")
    count = scatter(topi.ones_like(data, "int64"), indices, ones, *more, "add")
    mean = topi.floor_divide(total, count) if whole else topi.divide(total, topi.cast(count, inner))
    is_single = topi.equal(count, 1)
    return topi.where(is_single, data, topi.cast(mean, data.dtype))


def _need_numbers(c: OpContext, dtype: Any) -> None:
    if c["reduction"] != "update":
        need(c, "number", dtype, 0)


# -- one place for each update -------------------------------------------------------------------
def _scatter_elements(c: OpContext) -> StructInfo:
    x, indices, updates = c.tensor(0), integers(c, 1), c.tensor(2)
    dtype = find_common_dtype(c, [x, updates])
    _need_numbers(c, dtype)
    require_same_rank(c, x, indices, "the data and the indices")
    require_same_rank(c, indices, updates, "the indices and the updates")
    rank = max(x.ndim, indices.ndim, updates.ndim)
    if rank < 0:
        return c.make(None, x.dtype, x)
    along = c.axis(c["axis"], rank)
    require_within(c, x, indices, along)
    for axis, (a, b) in enumerate(zip(indices.dims or (), updates.dims or ())):
        must_equal(c, a, b, f"the extents of axis {axis} of indices and updates", arg=2)
    return _like(c, x, dtype, rank)


def _like(c: OpContext, x: TensorStructInfo, dtype: Any, rank: int) -> TensorStructInfo:
    """Describe a tensor of the shape of ``x``."""
    if x.shape is not None:
        return TensorStructInfo(x.shape, dtype, x.vdevice)
    return c.make(None, dtype, x, ndim=rank)


def _scatter(data: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str) -> Tensor:
    updates = topi.assume_shape(updates, indices.shape)
    if reduction == "mean":
        return _average(topi.scatter_elements, data, indices, updates, axis)
    return topi.scatter_elements(data, indices, updates, axis, reduction)


def _scatter_with_numpy(
    data: Any, indices: Any, updates: Any, axis: int, reduction: str
) -> NPArray:
    data, places = np.asarray(data), as_places(indices)
    to: list[NPArray] = list(cast("NPArray", np.indices(places.shape)))
    to[axis % data.ndim] = places
    return _combine(data, tuple(to), np.asarray(updates), reduction)


_AT = T((2, 3), "int64", values=((0, 1, -1), (0, 2, 2)))

scatter_elements = define_op(
    "scatter_elements",
    tensor("data"),
    tensor("indices"),
    tensor("updates"),
    integer("axis", 0),
    text("reduction", "update", _REDUCTIONS),
    infer=_scatter_elements,
    doc="""Copy ``data`` and write each update at its index along an axis, in row-major order.

    ``reduction``: how an update is combined with the element; ``"mean"`` averages the element and
    all its updates, rounding integers down. 16-bit floats are rounded at each step, except for a
    mean. Negative indices count from the end; indices outside raise (RUN0203). Shapes: that of
    ``data``; ``updates`` has that of ``indices``, whose extents, except at ``axis``, are at most
    those of ``data``. Errors: OPS0005 to OPS0007, OPS0030, OPS0032.""",
    family="manipulate",
    lower=_scatter,
    reference=_scatter_with_numpy,
    samples=(
        Sample((T((3, 4)), _AT, T((2, 3)))),
        Sample((T((3, 4), "bool"), _AT, T((2, 3), "bool"), -1)),
        *[
            Sample((T((3, 4), d), _AT, T((2, 3), d), 0, r))
            for r in _REDUCTIONS
            for d in ("float32", "int8", "bfloat16")
        ],
        Sample((T((3,)), T((0,), "int32"), T((0,)), 0, "mean")),
        Sample((T((0, 3), "uint16"), T((0, 3), "int64"), T((0, 3), "uint16"), 0, "add")),
    ),
    mistakes=(
        Mistake((X, T((2, 3, 4)), X), {}, "OPS0007"),
        Mistake((T((2,)), T((2,), "int32"), T((2,), "int32")), {}, "OPS0006"),
        Mistake((T((2,), "bool"), T((2,), "int32"), T((2,), "bool"), 0, "add"), {}, "OPS0007"),
        Mistake((X, T((2,), "int64"), T((2,))), {}, "OPS0030"),
        Mistake((T((2,)), T((2,), "int64"), T((3,))), {}, "OPS0032"),
        Mistake((T((2, 2)), T((2, 3), "int64"), T((2, 3)), 0), {}, "OPS0032"),
        Mistake((T((2,)), T((2,), "int64"), T((2,)), 1), {}, "OPS0005"),
        Mistake((T((2,)), T((2,), "int64"), T((2,)), 0, "sum"), {}, "OPS0002"),
    ),
)


# -- parts, by rows of places --------------------------------------------------------------------
def _scatter_nd(c: OpContext) -> StructInfo:
    x, indices, updates = c.tensor(0), integers(c, 1), c.tensor(2)
    dtype = find_common_dtype(c, [x, updates])
    _need_numbers(c, dtype)
    count = row_length(c, x, indices, 0)
    if count is None or x.ndim < 0 or indices.ndim < 0:
        return _like(c, x, dtype, x.ndim)
    rank = indices.ndim - 1 + x.ndim - count
    if updates.ndim not in (-1, rank):
        c.refuse(
            "OPS0030",
            f"the updates have {updates.ndim} axes, not {rank}",
            help="give a part of the data for each row of places",
            arg=2,
        )
    if x.dims is not None and indices.dims is not None and updates.dims is not None:
        wanted = [*indices.dims[:-1], *x.dims[count:]]
        for axis, (a, b) in enumerate(zip(wanted, updates.dims, strict=True)):
            must_equal(c, a, b, f"the extents of axis {axis} of places and updates", arg=2)
    return _like(c, x, dtype, x.ndim)


def _lower_scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    count = data.ndim + indices.ndim - 1 - updates.ndim
    indices = topi.assume_shape(indices, [*indices.shape[:-1], count])
    updates = topi.assume_shape(updates, [*indices.shape[:-1], *data.shape[count:]])
    if reduction == "mean":
        return _average(topi.scatter_nd, data, indices, updates)
    return topi.scatter_nd(data, indices, updates, reduction)


def _scatter_nd_with_numpy(data: Any, indices: Any, updates: Any, reduction: str) -> NPArray:
    data, updates, places = np.asarray(data), np.asarray(updates), as_places(indices)
    count, rows = places.shape[-1], places.ndim - 1
    at: list[NPArray] = list(cast("NPArray", np.indices(updates.shape)))
    wide = [p[(..., *[None] * (updates.ndim - rows))] for p in np.moveaxis(places, -1, 0)]
    named = [np.broadcast_to(p, updates.shape) for p in wide]
    assert len(named) == count
    return _combine(data, (*named, *at[rows:]), updates, reduction)


_ROWS = T((3, 1), "int64", values=((1,), (-1,), (1,)))

scatter_nd = define_op(
    "scatter_nd",
    tensor("data"),
    tensor("indices"),
    tensor("updates"),
    text("reduction", "update", _REDUCTIONS),
    infer=_scatter_nd,
    doc="""Copy ``data`` and write parts at the indices in the rows of ``indices``, in order.

    ``reduction``, negative places and those outside: as for ``R.scatter_elements``.
    Shapes: that of ``data``; indices of ``(..., k)`` take updates of ``(..., *data.shape[k:])``.
    Errors: OPS0006, OPS0007, OPS0030, OPS0032.""",
    family="manipulate",
    lower=_lower_scatter_nd,
    reference=_scatter_nd_with_numpy,
    samples=(
        *[
            Sample((T((4, 3), d), _ROWS, T((3, 3), d), r))
            for r in _REDUCTIONS
            for d in ("float32", "uint8", "float16")
        ],
        Sample((X, T((2, 2), "int32", values=((0, 1), (-1, 2))), T((2, 4)))),
        Sample((T((4,), "bool"), T((1,), "uint8", 0, 3), T((), "bool"))),
        Sample((X, T((0, 3), "int64"), T((0,)), "add")),
    ),
    mistakes=(
        Mistake((X, T((3, 1)), T((3, 3, 4))), {}, "OPS0007"),
        Mistake((X, _ROWS, T((3, 3, 4), "int32")), {}, "OPS0006"),
        Mistake((X, _ROWS, T((3, 3))), {}, "OPS0030"),
        Mistake((X, T((3, 4), "int64"), T((3,))), {}, "OPS0030"),
        Mistake((X, _ROWS, T((3, 3, 5))), {}, "OPS0032"),
        Mistake((X, _ROWS, T((3, 3, 4)), "sum"), {}, "OPS0002"),
    ),
)


# -- places, axis by axis ------------------------------------------------------------------------
def _index_put(c: OpContext) -> StructInfo:
    x, values = c.tensor(0), c.tensor(2)
    dtype = find_common_dtype(c, [x, values])
    if c["accumulate"]:
        need(c, "number", dtype, 0)
    found = places_of(c, x, 1)
    if found is not None:
        part = describe_taken_part(c, x, found)
        if 0 <= part.ndim < values.ndim:
            c.refuse(
                "OPS0030",
                f"values of {values.ndim} axes do not broadcast to {part.ndim}",
                help="give a value for each element that is written, or one for all",
                arg=2,
            )
        made, _ = broadcast(c, [part, values])
        if isinstance(made, ShapeExpr) and part.dims is not None:
            for axis, (a, b) in enumerate(zip(part.dims, made.values, strict=True)):
                must_equal(c, a, b, f"the extents of axis {axis} of places and values", arg=2)
    return _like(c, x, dtype, x.ndim)


def _put(data: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool) -> Tensor:
    rows = rows_of(indices, _broadcast([i.shape for i in indices]))
    part = [*rows.shape[:-1], *data.shape[len(indices) :]]
    updates = topi.assume_broadcast(values, part)
    return topi.scatter_nd(data, rows, updates, "add" if accumulate else "update")


def _broadcast(shapes: Sequence[Sequence[PrimExpr]]) -> list[Any]:
    """Return the shape that shapes broadcast to, also where it is not certain which is 1."""
    places = range(-max(map(len, shapes)), 0)
    return [
        broadcast_extents([s[at] for s in shapes if len(s) >= -at], has_equal_sizes)
        for at in places
    ]


def _put_with_numpy(data: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> NPArray:
    data = np.asarray(data)
    places = np.broadcast_arrays(*map(as_places, indices))
    rest = data.ndim - len(places)
    part = (*places[0].shape, *data.shape[len(places) :])
    at: list[NPArray] = list(cast("NPArray", np.indices(part)))
    wide = [p[(..., *[None] * rest)] for p in places]
    to = [np.broadcast_to(p, part) for p in wide]
    updates = np.broadcast_to(np.asarray(values), part)
    axes = (*to, *at[places[0].ndim :])
    return _combine(data, axes, updates, "add" if accumulate else "update")


index_put = define_op(
    "index_put",
    tensor("data"),
    tensors("indices"),
    tensor("values"),
    flag("accumulate", False),
    infer=_index_put,
    doc="""Copy ``data`` and write values at indices, one tensor of them for each of the first axes.

    With ``accumulate`` values are added to the elements; otherwise the last value for an index
    stays. Negative indices count from the end; indices outside raise (RUN0203). Shapes: that of
    ``data``; ``values`` broadcasts to the broadcast shape of ``indices``, followed by the other
    axes of ``data``. Errors: OPS0004, OPS0006 to OPS0008, OPS0030, OPS0032, OPS0035.""",
    family="manipulate",
    lower=_put,
    reference=_put_with_numpy,
    samples=(
        Sample((T((3, 4)), (T((3,), "int64", -3, 2), T((3,), "int32", -4, 3)), T((3,)))),
        Sample((T((3, 4), "int8"), (T((5,), "int64", 0, 2),), T((4,), "int8"), True)),
        Sample((T((3, 4)), (T((2, 1), "int64", 0, 2), T((3,), "int64", 0, 3)), T(()), True)),
        Sample((T((3, 4), "bool"), (T((2,), "uint64", 0, 2),), T((2, 1), "bool"))),
        Sample((T((3,), "bfloat16"), (T((0,), "int64"),), T((1,), "bfloat16"))),
    ),
    mistakes=(
        Mistake((X, (T((2,)),), T(())), {}, "OPS0007"),
        Mistake((X, (T((2,), "int64"),), T((), "int32")), {}, "OPS0006"),
        Mistake((X, (T((2,), "int64"), T((3,), "int64")), T(())), {}, "OPS0008"),
        Mistake((X, (T((2,), "int64"),), T((3, 3, 4))), {}, "OPS0008"),
        Mistake((X, (T((1,), "int64"),), T((2, 3, 4))), {}, "OPS0032"),
        Mistake((X, (T((2,), "int64"),), T((1, 2, 3, 4))), {}, "OPS0030"),
        Mistake((X, (), T(())), {}, "OPS0035"),
        Mistake((T((2,), "bool"), (T((2,), "int64"),), T((), "bool"), True), {}, "OPS0007"),
    ),
)


# -- slices --------------------------------------------------------------------------------------
def _slice_scatter(c: OpContext) -> StructInfo:
    x, source = c.tensor(0), c.tensor(1)
    start, stop = c.prim(2), c.prim(3)
    dtype = find_common_dtype(c, [x, source])
    if c["step"] < 1:
        c.refuse("OPS0039", f"step is {c['step']}", help="step by 1 or more")
    require_same_rank(c, x, source, "the data and the source")
    rank = max(x.ndim, source.ndim)
    if rank < 0:
        return c.make(None, dtype, x)
    along = c.axis(c["axis"], rank)
    for axis, (a, b) in enumerate(zip(x.dims or (), source.dims or ())):
        wanted = a
        if axis == along:
            low = None if start is None else start.value
            high = None if stop is None else stop.value
            if low is None or high is None:
                continue
            wanted = slice_bounds(c.analyzer, a, as_dim(low), as_dim(high), c["step"])[1]
        if c.equal(wanted, b) is False:
            c.refuse(
                "OPS0032",
                f"axis {axis} of the source has the extent {format_dim(b)},"
                f" not {format_dim(wanted)}",
                help="give a source of the shape of the slice",
                arg=1,
            )
    return _like(c, x, dtype, rank)


def _write(
    input_tensor: Tensor,
    src: Tensor,
    start: PrimExpr,
    end: PrimExpr,
    step: int,
    axis: int,
) -> Tensor:
    along = axis % input_tensor.ndim
    extent = wide(input_tensor.shape[along])
    first, length = slice_bounds(Analyzer(), extent, wide(start), wide(end), step)
    wanted = [length if a == along else d for a, d in enumerate(input_tensor.shape)]
    src = topi.assume_shape(src, wanted)

    def element(*i: PrimExpr) -> PrimExpr:
        past = wide(i[along]) - first
        row = past // step
        inside = And(And(past >= 0, row < length), Eq(past % step, as_dim(0)))
        new = src(*(row if a == along else v for a, v in enumerate(i)))
        return if_then_else(inside, new, input_tensor(*i))

    return compute(input_tensor.shape, element, name="slice_scatter")


def _write_with_numpy(
    input_tensor: Any, src: Any, start: Any, end: Any, step: int, axis: int
) -> NPArray:
    made = np.array(input_tensor)
    at = [slice(None)] * made.ndim
    at[axis] = slice(int(start), int(end), step)
    source, wanted = np.asarray(src), made[tuple(at)].shape
    if source.shape != wanted:
        raise ValueError(f"the slice has shape {wanted}, not {source.shape}")
    made[tuple(at)] = source
    return made


slice_scatter = define_op(
    "slice_scatter",
    tensor("input_tensor"),
    tensor("src"),
    prim("start"),
    prim("end"),
    integer("step", 1),
    integer("axis", 0),
    infer=_slice_scatter,
    doc="""Copy a tensor and write another into a slice of it along an axis.

    Negative indices count from the end, and those beyond an end are clamped to it.
    Shapes: that of ``input_tensor``; ``src`` has that of the slice.
    Errors: OPS0005, OPS0006, OPS0030, OPS0032, OPS0039.""",
    family="manipulate",
    lower=_write,
    reference=_write_with_numpy,
    samples=(
        Sample((T((5, 2)), T((2, 2)), 1, 3)),
        Sample((T((2, 7), "int8"), T((2, 3), "int8"), -6, 9, 2, -1)),
        Sample((T((4,), "bfloat16"), T((0,), "bfloat16"), 3, 1)),
        Sample((T((0, 2), "bool"), T((0, 2), "bool"), 0, 5)),
        Sample((T((4,), "float16"), T((4,), "float16"), 0, 2**63 - 1)),
    ),
    mistakes=(
        Mistake((T((5,)), T((3,)), 1, 3), {}, "OPS0032"),
        Mistake((T((5,)), T((2,), "int32"), 1, 3), {}, "OPS0006"),
        Mistake((T((5,)), T((2, 1)), 1, 3), {}, "OPS0030"),
        Mistake((T((5,)), T((2,)), 1, 3, 0), {}, "OPS0039"),
        Mistake((T((5,)), T((2,)), 1, 3, 1, 1), {}, "OPS0005"),
        Mistake((T((5,)), T((2,)), T((), "int64"), 3), {}, "OPS0004"),
    ),
)
