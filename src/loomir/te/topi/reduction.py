"""Reductions over axes, by default over all of them.

16-bit floats are summed in float32 and rounded once. A NaN makes the result NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loomir.support.dtype import DataType
from loomir.te import reduction as te
from loomir.te.scalar import all_of, any_of, max_value, min_value, select
from loomir.te.tensor import Tensor
from loomir.te.topi.elementwise import cast
from loomir.te.topi.shape import Axes, Size, as_axes, bad, compute_dtype, dims, make, need, product
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import IntImm, PrimExpr, const, convert
from loomir.tir.expr import cast as converted

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "variance",
]

Reducer = Callable[..., Any]


def reduce_over(
    name: str,
    x: Tensor,
    axes: tuple[int, ...],
    keepdims: bool,
    element: Callable[[Sequence[PrimExpr], Sequence[PrimExpr]], Any],
    reducer: Reducer,
) -> Any:
    """Combine ``element(indices of x, indices of the reduction)`` over axes of ``x``."""
    shape = dims(x)
    over = [te.reduce_axis((0, convert(shape[a])), f"k{a}") for a in axes]
    kept = [1 if a in axes else d for a, d in enumerate(shape)]
    out = kept if keepdims else [d for a, d in enumerate(shape) if a not in axes]

    def formula(*i: PrimExpr) -> Any:
        left, steps = iter(i), iter(over)
        at: list[PrimExpr] = []
        for axis in range(len(shape)):
            if axis not in axes:
                at.append(next(left))
                continue
            if keepdims:
                next(left)
            at.append(next(steps))
        # One step where nothing is combined: 0 + -0.0 is 0.0 in NumPy too.
        return reducer(element(at, over), axis=over or [te.reduce_axis((0, 1), "once")])

    return make(name, out, formula)


def sum_dtype(dtype: DataType) -> DataType:
    """Return NumPy's dtype of sums: the widest integer of the sign."""
    if dtype.is_float:
        return dtype
    return DataType("int64" if dtype.is_int or dtype.is_bool else "uint64")


def _accumulate(
    name: str, x: Tensor, axis: Axes, keepdims: bool, dtype: str | None, reducer: Reducer
) -> Tensor:
    axes = as_axes(name, axis, x.ndim)
    wanted = sum_dtype(x.dtype) if dtype is None else DataType(dtype)
    wide = compute_dtype(wanted)
    made = reduce_over(name, x, axes, keepdims, lambda at, _: converted(x(*at), wide), reducer)
    return made if wide is wanted else cast(made, wanted)


def sum(  # noqa: A001 - the name of the field
    x: Tensor, axis: Axes = None, keepdims: bool = False, dtype: str | None = None
) -> Tensor:
    """Sum over axes; integers in 64 bits unless ``dtype`` says another.

    Shapes: without ``axis``, or with extents of 1. Errors: TE0102.
    """
    return _accumulate("sum", x, axis, keepdims, dtype, te.sum)


def prod(x: Tensor, axis: Axes = None, keepdims: bool = False, dtype: str | None = None) -> Tensor:
    """Multiply over axes; integers in 64 bits unless ``dtype`` says another.

    Shapes: without ``axis``, or with extents of 1. Errors: TE0102.
    """
    return _accumulate("prod", x, axis, keepdims, dtype, te.prod)


def _require_elements(name: str, x: Tensor, axes: tuple[int, ...]) -> None:
    if 0 in [d for d in (dims(x)[a] for a in axes) if isinstance(d, int)]:
        bad(name, "there is nothing to choose from along an axis of extent 0", "give elements")


def _choose(name: str, x: Tensor, axis: Axes, keepdims: bool, reducer: Reducer) -> Tensor:
    need(name, "number", x)
    axes = as_axes(name, axis, x.ndim)
    _require_elements(name, x, axes)
    return reduce_over(name, x, axes, keepdims, lambda at, _: x(*at), reducer)


