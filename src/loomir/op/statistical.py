"""Reductions and scans over axes, by default over all of them.

The result has the dtype of the input. A NaN makes a result NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loomir.op.rules.arguments import normalize_axes, number_of, product
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Infer, Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import axes, flag, integer, kind_dtype, tensor
from loomir.relax.operator.reference import NPArray, convert_array, is_float, widen, xp
from loomir.relax.operator.rules import need
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.support.dtype import DataType, numpy_of
from loomir.te import topi
from loomir.te.scalar import select
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims, make
from loomir.te.topi.shape import product as total_size
from loomir.tir.expr import PrimExpr, const
from loomir.tir.expr import cast as cast_to

__all__ = [
    "cumprod",
    "cumsum",
    "max",
    "mean",
    "median",
    "min",
    "prod",
    "std",
    "sum",
    "variance",
]

_INT64 = DataType("int64")
Axes = tuple[int, ...] | None


# -- inference -------------------------------------------------------------------------------
def infer_reduction(
    c: OpContext, info: TensorStructInfo, over: Axes, keepdims: bool, dtype: DataType
) -> TensorStructInfo:
    """Describe a reduction over axes, all of them for None. Errors: OPS0005, OPS0031."""
    if info.ndim < 0:
        every = over is None and not keepdims
        return c.make([] if every else None, dtype, info)
    gone = range(info.ndim) if over is None else normalize_axes(c, over, info.ndim)
    if info.dims is None:
        if len(gone) == info.ndim:
            return c.make([1] * info.ndim if keepdims else [], dtype, info)
        return c.make(None, dtype, info, ndim=info.ndim if keepdims else info.ndim - len(gone))
    kept = [1 if a in gone else d for a, d in enumerate(info.dims) if keepdims or a not in gone]
    return c.make(kept, dtype, info)


def refuse_empty(c: OpContext, info: TensorStructInfo, over: Axes) -> None:
    """Check that there is an element to choose along axes. Errors: OPS0013."""
    if info.dims is None:
        return
    gone = range(info.ndim) if over is None else normalize_axes(c, over, info.ndim)
    for axis in gone:
        if number_of(info.dims[axis]) == 0:
            c.refuse(
                "OPS0013",
                f"axis {axis} has no element to choose from",
                help="give a tensor with elements there",
                arg=0,
            )


def _infer(kind: str, chooses: bool) -> Infer:
    def infer(c: OpContext) -> StructInfo:
        info = c.tensor(0)
        need(c, kind, info.dtype)
        if chooses:
            refuse_empty(c, info, c["axis"])
        return infer_reduction(c, info, c["axis"], c["keepdims"], info.dtype)

    return infer


# -- references ------------------------------------------------------------------------------
def _compute_in_float64(compute: Callable[..., Any]) -> Callable[..., NPArray]:
    """Compute floats in float64 and round them once."""

    def reference(x: NPArray, axis: Axes, keepdims: bool) -> NPArray:
        wide = x.astype("float64") if is_float(x.dtype) else x
        with np.errstate(all="ignore"):
            made = compute(wide, axis=axis, keepdims=keepdims)
        return xp.asarray(made).astype(x.dtype)

    return reference


def _total(x: NPArray, **options: Any) -> Any:
    return xp.sum(x, dtype=x.dtype, **options)


def _product(x: NPArray, **options: Any) -> Any:
    return xp.prod(x, dtype=x.dtype, **options)


def _mean(x: NPArray, axis: Axes, keepdims: bool) -> Any:
    # Over nothing it is 0 / 0; NumPy would warn too.
    total = xp.asarray(xp.sum(x, axis=axis, keepdims=keepdims))
    shape = np.array(x.shape)
    count = shape.prod() if axis is None else shape[list(axis)].prod()
    return total / float(count)


def _variance(x: NPArray, axis: Axes, keepdims: bool) -> Any:
    return _mean((x - _mean(x, axis, True)) ** 2, axis, keepdims)


def _std(x: NPArray, axis: Axes, keepdims: bool) -> Any:
    return xp.sqrt(_variance(x, axis, keepdims))


# -- reductions ------------------------------------------------------------------------------
_X = TensorSample((2, 3))
_NAN = TensorSample((2, 2), values=[[np.nan, 1.0], [-0.0, 2.5]])


def _samples(kind: str, ulps: float, absolute: float, empty: bool) -> list[Sample]:
    other = "int8" if kind == "number" else "float64"
    given: list[tuple[TensorSample, dict[str, Any]]] = [
        (_X, {}),
        (_X, {"axis": 1}),
        (TensorSample((2, 3, 2), "float16"), {"axis": (0, -1), "keepdims": True}),
        (TensorSample((3, 2), other, -100, 100), {"axis": [0]}),
        (TensorSample((), other), {}),
        (TensorSample((4,), "bfloat16"), {"keepdims": True}),
        (_NAN, {"axis": -1}),
        (_X, {"axis": ()}),
        (TensorSample((0, 3)), {"axis": 1}),
    ]
    if empty:
        given.append((TensorSample((0, 3)), {"axis": 0}))
    return [Sample((x,), attrs, ulps, absolute) for x, attrs in given]


def _define(
    name: str,
    doc: str,
    lower: Callable[..., Tensor],
    compute: Callable[..., Any],
    kind: str = "number",
    *,
    ulps: float = 0,
    absolute: float = 0.0,
    chooses: bool = False,
) -> Callable[..., Any]:
    """Define a reduction."""
    wrong = TensorSample((2,), "bool" if kind == "number" else "int32")
    mistakes = [
        Mistake((_X, 2), {}, "OPS0005"),
        Mistake((_X, (1, -1)), {}, "OPS0031"),
        Mistake((wrong,), {}, "OPS0007"),
        Mistake((1,), {}, "OPS0004"),
        Mistake((_X,), {"keepdims": 2}, "OPS0002"),
    ]
    if chooses:
        mistakes.append(Mistake((TensorSample((0, 3)), 0), {}, "OPS0013"))
    return define_op(
        name,
        tensor("x"),
        axes("axis", None),
        flag("keepdims", False),
        infer=_infer(kind, chooses),
        doc=doc + "\n\nShapes: without ``axis``, or with extents of 1 if ``keepdims``.",
        family="statistical",
        lower=lower,
        reference=_compute_in_float64(compute),
        samples=_samples(kind, ulps, absolute, empty=not chooses),
        mistakes=mistakes,
    )


def _lower_sum(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    return topi.sum(x, axis, keepdims, str(x.dtype))


def _lower_prod(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    return topi.prod(x, axis, keepdims, str(x.dtype))


def require_elements(lower: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Check that there is an element to choose, where extents are symbolic."""

    def lower_checked(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
        over: Any = (axis,) if isinstance(axis, int) else axis
        gone: Any = range(x.ndim) if over is None else over
        return topi.assume_elements(lower(x, axis, keepdims), x, gone)

    return lower_checked


sum = _define(  # noqa: A001 - the name users know
    "sum", "Sum; integers wrap.", _lower_sum, _total, ulps=2, absolute=1e-6
)
prod = _define("prod", "Multiply; integers wrap.", _lower_prod, _product, ulps=4)
max = _define(  # noqa: A001 - the name users know
    "max",
    "Compute the maximum; there must be at least one element.",
    require_elements(topi.max),
    np.max,
    chooses=True,
)
min = _define(  # noqa: A001 - the name users know
    "min",
    "Compute the minimum; there must be at least one element.",
    require_elements(topi.min),
    np.min,
    chooses=True,
)
mean = _define(
    "mean",
    "Compute the mean; NaN if there are no elements.",
    topi.mean,
    _mean,
    "float",
    ulps=2,
    absolute=1e-6,
)
variance = _define(
    "variance",
    "Compute variances; NaN if there are no elements.",
    topi.variance,
    _variance,
    "float",
    ulps=4,
    absolute=1e-6,
)
std = _define(
    "std",
    "Compute standard deviations; NaN if there are no elements.",
    topi.std,
    _std,
    "float",
    ulps=4,
    absolute=1e-6,
)


# -- medians ---------------------------------------------------------------------------------
def _infer_median(c: OpContext) -> StructInfo:
    info, over = c.tensor(0), c["axis"]
    need(c, "number", info.dtype)
    refuse_empty(c, info, over)
    values = infer_reduction(c, info, over, c["keepdims"], info.dtype)
    if over is None or len(over) != 1:
        return values
    return TupleStructInfo((values, infer_reduction(c, info, over, c["keepdims"], _INT64)))


def _row(x: NPArray, over: Axes) -> tuple[NPArray, tuple[int, ...]]:
    """Bring the axes to the end, as one."""
    gone = tuple(range(x.ndim)) if over is None else tuple(a % x.ndim for a in over)
    kept = [a for a in range(x.ndim) if a not in gone]
    moved = xp.transpose(x, (*kept, *sorted(gone)))
    return moved.reshape([*[x.shape[a] for a in kept], -1]), gone


def _median(x: NPArray, axis: Axes, keepdims: bool) -> Any:
    if axis == ():
        return x
    rows, gone = _row(x, axis)
    if not rows.shape[-1]:
        raise ValueError("there is no element to choose")
    wide = widen(rows)
    order = xp.argsort(wide, axis=-1, kind="stable")
    count = rows.shape[-1]
    lost = xp.isnan(wide).sum(axis=-1) if is_float(x.dtype) else xp.zeros(rows.shape[:-1], int)
    at = xp.where(lost > 0, count - lost, (count - 1) // 2)[..., None]
    places = xp.take_along_axis(order, at, -1)
    shape = [1 if a in gone else e for a, e in enumerate(x.shape) if keepdims or a not in gone]
    values = xp.asarray(xp.take_along_axis(rows, places, -1)).reshape(shape)
    if axis is None or len(axis) != 1:
        return values
    return values, xp.asarray(places).reshape(shape).astype("int64")


def _lower_median(x: Tensor, axis: Axes, keepdims: bool) -> Any:
    if axis == ():
        return topi.identity(x)
    gone = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in axis)
    kept = [a for a in range(x.ndim) if a not in gone]
    x = topi.assume_elements(x, x, gone)
    moved = topi.transpose(x, [*kept, *sorted(gone)]) if x.ndim else x
    shape = dims(x)
    count = total_size(shape[a] for a in gone)
    rows = topi.reshape(moved, [*[shape[a] for a in kept], count])
    order = topi.argsort(rows, -1)
    lost = None
    if x.dtype.is_float:
        lost = topi.sum(topi.cast(topi.isnan(rows), "int64"), -1)
    wide = cast_to(count, _INT64) if isinstance(count, PrimExpr) else const(count, _INT64)

    def place(*i: PrimExpr) -> PrimExpr:
        middle = (wide - 1) // 2
        at = middle if lost is None else select(lost(*i) > 0, wide - lost(*i), middle)
        return order(*i, at)

    places = make("median_places", [shape[a] for a in kept], place)
    values = make("median", [shape[a] for a in kept], lambda *i: rows(*i, places(*i)))
    out = [1 if a in gone else d for a, d in enumerate(shape) if keepdims or a not in gone]
    made = [topi.reshape(t, out) if keepdims else t for t in (values, places)]
    return made if axis is not None and len(axis) == 1 else made[0]


median = define_op(
    "median",
    tensor("x"),
    axes("axis", None),
    flag("keepdims", False),
    infer=_infer_median,
    doc="Compute the median, the lesser of two; over one axis, its index too."
    "\n\nIf there is a NaN, the result is NaN. Indices are int64: of equal elements, that of the"
    " one which a stable sort puts in the middle. Shapes: without ``axis``, or with extents of 1 if"
    " ``keepdims``; a tuple of two over one axis.",
    family="statistical",
    lower=_lower_median,
    reference=_median,
    samples=(
        Sample((TensorSample((2, 5)),)),
        Sample((TensorSample((2, 4), "int8", 0, 3), 1)),
        Sample((TensorSample((2, 3, 4), "float16"), -2, True)),
        Sample((TensorSample((2, 3, 2)), (0, 2))),
        Sample((_NAN, 1)),
        Sample((TensorSample(()),)),
        Sample((TensorSample((3,), "bfloat16"), 0)),
    ),
    mistakes=(
        Mistake((_X, 2), {}, "OPS0005"),
        Mistake((TensorSample((0, 3)), 0), {}, "OPS0013"),
        Mistake((TensorSample((3,), "bool"),), {}, "OPS0007"),
    ),
)


# -- running ---------------------------------------------------------------------------------
def _infer_running(c: OpContext) -> StructInfo:
    info, axis = c.tensor(0), c["axis"]
    dtype: DataType = c["dtype"] or info.dtype
    if c["dtype"] is None:
        need(c, "number", dtype)
    elif not (dtype.is_integer or dtype.is_float):
        c.refuse(
            "OPS0010",
            f"elements are summed as numbers, not as {dtype}",
            help='give a dtype of numbers, such as "int64"',
        )
    if axis is None:
        known = info.dims
        return c.make(None if known is None else [product(known)], dtype, info, ndim=1)
    if info.ndim >= 0:
        c.axis(axis, info.ndim)
    return TensorStructInfo(info.shape, dtype, info.vdevice, info.ndim)


def _make_running(name: str, combine: Any, identity: int) -> tuple[Callable[..., Any], ...]:
    lowered = getattr(topi, name)

    def lower(data: Tensor, axis: int | None, dtype: DataType | None, exclusive: bool) -> Tensor:
        made: Tensor = lowered(data, axis, dtype or data.dtype, exclusive)
        return made

    def reference(
        data: NPArray, axis: int | None, dtype: DataType | None, exclusive: bool
    ) -> NPArray:
        x = data if dtype is None else convert_array(data, dtype)
        target = x.dtype if dtype is None else numpy_of(dtype)
        wide = widen(x if axis is not None else xp.reshape(x, -1))
        at = axis or 0
        if exclusive:
            shape = [1 if a == at % wide.ndim else e for a, e in enumerate(wide.shape)]
            first = xp.full(shape, identity, wide.dtype)
            count = wide.shape[at]
            wide = xp.concatenate([first, wide], at).take(range(count), at)
        with np.errstate(all="ignore"):
            made: NPArray = combine.accumulate(wide, at, dtype=wide.dtype)
        return made.astype(target)

    return lower, reference


def _define_running(name: str, doc: str, combine: Any, identity: int) -> Callable[..., Any]:
    lower, reference = _make_running(name, combine, identity)
    return define_op(
        name,
        tensor("data"),
        integer("axis", None),
        kind_dtype("dtype", None),
        flag("exclusive", False),
        infer=_infer_running,
        doc=f"{doc}\n\nThe flat tensor is used if ``axis`` is None. ``exclusive``: without the"
        " element itself. ``dtype``: elements are converted to it first; by default their own, in"
        " which integers wrap. Shapes: that of ``data``, or (its size).",
        family="statistical",
        lower=lower,
        reference=reference,
        samples=(
            Sample((_X, 1)),
            Sample((TensorSample((2, 3), "int8", 50, 100), 0)),
            Sample((TensorSample((2, 3), "bool"), None, "int32")),
            Sample((TensorSample((2, 3), "float16"), -1, None, True)),
            Sample((TensorSample((4,), "int8"), 0, "float64"), {"exclusive": 1}),
            Sample((TensorSample((0, 3)), 0)),
            Sample((TensorSample(()),)),
        ),
        mistakes=(
            Mistake((_X, 2), {}, "OPS0005"),
            Mistake((TensorSample((2,), "bool"), 0), {}, "OPS0007"),
            Mistake((_X, 0, "bool"), {}, "OPS0010"),
            Mistake((_X, (0, 1)), {}, "OPS0002"),
        ),
    )


cumsum = _define_running("cumsum", "Sum the elements up to each along an axis.", np.add, 0)
cumprod = _define_running(
    "cumprod", "Multiply the elements up to each along an axis.", np.multiply, 1
)
