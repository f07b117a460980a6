"""Pooling: the maximum or mean of sliding windows over images.

Images have one to three spatial axes. Layouts are words such as ``"NCHW"`` and ``"NHWC"``; channels
first is the default. Padding never counts as an element of a maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loomir.te.reduction import ReduceAxis, max, reduce_axis, sum
from loomir.te.scalar import all_of
from loomir.te.tensor import Tensor
from loomir.te.topi.layout import PerAxis, Window, expand_per_axis, pads_of, spatial_axes
from loomir.te.topi.loops import wide
from loomir.te.topi.shape import Size, bad, dims, has_equal_sizes, make, need, widen, write_shape
from loomir.tir.expr import ExprLike, Max, Min, PrimExpr, cast, convert, match_dtypes

__all__ = [
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "avg_pool",
    "global_avg_pool",
    "global_max_pool",
    "max_pool",
]


def max_pool(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    layout: str | None = None,
) -> Tensor:
    """Take the maximum of each window; NaN counts as the greatest.

    ``stride``: as the window is large where it is left out. ``padding``: one number, one for each
    spatial axis, or those before the axes and then those after. ``ceil_mode``: count a last window
    that starts inside but does not fit.
    Shapes: spatial extents ``(n + pads - dilation * (kernel - 1) - 1) // stride + 1``.
    Errors: TE0103, TE0104.
    """
    need("max_pool", "number", x)
    at, windows = _windows("max_pool", x, kernel, stride, padding, dilation, layout)
    return _slide("max_pool", x, at, windows, ceil_mode, max, lambda v: v)


def avg_pool(
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str | None = None,
) -> Tensor:
    """Take the mean of each window's elements; parameters are as in ``max_pool``.

    ``count_include_pad``: divide by the number of elements and padded zeros in the window, which
    ends where the padding ends. 16-bit floats are summed in float32, and rounded once.
    Shapes: those of ``max_pool``. Errors: TE0103, TE0104.
    """
    need("avg_pool", "float", x)
    at, windows = _windows("avg_pool", x, kernel, stride, padding, dilation, layout)
    total = _slide("avg_pool_sum", x, at, windows, ceil_mode, sum, widen)
    extents = [dims(x)[axis] for axis in at]

    def element(*i: PrimExpr) -> PrimExpr:
        divisor: PrimExpr = convert(1)
        for axis, window, extent in zip(at, windows, extents, strict=True):
            divisor = divisor * _elements(i[axis], window, extent, ceil_mode, count_include_pad)
        return cast(total(*i) / cast(divisor, total.dtype), x.dtype)

    return make("avg_pool", dims(total), element)


def _windows(
    name: str,
    x: Tensor,
    kernel: PerAxis,
    stride: PerAxis | None,
    padding: PerAxis,
    dilation: PerAxis,
    layout: str | None,
) -> tuple[list[int], list[Window]]:
    at = _images(name, x, layout)
    sizes = expand_per_axis(name, "the kernel", kernel, len(at))
    strides = sizes if stride is None else expand_per_axis(name, "the stride", stride, len(at))
    gaps = expand_per_axis(name, "the dilation", dilation, len(at))
    pads = pads_of(name, padding, len(at))
    return at, [Window(*w) for w in zip(sizes, strides, gaps, pads, strict=True)]


def _images(name: str, x: Tensor, layout: str | None) -> list[int]:
    count = x.ndim - 2
    if not 1 <= count <= 3:
        bad(
            name,
            f"the tensor has shape {write_shape(dims(x))}",
            "give a batch, channels and 1 to 3 more axes",
        )
    return spatial_axes(name, x, layout, count)[1]


def _slide(
    name: str,
    x: Tensor,
    at: Sequence[int],
    windows: Sequence[Window],
    ceil_mode: bool,
    reducer: Callable[..., Any],
    element: Callable[[PrimExpr], PrimExpr],
) -> Tensor:
    shape = dims(x)
    out = list(shape)
    for axis, window in zip(at, windows, strict=True):
        out[axis] = window.steps(name, shape[axis], ceil_mode)
    over = [reduce_axis((0, convert(w.size)), f"k{a}") for a, w in zip(at, windows, strict=True)]

    def formula(*i: PrimExpr) -> PrimExpr:
        place, inside = list(i), list[ExprLike]()
        for axis, window, k in zip(at, windows, over, strict=True):
            here = _scale(i[axis], window.stride) + _scale(k, window.dilation)
            if window.before:
                here = here - window.before
                inside.append(here >= 0)
            if window.after or (ceil_mode and window.stride > 1):
                inside.append(here < shape[axis])
            place[axis] = here
        made: PrimExpr = reducer(element(x(*place)), over, all_of(*inside) if inside else None)
        return made

    return make(name, out, formula)


def _scale(value: PrimExpr, factor: int) -> PrimExpr:
    return value if factor == 1 else value * factor


def _elements(
    i: PrimExpr, window: Window, extent: Size, ceil_mode: bool, count_include_pad: bool
) -> ExprLike:
    """Count what one window has along one axis."""
    cut = ceil_mode and window.stride > 1
    if not cut and (count_include_pad or not (window.before or window.after)):
        return window.size
    start = i * window.stride - window.before
    end = extent + window.after if count_include_pad else extent
    gap = window.dilation
    last = Min(*match_dtypes((end - start + (gap - 1)) // gap, window.size))
    if count_include_pad or not window.before:
        return last
    first = (start * -1 + (gap - 1)) // gap
    return Max(last - Max(*match_dtypes(first, 0)), convert(0).astype(last.dtype))


def adaptive_max_pool(
    x: Tensor, output_size: Size | Sequence[Size], layout: str | None = None
) -> Tensor:
    """Take the greatest element of each of ``output_size`` windows that cover the image evenly.

    Window ``i`` of ``m`` on an axis of ``n`` goes from ``i * n // m`` up to
    ``ceil((i + 1) * n / m)``.
    Shapes: spatial extents ``output_size``. Errors: TE0103, TE0104.
    """
    need("adaptive_max_pool", "number", x)
    at, out = _adaptive("adaptive_max_pool", x, output_size, layout)
    return _cover("adaptive_max_pool", x, at, out, max, lambda v: v)


def adaptive_avg_pool(
    x: Tensor, output_size: Size | Sequence[Size], layout: str | None = None
) -> Tensor:
    """Take the mean of each of the windows of ``adaptive_max_pool``.

    Shapes: spatial extents ``output_size``. Errors: TE0103, TE0104.
    """
    return _mean("adaptive_avg_pool", x, output_size, layout)


def global_max_pool(x: Tensor, layout: str | None = None) -> Tensor:
    """Take the maximum of each image.

    Shapes: spatial extents 1. Errors: TE0103, TE0104.
    """
    need("global_max_pool", "number", x)
    at, out = _adaptive("global_max_pool", x, 1, layout)
    return _cover("global_max_pool", x, at, out, max, lambda v: v)


def global_avg_pool(x: Tensor, layout: str | None = None) -> Tensor:
    """Take the mean of each image.

    Shapes: spatial extents 1. Errors: TE0103, TE0104.
    """
    return _mean("global_avg_pool", x, 1, layout)


def _mean(name: str, x: Tensor, output_size: Size | Sequence[Size], layout: str | None) -> Tensor:
    need(name, "float", x)
    at, out = _adaptive(name, x, output_size, layout)
    total = _cover(f"{name}_sum", x, at, out, sum, widen)
    shape = dims(x)

    def element(*i: PrimExpr) -> PrimExpr:
        divisor: PrimExpr = wide(1)
        for axis, count in zip(at, out, strict=True):
            first, end = _span(i[axis], shape[axis], count)
            divisor = divisor * (wide(shape[axis]) if _is_one(count) else end - first)
        return cast(total(*i) / cast(divisor, total.dtype), x.dtype)

    return make(name, dims(total), element)


def _adaptive(
    name: str, x: Tensor, output_size: Size | Sequence[Size], layout: str | None
) -> tuple[list[int], list[Size]]:
    at = _images(name, x, layout)
    given: list[Size] = (
        [output_size] * len(at) if isinstance(output_size, (int, PrimExpr)) else list(output_size)
    )
    if len(given) != len(at) or any(isinstance(s, int) and s < 0 for s in given):
        bad(name, f"the output size is {output_size}", f"give {len(at)} sizes, or one for all")
    for axis in at:
        extent = dims(x)[axis]
        if isinstance(extent, int) and extent == 0:
            bad(name, f"axis {axis} is empty", "give images of one element or more")
    return at, given


def _span(i: PrimExpr, extent: Size, count: Size) -> tuple[PrimExpr, PrimExpr]:
    """Return the bounds of window ``i`` out of ``count``."""
    index, n, m = wide(i), wide(extent), wide(count)
    return index * n // m, ((index + 1) * n + (m - 1)) // m


def _is_one(count: Size) -> bool:
    return isinstance(count, int) and count == 1


def _cover(
    name: str,
    x: Tensor,
    at: Sequence[int],
    out: Sequence[Size],
    reducer: Callable[..., Any],
    element: Callable[[PrimExpr], PrimExpr],
) -> Tensor:
    shape = dims(x)
    made = list(shape)
    over: list[ReduceAxis] = []
    even: list[bool] = []
    for axis, count in zip(at, out, strict=True):
        extent = shape[axis]
        known = isinstance(extent, int) and isinstance(count, int)
        whole = _is_one(count) or has_equal_sizes(extent, count)
        even.append(whole or (known and count != 0 and extent % count == 0))
        most = _widest(extent, count, even[-1])
        over.append(reduce_axis((0, convert(most)), f"k{axis}"))
        made[axis] = count

    def formula(*i: PrimExpr) -> PrimExpr:
        place, inside = list(i), list[ExprLike]()
        for axis, count, k, fits in zip(at, out, over, even, strict=True):
            if _is_one(count):
                place[axis] = k
                continue
            first, end = _span(i[axis], shape[axis], count)
            place[axis] = first + k
            if not fits:
                inside.append(place[axis] < end)
        result: PrimExpr = reducer(element(x(*place)), over, all_of(*inside) if inside else None)
        return result

    return make(name, made, formula)


def _widest(extent: Size, count: Size, even: bool) -> Size:
    if isinstance(count, int) and count == 0:
        return 1
    if even:
        return 1 if has_equal_sizes(extent, count) and not _is_one(count) else extent // count
    # A window of a bound that is no whole number reaches into one element more at each end.
    return (extent + (count - 1)) // count + 1
