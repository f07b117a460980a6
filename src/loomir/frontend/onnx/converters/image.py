"""Resize images, and sample them at the points of a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.expr import Constant
from loomir.relax.node import RelaxExpr
from loomir.relax.operator.reference import xp
from loomir.support.array import Array
from loomir.te import Tensor, compute, reduce_axis, sum

NPArray = Any


@dataclass(frozen=True, slots=True)
class _Axis:
    """How one axis is resized."""

    extent: int
    made: int
    scale: float
    start: float
    end: float


def _resize(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    axes = node.get("axes")
    axes = list(range(len(dims))) if axes is None else [node.count_axis(a, len(dims)) for a in axes]
    scales, sizes = _targets(node, dims, axes)
    crops = _mode(node) == "tf_crop_and_resize"
    starts, ends = [0.0] * len(axes), [1.0] * len(axes)
    if crops:
        roi = node.numbers(1, "region")
        starts, ends = [[float(v) for v in part] for part in xp.split(roi.reshape(-1), 2)]
    x = node[0]
    for i, axis in enumerate(axes):
        extent = dims[axis]
        if not isinstance(extent, int):
            if scales[i] == 1.0:
                continue
            raise node.refuse("the extent of an axis that it resizes is unknown")
        one = _Axis(extent, sizes[i], scales[i], starts[i], ends[i])
        if one.made == extent and one.scale == 1.0 and not crops:
            continue
        x = _resize_along(node, x, axis, one)
    return x


def _targets(node: Node, dims: list[Any], axes: list[int]) -> tuple[list[float], list[int]]:
    """Return the scale and the extent that each axis is resized by and to."""
    place = 1 if node.version < 11 else 2
    if not node.has(3) or node.version < 11:
        if node.operator == "Upsample" and node.version < 9:
            given = [float(v) for v in node.get("scales", ())]
        else:
            given = [float(v) for v in node.numbers(place, "scales").reshape(-1)]
        if len(given) != len(axes):
            raise node.refuse(f"it has {len(given)} scales for {len(axes)} axes")
        made = [
            int(xp.floor(dims[a] * s)) if isinstance(dims[a], int) else 0
            for a, s in zip(axes, given)
        ]
        return given, made
    sizes = [int(v) for v in node.numbers(3, "sizes").reshape(-1)]
    if len(sizes) != len(axes) or not all(isinstance(dims[a], int) for a in axes):
        raise node.refuse("its sizes need the extent of each axis that it resizes to be known")
    ratios = [s / dims[a] for a, s in zip(axes, sizes)]
    policy = node.get("keep_aspect_ratio_policy")
    if policy in ("not_larger", "not_smaller"):
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        sizes = [int(xp.floor(dims[a] * ratio + 0.5)) for a in axes]
        ratios = [ratio] * len(axes)
    return ratios, sizes


def _mode(node: Node) -> str:
    if node.version < 11:
        return "asymmetric"
    return node.get("coordinate_transformation_mode", "half_pixel")


def _places(node: Node, one: _Axis) -> NPArray:
    """Return the place in the image for each element that is made."""
    x = xp.arange(one.made, dtype="float64")
    mode = _mode(node)
    whole = one.scale * one.extent
    if mode == "asymmetric":
        return x / one.scale
    if mode == "align_corners":
        return x * (one.extent - 1) / (whole - 1) if whole != 1 else xp.zeros_like(x)
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / one.scale - 0.5 if whole > 1 else xp.full_like(x, -0.5)
    if mode == "tf_crop_and_resize":
        if whole > 1:
            step = (one.end - one.start) * (one.extent - 1) / (whole - 1)
            return one.start * (one.extent - 1) + x * step
        return xp.full_like(x, 0.5 * (one.start + one.end) * (one.extent - 1))
    if mode == "half_pixel_symmetric":
        adjusted = one.made / whole
        offset = one.extent / 2 * (1 - adjusted)
        return offset + (x + 0.5) / one.scale - 0.5
    if mode == "half_pixel":
        return (x + 0.5) / one.scale - 0.5
    raise node.refuse(f"coordinate_transformation_mode {mode!r} is not supported")


def _resize_along(node: Node, x: RelaxExpr, axis: int, one: _Axis) -> RelaxExpr:
    places = _places(node, one)
    mode = node.get("mode", "nearest")
    outside = (places < 0) | (places > one.extent - 1)
    if mode == "nearest":
        index = _nearest(node, places)
        made = node.emit(op.take(x, _constant(xp.clip(index, 0, one.extent - 1)), axis))
    else:
        taps, weights = _weights(node, places, one, _kernel(node, mode))
        made = _mix_taps(node, x, axis, taps, weights)
    if _mode(node) != "tf_crop_and_resize" or not outside.any():
        return made
    shape = [1] * len(node.dims_of(made))
    shape[axis] = one.made
    mask = Constant(Array(outside.reshape(shape)))
    value = node.constant_like(float(node.get("extrapolation_value", 0.0)))
    return node.emit(op.where(mask, value, made))


def _constant(array: NPArray) -> Constant:
    return Constant(Array(array.astype("int32")))


def _nearest(node: Node, places: NPArray) -> NPArray:
    kind = node.get("nearest_mode", "round_prefer_floor" if node.version >= 11 else "floor")
    # What differs from a half by a rounding error only is one.
    snapped = xp.round(places * 2) / 2
    places = xp.where(xp.abs(places - snapped) < 1e-9, snapped, places)
    rounders: dict[str, Callable[[NPArray], NPArray]] = {
        "round_prefer_floor": lambda v: xp.ceil(v - 0.5),
        "round_prefer_ceil": lambda v: xp.floor(v + 0.5),
        "floor": xp.floor,
        "ceil": xp.ceil,
    }
    if kind not in rounders:
        raise node.refuse(f"nearest_mode {kind!r} is not supported")
    return rounders[kind](places).astype("int64")


def _kernel(node: Node, mode: str) -> tuple[float, Callable[[NPArray], NPArray]]:
    """Return how far elements are mixed, and by how much each at a distance."""
    if mode == "linear":
        return 1.0, lambda t: xp.maximum(1 - xp.abs(t), 0)
    if mode != "cubic":
        raise node.refuse(f"mode {mode!r} is not supported")
    a = float(node.get("cubic_coeff_a", -0.75))

    def keys(t: NPArray) -> NPArray:
        t = xp.abs(t)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return xp.where(t <= 1, near, xp.where(t < 2, far, 0.0))

    return 2.0, keys


def _weights(
    node: Node, places: NPArray, one: _Axis, kernel: tuple[float, Callable[[NPArray], NPArray]]
) -> tuple[NPArray, NPArray]:
    """Return which elements are mixed for each that is made, and their weights."""
    reach, weigh = kernel
    shrink = min(one.scale, 1.0) if node.get("antialias", 0) else 1.0
    first = xp.floor(places - reach / shrink).astype("int64") + 1
    count = int(xp.ceil(2 * reach / shrink))
    taps = first[:, None] + xp.arange(count)
    weights = weigh((taps - places[:, None]) * shrink)
    inside = (taps >= 0) & (taps < one.extent)
    if node.get("exclude_outside", 0):
        weights = xp.where(inside, weights, 0.0)
    weights = weights / weights.sum(1, keepdims=True)
    return xp.clip(taps, 0, one.extent - 1), weights


def _mix_taps(node: Node, x: RelaxExpr, axis: int, taps: NPArray, weights: NPArray) -> RelaxExpr:
    dtype = node.dtype(0)
    wide = "float64" if dtype == "float64" else "float32"
    if dtype != wide:
        x = node.emit(op.astype(x, wide))
    factors = Constant(Array(weights.astype(wide)))
    made = node.compute(_mix, x, _constant(taps), factors, axis)
    if dtype == wide:
        return made
    if dtype.startswith(("int", "uint")):
        made = node.emit(op.round(made))
    return node.emit(op.astype(made, dtype))


def _mix(x: Tensor, taps: Tensor, weights: Tensor, axis: int) -> Tensor:
    made, count = taps.shape
    shape = [made if i == axis else d for i, d in enumerate(x.shape)]
    tap = reduce_axis((0, count), "tap")

    def element(*index: Any) -> Any:
        place = taps[index[axis], tap]
        source = [place.astype("int64") if i == axis else v for i, v in enumerate(index)]
        return sum(x[tuple(source)] * weights[index[axis], tap], axis=tap)

    return compute(shape, element, name="resize")


def _upsample(node: Node) -> RelaxExpr:
    return _resize(node)


ROWS: Final[tuple[Row, ...]] = (
    row("Resize", _resize, note="axes whose extents are not known at import"),
    row("Upsample", _upsample),
)
