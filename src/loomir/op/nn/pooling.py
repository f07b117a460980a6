"""Pooling: the maximum or mean of windows, sliding or adaptive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as places
from typing import Any

import numpy as np

from loomir.op.nn.layouts import (
    change_layout,
    extents,
    extents_in_layout,
    merge_blocks,
    pack_array,
    read_named_layout,
    unpack_array,
)
from loomir.op.nn.windows import numbers, read_padding, steps, with_axes
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import axes, flag, tensor, text
from loomir.relax.operator.reference import NPArray, is_float, xp
from loomir.relax.operator.rules import need
from loomir.relax.shape import Dim
from loomir.te import topi
from loomir.te.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
T = TensorSample
_X = T((2, 3, 6, 5))
_HALF = T((1, 2, 5, 4), "float16")


def _result(
    c: OpContext, letters: str, made: Callable[[Sequence[Dim]], Sequence[Dim]]
) -> StructInfo:
    """Describe the images that are made, given what makes their extents of those of the input."""
    info = c.tensor(0)
    source, target = (read_named_layout(c, name, letters) for name in ("layout", "out_layout"))
    image = extents(c, 0, info, source, letters)
    shape = None if image is None else extents_in_layout(c, made(image), target, letters)
    return c.make(shape, info.dtype, info, ndim=len(target.parts))


# -- windows that slide --------------------------------------------------------------------------
def _infer(count: int, kind: str) -> Callable[[OpContext], StructInfo]:
    def infer(c: OpContext) -> StructInfo:
        need(c, kind, c.tensor(0).dtype)
        sizes, strides, gaps = (numbers(c, n, count) for n in ("pool_size", "strides", "dilation"))
        windows = list(zip(sizes, strides, gaps, read_padding(c, count), strict=True))

        def make(image: Sequence[Dim]) -> list[Dim]:
            slid = [
                steps(c, extent, *window, ceil_mode=c["ceil_mode"])
                for extent, window in zip(image[2:], windows, strict=True)
            ]
            return [*image[:2], *slid]

        return _result(c, "NC" + _SPATIAL[count], make)

    return infer


def _lower(count: int, greatest: bool) -> Callable[..., Tensor]:
    letters = "NC" + _SPATIAL[count]

    def lower(
        data: Tensor,
        pool_size: Any,
        strides: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        layout: str,
        out_layout: str,
    ) -> Tensor:
        image, own = merge_blocks(data, layout, letters)
        given = (image, pool_size, strides, padding, dilation, ceil_mode)
        if greatest:
            made = topi.max_pool(*given, layout=own)
        else:
            made = topi.avg_pool(*given, count_include_pad=count_include_pad, layout=own)
        return change_layout(made, own, out_layout)

    return lower


def _windows_of(
    extent: int, size: int, stride: int, gap: int, pads: tuple[int, int], ceil_mode: bool
) -> list[tuple[list[int], int]]:
    """List the elements of each window, and how many places it has before the padding ends."""
    found: list[tuple[list[int], int]] = []
    start, end = -pads[0], extent + pads[1]
    while start + gap * (size - 1) < end or (ceil_mode and start < extent):
        at = [start + gap * k for k in range(size)]
        inside = [i for i in at if 0 <= i < extent]
        found.append((inside, len([i for i in at if i < end])))
        if at[-1] >= end - 1:  # Nothing is left that this window does not reach.
            break
        start += stride
    return found


def _reference(count: int, greatest: bool) -> Callable[..., NPArray]:
    letters = "NC" + _SPATIAL[count]

    def reference(
        data: NPArray,
        pool_size: Any,
        strides: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        layout: str,
        out_layout: str,
    ) -> NPArray:
        image = unpack_array(data, layout, letters)
        pads = list(zip(padding[:count], padding[count:], strict=True))
        windows = [
            _windows_of(*w, ceil_mode)
            for w in zip(image.shape[2:], pool_size, strides, dilation, pads, strict=True)
        ]
        shape = (*image.shape[:2], *map(len, windows))
        made: Any = np.zeros(shape, image.dtype)
        for at in places(*map(range, shape[2:])):
            inside = [w[i][0] for w, i in zip(windows, at, strict=True)]
            whole = [w[i][1] for w, i in zip(windows, at, strict=True)]
            part = image[np.ix_(range(shape[0]), range(shape[1]), *inside)]
            size = np.prod(whole) if count_include_pad else np.prod([len(i) for i in inside])
            made[(slice(None), slice(None), *at)] = (
                _greatest(part) if greatest else _mean(part, int(size))
            )
        return pack_array(made, letters, out_layout)

    return reference


def _greatest(part: Any) -> Any:
    over = tuple(range(2, part.ndim))
    least = -np.inf if is_float(part.dtype) else np.iinfo(part.dtype).min
    wide = part.astype("float64") if is_float(part.dtype) else part
    return xp.max(wide, axis=over, initial=least).astype(part.dtype)


def _mean(part: Any, size: int) -> Any:
    total = part.astype("float64").sum(axis=tuple(range(2, part.ndim)))
    with np.errstate(all="ignore"):
        return (total / xp.float64(size)).astype(part.dtype)


_DOC = """{summary}

