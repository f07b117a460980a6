"""Operators that take parts of tensors, by indices or by slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loomir.arith.analyzer import Analyzer
from loomir.op.rules.arguments import (
    dims_of,
    integers,
    must_equal,
    need_rank,
    normalize_axes,
    number_of,
    values_of,
)
from loomir.op.rules.slicing import slice_bounds, slice_tensor
from loomir.op.shapes import tensor_to_shape
from loomir.relax.expr import Call
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import axes, expr, flag, integer, tensor, text, tuple_of
from loomir.relax.operator.reference import NPArray
from loomir.relax.operator.rules import need
from loomir.relax.shape import INT64, Dim, ShapeExpr, as_dim
from loomir.relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from loomir.te import topi
from loomir.te.operation import compute
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import saturate, wide
from loomir.tir.expr import Max, Min, PrimExpr, Select
from loomir.tir.expr import Var as ShapeVar

__all__ = ["dynamic_strided_slice", "strided_slice", "take"]

T = TensorSample
X = T((2, 3, 4))


# -- places --------------------------------------------------------------------------------------
def as_places(indices: Any) -> NPArray:
    """Return places as int64; those that are greater are outside of any axis all the same."""
    found = np.asarray(indices)
    if found.dtype == np.uint64:
        found = np.minimum(found, np.uint64(2**63 - 1))
    return found.astype(np.int64)


def _indices(c: OpContext, index: int) -> TensorStructInfo:
    """Return what is known of places: a tensor of integers, or a scalar, which has no axes."""
    info = c.args[index]
    if isinstance(info, PrimStructInfo):
        need(c, "integer", info.dtype, index)
        return TensorStructInfo(ShapeExpr(()), info.dtype)
    found = c.tensor(index)
    need(c, "integer", found.dtype, index)
    return found


def _take(c: OpContext) -> StructInfo:
    x, indices = c.tensor(0), _indices(c, 1)
    if c["mode"] == "nan":
        need(c, "float", x.dtype, 0)
    if c["axis"] is None:
        return c.make(indices.dims, x.dtype, x, ndim=indices.ndim)
    if x.ndim < 0:
        return c.make(None, x.dtype, x)
    along = c.axis(c["axis"], x.ndim)
    if x.dims is None or indices.dims is None:
        rank = x.ndim - 1 + indices.ndim if indices.ndim >= 0 else -1
        return c.make(None, x.dtype, x, ndim=rank)
    return c.make([*x.dims[:along], *indices.dims, *x.dims[along + 1 :]], x.dtype, x)


def _lower_take(x: Tensor, indices: Tensor | PrimExpr, axis: int | None, mode: str) -> Tensor:
    return topi.take(x, indices, axis, "raise" if mode == "fast" else mode)  # pyright: ignore[reportArgumentType]


def _take_with_numpy(x: Any, indices: Any, axis: int | None, mode: str) -> NPArray:
    x, places = np.asarray(x), as_places(indices)
    if axis is None:
        x, axis = x.reshape(-1), 0
    front = axis % x.ndim
    shape = (*x.shape[:front], *places.shape, *x.shape[front + 1 :])
    if 0 in shape:
        return np.zeros(shape, x.dtype)  # nothing is read, so that no place is outside
    if mode == "fast":
        return np.asarray(np.take(x, places, axis))
    if mode != "nan":
        return np.asarray(np.take(x, places, axis, mode="wrap" if mode == "wrap" else "clip"))
    extent = x.shape[axis]
    outside = (places < 0) | (places >= extent)
    if not extent:
        return np.full(shape, np.nan, x.dtype)
    made = np.take(x, np.where(outside, 0, places), axis)
    mask = outside.reshape((1,) * front + places.shape + (1,) * (x.ndim - front - 1))
    return np.where(mask, np.array(np.nan, x.dtype), made)


PLACES = T((2, 2), "int64", values=((0, 2), (1, -1)))
ZEROS = T((2,), "int64", values=(0, 0))

take = define_op(
    "take",
    tensor("x"),
    expr("indices"),
    integer("axis", None),
    text("mode", "fast", ("fast", "wrap", "clip", "nan")),
    infer=_take,
    doc="""Take elements at indices along an axis, or of all elements in row-major order.

    ``mode``: with ``"fast"`` negative indices count from the end, and indices outside raise
    (RUN0203); ``"wrap"`` wraps around the axis; ``"clip"`` clamps to the nearest end, also negative
    ones; ``"nan"`` returns NaN, also for negative ones. Shapes: that of ``indices``, a tensor of
    integers or a scalar, in place of ``axis``. Errors: OPS0005, OPS0007.""",
    family="index",
    lower=_lower_take,
    reference=_take_with_numpy,
    samples=(
        Sample((X, PLACES, 1)),
        Sample((X, PLACES)),
        Sample((T((3, 4), "bfloat16"), T((3,), "uint8", 0, 3), -1)),
        Sample((T((3,), "int8"), T((), "int32", values=-3), 0)),
        Sample((X, 1, 0)),
        Sample((T((3, 0), "bool"), T((2,), "int32", values=(0, 2)), 0)),
        Sample((T((0, 2)), T((0,), "int64"), 0)),
        Sample((T((0, 3, 0)), ZEROS, 0)),
        Sample((T((0, 3, 0)), ZEROS, 0, "clip")),
        Sample((X, T((4,), "int64", values=(-4, 5, 0, 3)), 1, "wrap")),
        Sample((X, T((4,), "int64", values=(-4, 5, 0, 3)), 1, "clip")),
        Sample((X, T((2, 2), "int64", values=((-1, 5), (0, 3))), 1, "nan")),
        Sample((T((2,), "float16"), T((2,), "uint64", values=(2**64 - 1, 1)), 0, "nan")),
    ),
    mistakes=(
        Mistake((X, T((2,)), 0), {}, "OPS0007"),
        Mistake((X, PLACES, 3), {}, "OPS0005"),
        Mistake((T((2,), "int32"), PLACES, 0, "nan"), {}, "OPS0007"),
        Mistake((X, PLACES, 0, "raise"), {}, "OPS0002"),
        Mistake((X, (1, 2), 0), {}, "OPS0004"),
    ),
)


# -- slices --------------------------------------------------------------------------------------
def _steps(strides: Sequence[Any] | None, count: int) -> Sequence[Any]:
    return (1,) * count if strides is None else strides


def _infer_strided_slice(c: OpContext) -> StructInfo:
    x, begin, end = c.tensor(0), values_of(c, 1), values_of(c, 2)
    wanted: tuple[int, ...] = c["axes"]
    steps = _steps(values_of(c, 3), len(wanted)) if c.has(3) else (1,) * len(wanted)
    for name, given in (("begin", begin), ("end", end), ("strides", steps)):
        if given is not None and len(given) != len(wanted):
            c.refuse(
                "OPS0038",
                f"{name} has a length of {len(given)}, and there are {len(wanted)} axes",
                help="give one number for each axis that is sliced",
            )
    still = any(step is not None and number_of(step) == 0 for step in steps or ())
    if still and not c.running:
        c.refuse("OPS0038", "a stride is 0", help="step by another number")
    if x.ndim < 0:
        return c.make(None, x.dtype, x)
    cut = normalize_axes(c, wanted, x.ndim)
    bounds = (begin, end, steps)
    if x.dims is None or still or any(b is None or any(v is None for v in b) for b in bounds):
        return c.make(None, x.dtype, x, ndim=x.ndim)
    dims = list(x.dims)
    for axis, a, b, step in zip(cut, begin or (), end or (), steps or (), strict=True):
        assert a is not None
        assert b is not None
        assert step is not None
        inbound = c["assume_inbound"]
        dims[axis] = slice_bounds(c.analyzer, dims[axis], a, b, step, inbound=inbound)[1]
    return c.make(dims, x.dtype, x)


def _slice(
    x: Tensor,
    begin: Sequence[PrimExpr],
    end: Sequence[PrimExpr],
    strides: Sequence[PrimExpr] | None = None,
    *,
    axes: tuple[int, ...],
    assume_inbound: bool,
    out: StructInfo,
) -> Tensor:
    analyzer, starts = Analyzer(), dict[int, tuple[PrimExpr, Dim]]()
    for axis, a, b, step in zip(axes, begin, end, _steps(strides, len(axes)), strict=True):
        cut = axis % x.ndim
        extent = wide(x.shape[cut])
        starts[cut] = slice_bounds(analyzer, extent, a, b, step, inbound=assume_inbound)[0], step
    return slice_tensor(x, starts, dims_of(out), checked=assume_inbound)


def _slice_with_numpy(
    x: Any,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    *,
    axes: tuple[int, ...],
    assume_inbound: bool,
) -> NPArray:
    x, steps = np.asarray(x), list(map(int, _steps(strides, len(axes))))
    if 0 in steps:
        raise ZeroDivisionError("a stride is 0")
    for axis, a, b, step in zip(axes, map(int, begin), map(int, end), steps, strict=True):
        extent = x.shape[axis]
        if assume_inbound:
            start, stop = (v + extent if v < 0 else v for v in (a, b))
            places = np.arange(start, stop, step)
            if np.any((places < 0) | (places >= extent)):
                raise IndexError(f"the slice {a}:{b}:{step} leaves an axis of {extent}")
        else:
            # In a slice of NumPy, -1 is the last element; before the first one there is none.
            places = np.arange(*slice(a, b, step).indices(extent))
        x = np.take(x, places, axis)
    return x


strided_slice = define_op(
    "strided_slice",
    tensor("x"),
    axes("axes"),
    tuple_of("begin"),
    tuple_of("end"),
    tuple_of("strides", None),
    flag("assume_inbound", False),
    infer=_infer_strided_slice,
    doc="""Take slices along axes, as ``x[begin:end:stride]`` does in Python.

    Bounds and strides are numbers or scalars of the program, such as extents; a stride that turns
    out to be 0 raises (RUN0201).

    Negative indices count from the end, and those beyond an end are clamped to it. With a negative
    stride, an ``end`` below minus the extent lets the slice reach the first element. With
    ``assume_inbound`` bounds are not clamped, and elements outside raise (RUN0203). Shapes: the
    number of elements of each slice. Errors: OPS0005, OPS0031, OPS0038.""",
    family="index",
    lower=_slice,
    reference=_slice_with_numpy,
    samples=(
        Sample((X, 1, (0,), (2,))),
        Sample((X, (0, 2), (-1, 1), (9, -1))),
        Sample((T((7, 2), "int8"), (0,), (1,), (6,), (2,))),
        Sample((T((7,), "bfloat16"), -1, (-1,), (-8,), (-3,))),
        Sample((T((7,), "bool"), 0, (5,), (2,))),
        Sample((T((7,), "bool"), 0, (9,), (2,), (-2,))),
        Sample((T((0, 2), "float16"), (0, 1), (0, -2), (3, -1))),
        Sample((X, (), (), ())),
        Sample((X, (2, 1), (1, -3), (4, -1), None, True)),
        Sample((X, (2,), (3,), (0,), (-2,)), {"assume_inbound": True}),
    ),
    mistakes=(
        Mistake((X, (0, 1), (0,), (1, 1)), {}, "OPS0038"),
        Mistake((X, (0,), (0,), (1,), (0,)), {}, "OPS0038"),
        Mistake((X, (0,), (0,), (1,), (1, 1)), {}, "OPS0038"),
        Mistake((X, (0, -3), (0, 0), (1, 1)), {}, "OPS0031"),
        Mistake((X, (3,), (0,), (1,)), {}, "OPS0005"),
        Mistake((X, (0,), X, (1,)), {}, "OPS0004"),
    ),
)


# -- slices that tensors describe ------------------------------------------------------------------
def _dynamic_strided_slice(c: OpContext) -> StructInfo:
    x = c.tensor(0)
    for index in (1, 2, 3):
        info = integers(c, index)
        need_rank(c, index, 1)
        if info.dims is not None and x.ndim >= 0:
            must_equal(c, info.dims[0], x.ndim, "the number of places and that of axes", arg=index)
    return c.make(None, x.dtype, x, ndim=x.ndim)


def _ends(
    x: Tensor, at: int, begin: PrimExpr, end: PrimExpr, step: PrimExpr
) -> tuple[PrimExpr, PrimExpr]:
    """Return where a slice starts and how many elements it has."""
    extent, zero = wide(x.shape[at]), as_dim(0)
    up = step > 0
    low, high = Select(up, zero, as_dim(-1)), Select(up, extent, extent - 1)

    def place(value: PrimExpr) -> PrimExpr:
        return Max(Min(Select(value < 0, value + extent, value), high), low)

    start, stop = place(begin), place(end)
    return start, Max((start - stop) // step * -1, zero)


def _extents(x: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> Tensor:
    def extent(k: PrimExpr) -> PrimExpr:
        values = [saturate(t(k)) for t in (begin, end, strides)]
        made = _ends(x, 0, *values)[1]
        for at in range(1, x.ndim):
            made = Select(k.equal(at), _ends(x, at, *values)[1], made)
        return made

    return compute((x.ndim,), extent, name="extents")


def _describe(
    x: Tensor, begin: Tensor, end: Tensor, strides: Tensor, shape: Sequence[PrimExpr]
) -> Tensor:
    def place(at: int, index: PrimExpr) -> PrimExpr:
        values = [saturate(t(at)) for t in (begin, end, strides)]
        return _ends(x, at, *values)[0] + wide(index) * values[2]

    return compute(
        tuple(shape), lambda *i: x(*(place(a, v) for a, v in enumerate(i))), name="slice"
    )


def _legalize_slice(b: BlockBuilder, call: Call) -> RelaxExpr:
    x, *bounds = call.args
    info = b.struct_info_of(x)
    if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype.is_void:
        return call
    if any(getattr(b.struct_info_of(e), "dims", None) is None for e in bounds):
        return call
    if not info.dims:
        return x
    counts = b.emit(b.call_te(_extents, x, *bounds, primfunc_name_hint="slice_extents"), "extents")
    shape = b.emit(tensor_to_shape(counts), "shape")
    sizes = tuple([ShapeVar(f"size{k}", INT64) for k in range(len(info.dims))])
    b.match_cast(shape, ShapeStructInfo(sizes))
    return b.call_te(_describe, x, *bounds, ShapeExpr(sizes), primfunc_name_hint="slice")


def _slice_as_described(x: Any, begin: Any, end: Any, strides: Any) -> NPArray:
    steps = as_places(strides).tolist()
    if 0 in steps:
        raise ZeroDivisionError("a stride is 0")
    bounds = zip(as_places(begin).tolist(), as_places(end).tolist(), steps, strict=True)
    made: NPArray = np.asarray(x)[tuple(slice(*bound) for bound in bounds)]
    return np.array(made)


_FIRST = T((2,), "int64", values=(1, -1))
_LAST = T((2,), "int64", values=(9, -9))
_STEPS = T((2,), "int64", values=(2, -3))

dynamic_strided_slice = define_op(
    "dynamic_strided_slice",
    tensor("x"),
    tensor("begin"),
    tensor("end"),
    tensor("strides"),
    infer=_dynamic_strided_slice,
    doc="""Take slices along all axes, with bounds and strides from tensors.

    They have the same meaning as for ``R.strided_slice``; a stride of 0 raises (RUN0201). Shapes:
    one bound for each axis of ``x``; extents of the result are known at run time. Errors: OPS0007,
    OPS0030, OPS0032.""",
    family="index",
    reference=_slice_as_described,
    legalize=_legalize_slice,
    samples=(
        Sample((T((5, 8)), _FIRST, _LAST, _STEPS)),
        Sample((T((7,), "int8"), *[T((1,), "int32", values=(v,)) for v in (5, 1, -1)])),
        Sample((T((7,), "bool"), *[T((1,), "int64", values=(v,)) for v in (5, 1, 1)])),
        Sample((T((3,), "bfloat16"), *[T((1,), "uint64", values=(v,)) for v in (0, 2**63, 1)])),
        Sample((T((), "float16"), *[T((0,), "int64")] * 3)),
        Sample((T((0, 8)), _FIRST, _LAST, _STEPS)),
    ),
    mistakes=(
        Mistake((T((5, 8)), T((2,)), _LAST, _STEPS), {}, "OPS0007"),
        Mistake((T((5, 8)), T((1, 2), "int64"), _LAST, _STEPS), {}, "OPS0030"),
        Mistake((T((5,)), _FIRST, _LAST, _STEPS), {}, "OPS0032"),
    ),
)
