"""Resize images, and sample them at the points of a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from loomir import op, te
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, compute
from loomir.te.topi.shape import compute_dtype
from loomir.tir.expr import Max, Min, PrimExpr, cast, const


def _scales(node: Node, axes: int) -> list[float | None]:
    """Return the factors by which images grow, where they are given."""
    given: Any = node.arguments.get("scale_factors")
    if given is not None:
        return [float(v) for v in given]
    names = {1: ["scales"], 2: ["scales_h", "scales_w"], 3: ["scales_d", "scales_h", "scales_w"]}
    return [node.arguments.get(name) for name in names[axes]]


def _step(extent: Any, count: Any, scale: float | None) -> Any:
    """Return how far the places of neighbours are, as a number or an expression of float64."""
    if scale is not None and scale > 0:
        return 1.0 / scale
    if isinstance(extent, int) and isinstance(count, int):
        return extent / count
    return _wide(extent) / _wide(count)


def _wide(value: Any) -> PrimExpr:
    return cast(value, "float64") if isinstance(value, PrimExpr) else const(value, "float64")


def _number(value: Any) -> PrimExpr:
    return value if isinstance(value, PrimExpr) else const(value, "float64")


@register("aten.upsample_nearest1d.default", "aten.upsample_nearest2d.default",
          "aten.upsample_nearest3d.default", "aten.upsample_nearest1d.vec",
          "aten.upsample_nearest2d.vec", "aten.upsample_nearest3d.vec",
          "aten._upsample_nearest_exact1d.default", "aten._upsample_nearest_exact2d.default",
          "aten._upsample_nearest_exact1d.vec", "aten._upsample_nearest_exact2d.vec",
          "aten._upsample_nearest_exact3d.default",
          "aten._upsample_nearest_exact3d.vec")  # fmt: skip
def _nearest(node: Node) -> RelaxExpr:
    dims, shape = node.dims(0), node.shape
    axes = len(dims) - 2
    scales = _scales(node, axes)
    offset = 0.5 if "exact" in node.operator else 0.0
    x = node.tensor(0)
    for i in range(axes):
        x = _repeat(node, x, i + 2, shape[i + 2], scales[i], offset)
    return x


def _repeat(
    node: Node, x: RelaxExpr, axis: int, count: Any, scale: float | None, offset: float
) -> RelaxExpr:
    extent = node.dims_of(x)[axis]
    if node.is_equal(extent, count):
        return x
    times = count // extent if isinstance(count, int) and isinstance(extent, int) else 0
    if times and times * extent == count and scale in (None, float(times)):
        return node.emit(op.repeat(x, times, axis))

    def kernel(data: Tensor, extent: Any, count: Any) -> Tensor:
        step = _step(extent, count, scale)
        shape = [*data.shape]
        last = cast(shape[axis] - 1, "int64")
        shape[axis] = count if isinstance(count, PrimExpr) else const(count, "int64")

        def element(*i: PrimExpr) -> PrimExpr:
            # PyTorch computes places in float32.
            place = cast(_number(step), "float32") * (cast(i[axis], "float32") + offset)
            at = [*i]
            at[axis] = Min(cast(te.floor(place), "int64"), last)
            return data(*at)

        return compute(tuple(shape), element, name="nearest")

    return node.compute(kernel, x, extent, count)


@register("aten.upsample_bilinear2d.default", "aten.upsample_bilinear2d.vec",
          "aten.upsample_linear1d.default", "aten.upsample_linear1d.vec",
          "aten.upsample_trilinear3d.default", "aten.upsample_trilinear3d.vec",
          note="images of bytes whose extents are not known")  # fmt: skip
def _linear(node: Node) -> RelaxExpr:
    dims, shape = node.dims(0), node.shape
    axes = len(dims) - 2
    scales = _scales(node, axes)
    aligned = bool(node["align_corners"])
    x = node.tensor(0)
    dtype = node.dtype
    if dtype == "uint8":
        return _mix_axes(node, scales, partial(_linear_weights, aligned=aligned), aligned=aligned)
    wide = str(compute_dtype(node.info_of(x).dtype))
    x = node.cast(x, wide)
    for i in range(axes):
        extent, count = dims[i + 2], shape[i + 2]
        if node.is_equal(extent, count) and (aligned or scales[i] in (None, 1.0)):
            continue
        x = node.compute(_make_interpolation(i + 2, scales[i], aligned), x, extent, count)
    return node.cast(x, dtype)


def _make_interpolation(
    axis: int, scale: float | None, aligned: bool
) -> Callable[[Tensor, Any, Any], Tensor]:
    """Make the kernel that interpolates along one axis."""

    def kernel(data: Tensor, extent: Any, count: Any) -> Tensor:
        dtype = data.dtype
        shape = [*data.shape]
        last = cast(shape[axis] - 1, "int64")
        shape[axis] = count if isinstance(count, PrimExpr) else const(count, "int64")

        def element(*i: PrimExpr) -> PrimExpr:
            here = cast(i[axis], dtype)
            if aligned:
                most = _wide(count) - 1.0
                step = cast((_wide(extent) - 1.0) / Max(most, const(1.0, "float64")), dtype)
                place = here * step
            else:
                step = cast(_number(_step(extent, count, scale)), dtype)
                place = step * (here + 0.5) - 0.5
                place = Max(place, const(0.0, dtype))
            low = Min(cast(te.floor(place), "int64"), last)
            high = Min(low + 1, last)
            part = Min(Max(place - cast(low, dtype), const(0.0, dtype)), const(1.0, dtype))
            first, second = [*i], [*i]
            first[axis], second[axis] = low, high
            return data(*first) * (const(1.0, dtype) - part) + data(*second) * part

        return compute(tuple(shape), element, name="interpolated")

    return kernel


@register("aten.grid_sampler_2d.default")
def _grid_sampler(node: Node) -> RelaxExpr:
    mode = {0: "bilinear", 1: "nearest", 2: "bicubic"}[int(node["interpolation_mode"])]
    padding = {0: "zeros", 1: "border", 2: "reflection"}[int(node["padding_mode"])]
    grid = node.emit(op.permute_dims(node.tensor(1), [0, 3, 1, 2]))
    return op.image.grid_sample(
        node.tensor(0), grid, mode, "NCHW", padding, bool(node["align_corners"])
    )


@register("aten.grid_sampler_3d.default")
def _sample_volume(node: Node) -> RelaxExpr:
    nearest, padding = int(node["interpolation_mode"]) == 1, int(node["padding_mode"])
    aligned = bool(node["align_corners"])
    x, grid = node.tensor(0), node.tensor(1)
    wide = str(compute_dtype(node.info_of(x).dtype))
    kernel = _make_sampling(nearest=nearest, padding=padding, aligned=aligned)
    made = node.compute(kernel, node.cast(x, wide), node.cast(grid, wide))
    return node.cast(made, node.dtype)


def _make_sampling(
    *, nearest: bool, padding: int, aligned: bool
) -> Callable[[Tensor, Tensor], Tensor]:
    """Make the kernel that samples volumes; beyond them are zeros, or what ``padding`` says."""

    def find_place(at: PrimExpr, extent: PrimExpr) -> PrimExpr:
        count, zero = cast(extent, at.dtype), const(0.0, at.dtype)
        place = (at + 1.0) * 0.5 * (count - 1.0) if aligned else ((at + 1.0) * count - 1.0) * 0.5
        if padding == 2:
            low, span = (zero, count - 1.0) if aligned else (const(-0.5, at.dtype), count)
            gap = te.abs(place - low)
            flips = te.floor(gap / span)
            rest = gap - flips * span
            odd = (flips - te.floor(flips * 0.5) * 2.0).equal(1.0)
            place = te.select(odd, span - rest, rest) + low
            place = te.select(span > 0.0, place, zero)
        return Min(Max(place, zero), count - 1.0) if padding else place

    def kernel(x: Tensor, grid: Tensor) -> Tensor:
        n, c, *extents = x.shape
        zero = const(0.0, x.dtype)

        def element(*i: PrimExpr) -> PrimExpr:
            total: PrimExpr = zero
            points = [i[0], *i[2:]]
            # The grid has the last axis first.
            places = [find_place(grid(*points, 2 - a), extents[a]) for a in range(3)]
            for corner in range(1 if nearest else 8):
                weight: PrimExpr = const(1.0, x.dtype)
                at: list[PrimExpr] = []
                inside: list[PrimExpr] = []
                for a, place in enumerate(places):
                    last = cast(extents[a] - 1, "int64")
                    if nearest:
                        there = te.round(place)
                    else:
                        low, high = te.floor(place), corner >> a & 1
                        there = low + float(high)
                        weight = weight * (place - low if high else low + 1.0 - place)
                    inside += [there >= 0.0, there <= cast(last, x.dtype)]
                    at.append(Min(Max(cast(there, "int64"), const(0, "int64")), last))
                total = total + te.select(te.all_of(*inside), x(i[0], i[1], *at) * weight, zero)
            return total

        return compute((n, c, *list(grid.shape)[1:4]), element, name="sampled")

    return kernel


# -- smooth shrinking ----------------------------------------------------------------------------
@register("aten._upsample_bilinear2d_aa.default", "aten._upsample_bilinear2d_aa.vec",
          "aten._upsample_bicubic2d_aa.default", "aten._upsample_bicubic2d_aa.vec",
          note="images whose extents are not known")  # fmt: skip
def _antialiased(node: Node) -> RelaxExpr:
    cubic = "bicubic" in node.operator
    weigh = partial(_smooth_weights, cubic=cubic)
    return _mix_axes(node, _scales(node, 2), weigh, aligned=bool(node["align_corners"]))


_Weigh: TypeAlias = Callable[[int, int, float], tuple[Any, Any]]
"""Returns, of two extents and a step, the first elements that are mixed, and their weights."""


def _mix_axes(
    node: Node, scales: Sequence[float | None], weigh: _Weigh, *, aligned: bool
) -> RelaxExpr:
    """Resize images along both axes, by weights that are known when the program is imported."""
    dims, shape = node.dims(0), node.shape
    x = node.tensor(0)
    for i in (1, 0):
        extent, count = dims[i + 2], shape[i + 2]
        if not isinstance(extent, int) or not isinstance(count, int):
            raise node.refuse("the spatial extents of its input are unknown")
        step = _step(extent, count, scales[i])
        if aligned:
            step = (extent - 1) / (count - 1) if count > 1 else 0.0
        if extent == count and step == 1.0:
            continue
        first, weights = weigh(extent, count, step)
        x = _mix(node, x, i + 2, first, weights)
    return x


def _linear_weights(extent: int, count: int, step: float, *, aligned: bool) -> tuple[Any, Any]:
    """Return the first of two neighbours, and the weights of both."""
    place = np.arange(count) * step if aligned else (np.arange(count) + 0.5) * step - 0.5
    place = np.maximum(place, 0.0)
    first = np.minimum(place.astype("int64"), extent - 1)
    part = np.where(first == extent - 1, 0.0, np.minimum(place - first, 1.0))
    return first, np.stack([1 - part, part], 1)


def _smooth_weights(extent: int, count: int, step: float, *, cubic: bool) -> tuple[Any, Any]:
    """Return the first elements that are mixed, and the weights of those from there on."""
    shrink = max(step, 1.0)
    reach = (2.0 if cubic else 1.0) * shrink
    centre = step * (np.arange(count) + 0.5)
    first = np.maximum((centre - reach + 0.5).astype("int64"), 0)
    stop = np.minimum((centre + reach + 0.5).astype("int64"), extent)
    taps = np.arange(max(int((stop - first).max()), 1))
    gaps = np.abs((taps + first[:, None] - centre[:, None] + 0.5) / shrink)
    if cubic:
        near = (1.5 * gaps - 2.5) * gaps * gaps + 1
        far = ((-0.5 * gaps + 2.5) * gaps - 4) * gaps + 2
        weights = np.where(gaps < 1, near, np.where(gaps < 2, far, 0.0))
    else:
        weights = np.maximum(1 - gaps, 0.0)
    weights = np.where(taps < (stop - first)[:, None], weights, 0.0)
    total = weights.sum(1, keepdims=True)
    return first, weights / np.where(total == 0, 1.0, total)


def _mix(node: Node, x: RelaxExpr, axis: int, first: Any, weights: Any) -> RelaxExpr:
    """Mix elements along an axis; bytes by weights that are integers, as PyTorch does."""
    own = node.dtype
    whole = own == "uint8"
    digits = 0
    if whole:
        most = weights.max()
        while digits < 22 and int(0.5 + most * 2 ** (digits + 1)) < 2**15:
            digits += 1
        weights = np.trunc(weights * 2**digits + np.where(weights < 0, -0.5, 0.5))
    inner = "int32" if whole else str(compute_dtype(node.info_of(x).dtype))
    count, taps = weights.shape
    last = node.dims_of(x)[axis] - 1

    def kernel(data: Tensor, first: Tensor, weights: Tensor) -> Tensor:
        shape = [*data.shape]
        shape[axis] = const(count, "int64")

        def element(*i: PrimExpr) -> PrimExpr:
            tap = te.reduce_axis((0, taps), name="tap")
            at = [*i]
            at[axis] = Min(first(i[axis]) + cast(tap, "int64"), const(last, "int64"))
            return te.sum(cast(data(*at), inner) * weights(i[axis], tap), axis=tap)

        total = compute(tuple(shape), element, name="mixed")

        def rounded(*i: PrimExpr) -> PrimExpr:
            if not whole:
                return cast(total(*i), data.dtype)
            made = (total(*i) + 2 ** (digits - 1)) // 2**digits
            return cast(Min(Max(made, const(0, inner)), const(255, inner)), data.dtype)

        return compute(tuple(shape), rounded, name="rounded")

    return node.compute(kernel, x, node.constant(first, "int64"), node.constant(weights, inner))