``padding``: one number, one for each axis, or those before the axes and then those after;
padding is ignored{counted}. ``ceil_mode``: count a last window that starts inside but does not fit.
Layouts may have blocks, as in ``"NCHW4c"``; ``out_layout`` is ``layout`` by default.
Shapes: spatial extents ``(n + pads - dilation * (size - 1) - 1) // stride + 1``."""
_ODD = T((1, 1, 2, 2), values=[[[[np.nan, 1.0], [-0.0, -np.inf]]]])


def _define(count: int, greatest: bool, samples: Sequence[Sample]) -> Callable[..., Any]:
    letters = "NC" + _SPATIAL[count]
    shape = (2, 3, 6, 5, 4)[: count + 2]
    kind = "number" if greatest else "float"
    wrong = T(shape, "bool" if greatest else "int32")
    return define_op(
        f"nn.{'max' if greatest else 'avg'}_pool{count}d",
        tensor("data"),
        axes("pool_size", (1,) * count),
        axes("strides", (1,) * count),
        axes("padding", (0,) * (2 * count)),
        axes("dilation", (1,) * count),
        flag("ceil_mode", False),
        # The defaults that users know differ: lines and volumes count what is padded.
        flag("count_include_pad", not greatest and count != 2),
        text("layout", letters),
        text("out_layout", None),
        infer=_infer(count, kind),
        doc=_DOC.format(
            summary="Take the maximum of each window; NaN counts as the greatest."
            if greatest
            else "Take the mean of each window's elements.",
            counted="" if greatest else ", but\ncounts as zeros with ``count_include_pad``",
        ),
        family="pooling",
        lower=_lower(count, greatest),
        reference=_reference(count, greatest),
        samples=samples,
        mistakes=(
            Mistake((T(shape), 7), {}, "OPS0062"),
            Mistake((T(shape), 0), {}, "OPS0039"),
            Mistake((T(shape), (2,) * (count + 1)), {}, "OPS0061"),
            Mistake((T(shape[1:]), 2), {}, "OPS0030"),
            Mistake((T(shape), 2), {"layout": "CN"}, "OPS0060"),
            Mistake((T(shape), 2), {"out_layout": letters + "2c"}, "OPS0037"),
            Mistake((wrong, 2), {}, "OPS0007"),
        ),
        adapt=with_axes(
            count,
            pool_size=1,
            strides=1,
            padding=0,
            dilation=1,
            out_layout=("layout", letters),
        ),
    )


def _samples(near: dict[str, Any], other: TensorSample) -> tuple[Sample, ...]:
    return (
        Sample((_X,), **near),
        Sample((_X, (3, 2), (2, 1), (1, 0)), **near),
        Sample((_X, 2, 3, (0, 1, 1, 0), (2, 1), True), **near),
        Sample((_X, 3, 2, 1, 1, True, True), **near),
        Sample((_X, (4, 2), (2, 1), 0, 1, True), **near),
        Sample((_HALF, 2), {"strides": 2, "layout": "NHWC"}, **near),
        Sample((T((1, 2, 3, 3, 2)), 2), {"layout": "NCHW2c", "out_layout": "NCHW"}, **near),
        Sample((other, 2), {"out_layout": "HWNC"}, **near),
        Sample((_ODD, 2), {"padding": 1}, **near),
        Sample((T((0, 3, 2, 2)), 2), **near),
    )


_NEAR: dict[str, Any] = {"ulps": 2, "absolute": 1e-6}
max_pool2d = _define(2, True, _samples({}, T((1, 2, 3, 3), "int8", -128, 127)))
avg_pool2d = _define(2, False, _samples(_NEAR, T((1, 2, 3, 3), "float64")))
_W, _D = T((2, 3, 7)), T((1, 2, 3, 4, 3))
max_pool1d = _define(1, True, (Sample((_W, 3, 2, (0, 1))), Sample((_W, 2), {"layout": "NWC"})))
avg_pool1d = _define(
    1, False, (Sample((_W, 3, 2, 1), **_NEAR), Sample((_W, 2, 3), {"ceil_mode": True}, **_NEAR))
)
max_pool3d = _define(3, True, (Sample((_D, (2, 2, 1), 1, (1, 0, 0))),))
avg_pool3d = _define(3, False, (Sample((_D, 2, (1, 2, 1), 1, 1, False, True), **_NEAR),))


