"""Resize images, and sample them at the points of a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
          "aten._upsample_nearest_exact1d.vec", "aten._upsample_nearest_exact2d.vec")  # fmt: skip
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
          "aten.upsample_trilinear3d.default", "aten.upsample_trilinear3d.vec")  # fmt: skip
def _linear(node: Node) -> RelaxExpr:
    dims, shape = node.dims(0), node.shape
    axes = len(dims) - 2
    scales = _scales(node, axes)
    aligned = bool(node["align_corners"])
    x = node.tensor(0)
    dtype = node.dtype
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