def max(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Compute the maximum over axes; the least value of the dtype if a symbolic extent is 0.

    Shapes: without ``axis``, or with extents of 1. Errors: TE0102 to TE0104.
    """
    return _choose("max", x, axis, keepdims, te.max)


def min(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Compute the minimum over axes; the greatest value of the dtype if a symbolic extent is 0.

    Shapes: without ``axis``, or with extents of 1. Errors: TE0102 to TE0104.
    """
    return _choose("min", x, axis, keepdims, te.min)


def all(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Test whether all elements over axes are true.

    Shapes: without ``axis``, or with extents of 1. Errors: TE0102, TE0103.
    """
    need("all", "bool", x)
    axes = as_axes("all", axis, x.ndim)
    return reduce_over("all", x, axes, keepdims, lambda at, _: x(*at), te.all)


def any(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Test whether any element over axes is true.

    Shapes: without ``axis``, or with extents of 1. Errors: TE0102, TE0103.
    """
    need("any", "bool", x)
    axes = as_axes("any", axis, x.ndim)
    return reduce_over("any", x, axes, keepdims, lambda at, _: x(*at), te.any)


# -- places ----------------------------------------------------------------------------------
def _arg(name: str, x: Tensor, axis: int | None, keepdims: bool, greatest: bool) -> Tensor:
    need(name, "number", x)
    axes = as_axes(name, axis, x.ndim)
    _require_elements(name, x, axes)
    shape = dims(x)

    def place(at: Sequence[PrimExpr], over: Sequence[PrimExpr]) -> Any:
        index: PrimExpr = const(0, "int64")
        for step, a in zip(over, axes, strict=True):
            extent = shape[a]
            wide = extent if isinstance(extent, int) else converted(extent, "int64")
            index = converted(step, "int64") if a == axes[0] else index * wide + step
        return index, x(*at)

    def combine(a: Any, b: Any) -> Any:
        keep = _is_before(a, b, greatest)
        return select(keep, a[0], b[0]), select(keep, a[1], b[1])

    def identity(place_dtype: str, dtype: str) -> Any:
        # As far as any element, and after it: of equals the first counts.
        least = min_value(dtype) if greatest else max_value(dtype)
        if DataType(dtype).is_float:
            least = const(float("-inf" if greatest else "inf"), dtype)
        return max_value(place_dtype), least

    reducer = te.comm_reducer(combine, identity, name)
    if not axes:
        return make(name, [], lambda: const(0, "int64"))
    return reduce_over(name, x, axes, keepdims, place, reducer)[0]


def _is_before(a: Any, b: Any, greatest: bool) -> PrimExpr:
    """Tell whether ``a`` comes before ``b``: NaN first, then by value, then by place."""
    better = a[1] > b[1] if greatest else a[1] < b[1]
    first = a[0] < b[0]
    if not a[1].dtype.is_float:
        return any_of(better, all_of(a[1].equal(b[1]), first))
    lost, other = call_builtin("isnan", a[1]), call_builtin("isnan", b[1])
    tie = any_of(a[1].equal(b[1]), all_of(lost, other))
    return any_of(better, all_of(lost, other.equal(const(False, "bool"))), all_of(tie, first))


def argmax(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the int64 index of the maximum: the first of equals, or of NaN the first.

    Shapes: without ``axis``, or with an extent of 1. Errors: TE0102 to TE0104.
    """
    return _arg("argmax", x, axis, keepdims, greatest=True)


def argmin(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the int64 index of the minimum: the first of equals, or of NaN the first.

    Shapes: without ``axis``, or with an extent of 1. Errors: TE0102 to TE0104.
    """
    return _arg("argmin", x, axis, keepdims, greatest=False)


# -- statistics ------------------------------------------------------------------------------
def count_as_float(count: Size, dtype: DataType) -> PrimExpr:
    """Return a number of elements as a float."""
    return const(count, dtype) if isinstance(count, int) else converted(count, dtype)


def wide_mean(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return means in the dtype to compute in."""
    wide = compute_dtype(x.dtype)
    total = reduce_over("sum", x, axes, keepdims, lambda at, _: converted(x(*at), wide), te.sum)
    count = product(dims(x)[a] for a in axes)
    return make("mean", dims(total), lambda *i: total(*i) / count_as_float(count, wide))


def mean(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Compute the mean over axes; NaN if there are no elements.

    Shapes: without ``axis``, or with extents of 1. Errors: TE0102, TE0103.
    """
    need("mean", "float", x)
    made = wide_mean(x, as_axes("mean", axis, x.ndim), keepdims)
    return made if made.dtype is x.dtype else cast(made, x.dtype)


def wide_variance(
    x: Tensor,
    axes: tuple[int, ...],
    keepdims: bool,
    correction: float = 0,
    middle: Tensor | None = None,
) -> Tensor:
    """Return variances in the dtype to compute in, from the squares of distances to the mean.

    ``middle`` is the mean with axes of extent 1, where there is one already.
    """
    wide = compute_dtype(x.dtype)
    if middle is None:
        middle = wide_mean(x, axes, keepdims=True)

    def square(at: Sequence[PrimExpr], _: Sequence[PrimExpr]) -> PrimExpr:
        rest = converted(x(*at), wide) - middle(*(0 if a in axes else i for a, i in enumerate(at)))
        return rest * rest

    total = reduce_over("squares", x, axes, keepdims, square, te.sum)
    count = count_as_float(product(dims(x)[a] for a in axes), wide)
    left = count - const(correction, wide)
    return make("variance", dims(total), lambda *i: total(*i) / left)


def variance(x: Tensor, axis: Axes = None, keepdims: bool = False, correction: float = 0) -> Tensor:
    """Compute variances, dividing by the number of elements minus ``correction``.

    Shapes: without ``axis``, or with extents of 1. Errors: TE0102, TE0103.
    """
    need("variance", "float", x)
    made = wide_variance(x, as_axes("variance", axis, x.ndim), keepdims, correction)
    return made if made.dtype is x.dtype else cast(made, x.dtype)


def std(x: Tensor, axis: Axes = None, keepdims: bool = False, correction: float = 0) -> Tensor:
    """Compute standard deviations.

    Shapes: without ``axis``, or with extents of 1. Errors: TE0102, TE0103.
    """
    need("std", "float", x)
    made = wide_variance(x, as_axes("std", axis, x.ndim), keepdims, correction)
    return make("std", dims(made), lambda *i: converted(call_builtin("sqrt", made(*i)), x.dtype))


def logsumexp(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Compute log(sum(exp(x))) without overflow.

    Shapes: without ``axis``, or with extents of 1. Errors: TE0102, TE0103.
    """
    need("logsumexp", "float", x)
    axes = as_axes("logsumexp", axis, x.ndim)
    wide = compute_dtype(x.dtype)
    most = reduce_over("most", x, axes, True, lambda at, _: converted(x(*at), wide), te.max)
    zero = const(0, wide)

    def shift(at: Sequence[PrimExpr]) -> PrimExpr:
        # From an infinity nothing can be taken away.
        top = most(*(0 if a in axes else i for a, i in enumerate(at)))
        return select(call_builtin("isinf", top), zero, top)

    def element(at: Sequence[PrimExpr], _: Sequence[PrimExpr]) -> PrimExpr:
        return call_builtin("exp", converted(x(*at), wide) - shift(at))

    total = reduce_over("total", x, axes, True, element, te.sum)

    def result(*i: PrimExpr) -> PrimExpr:
        left = iter(i)
        at = [
            next(left) if keepdims or a not in axes else IntImm(0, DataType("int32"))
            for a in range(x.ndim)
        ]
        return converted(call_builtin("log", total(*at)) + shift(at), x.dtype)

    shape = [1 if a in axes else d for a, d in enumerate(dims(x)) if keepdims or a not in axes]
    return make("logsumexp", shape, result)