# -- windows that cover --------------------------------------------------------------------------
def _infer_adaptive(count: int) -> Callable[[OpContext], StructInfo]:
    def infer(c: OpContext) -> StructInfo:
        need(c, "float", c.tensor(0).dtype)
        sizes = None if c["output_size"] is None else numbers(c, "output_size", count, least=0)

        def make(image: Sequence[Dim]) -> Sequence[Dim]:
            for letter, extent in zip(_SPATIAL[count], image[2:], strict=True):
                c.require_order(
                    "OPS0013",
                    1,
                    extent,
                    f"axis {letter!r} has no element to average",
                    help="give images of one element or more",
                    arg=0,
                )
            return image if sizes is None else [*image[:2], *sizes]

        return _result(c, "NC" + _SPATIAL[count], make)

    return infer


def _lower_adaptive(count: int) -> Callable[..., Tensor]:
    letters = "NC" + _SPATIAL[count]

    def lower(data: Tensor, output_size: Any, layout: str, out_layout: str) -> Tensor:
        image, own = merge_blocks(data, layout, letters)
        made = image
        if output_size is not None:
            made = topi.adaptive_avg_pool(image, output_size, layout=own)
        made = change_layout(made, own, out_layout)
        return topi.identity(made) if made is data else made

    return lower


def _reference_adaptive(count: int) -> Callable[..., NPArray]:
    letters = "NC" + _SPATIAL[count]

    def reference(data: NPArray, output_size: Any, layout: str, out_layout: str) -> NPArray:
        image = unpack_array(data, layout, letters)
        if 0 in image.shape[2:]:
            raise ValueError("images have no element to average")
        if output_size is None:
            return pack_array(image, letters, out_layout)
        made: Any = np.zeros((*image.shape[:2], *output_size), image.dtype)
        for at in places(*map(range, output_size)):
            cut = tuple(
                slice(i * n // m, -(-(i + 1) * n // m))
                for i, n, m in zip(at, image.shape[2:], output_size, strict=True)
            )
            part = image[(slice(None), slice(None), *cut)]
            made[(slice(None), slice(None), *at)] = _mean(part, int(np.prod(part.shape[2:])))
        return pack_array(made, letters, out_layout)

    return reference


def _define_adaptive(count: int, samples: Sequence[Sample]) -> Callable[..., Any]:
    letters = "NC" + _SPATIAL[count]
    shape = (2, 3, 6, 5, 4)[: count + 2]
    return define_op(
        f"nn.adaptive_avg_pool{count}d",
        tensor("data"),
        axes("output_size", None),
        text("layout", letters),
        text("out_layout", None),
        infer=_infer_adaptive(count),
        doc="""Take the mean of each of ``output_size`` windows that cover the image evenly.

Window ``i`` of ``m`` on an axis of ``n`` goes from ``i * n // m`` up to ``ceil((i + 1) * n / m)``.
``output_size``: one number, or one for each axis; by default that of the images. Shapes: spatial
extents ``output_size``.""",
        family="pooling",
        lower=_lower_adaptive(count),
        reference=_reference_adaptive(count),
        samples=samples,
        mistakes=(
            Mistake((T(shape), (2,) * (count + 1)), {}, "OPS0061"),
            Mistake((T(shape), -1), {}, "OPS0039"),
            Mistake((T((*shape[:2], *(0,) * count)), 1), {}, "OPS0013"),
            Mistake((T(shape[1:]), 1), {}, "OPS0030"),
            Mistake((T(shape, "int32"), 1), {}, "OPS0007"),
        ),
        adapt=with_axes(count, output_size=None, out_layout=("layout", letters)),
    )


adaptive_avg_pool2d = _define_adaptive(
    2,
    (
        Sample((_X, (4, 2)), **_NEAR),
        Sample((_X, 1), **_NEAR),
        Sample((_X,)),
        Sample((_HALF, (2, 3)), {"layout": "NHWC", "out_layout": "NCHW"}, **_NEAR),
        Sample((T((1, 2, 4, 4, 2)), 2), {"layout": "NCHW2c"}, **_NEAR),
    ),
)
adaptive_avg_pool1d = _define_adaptive(1, (Sample((_W, 3), **_NEAR), Sample((_W, 9), **_NEAR)))
adaptive_avg_pool3d = _define_adaptive(3, (Sample((_D, (2, 3, 1)), **_NEAR),))
