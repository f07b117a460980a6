"""Pad: add elements at the ends of axes, or crop them."""

from __future__ import annotations

from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr

_MODES: Final = {
    "constant": "constant",
    "reflect": "reflect",
    "edge": "replicate",
    "wrap": "circular",
}


def _pad(node: Node) -> RelaxExpr:
    rank = node.rank(0)
    mode = _MODES.get(node.get("mode", "constant"))
    if mode is None:
        raise node.refuse(f"mode {node.get('mode')!r} is not supported")
    if node.version < 11:
        given = [int(v) for v in node.get("pads", node.get("paddings", ()))]
        value: Any = float(node.get("value", 0.0))
        axes = list(range(rank))
    else:
        given = _read_known_pads(node)
        value = node.constant(2) if node.has(2) else 0
        axes = list(range(rank))
        if node.has(3):
            axes = [node.count_axis(int(a), rank) for a in node.numbers(3, "axes").reshape(-1)]
    if len(given) != 2 * len(axes):
        raise node.refuse(f"it has {len(given)} pads for {len(axes)} axes")
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = given[i], given[len(axes) + i]
    return _pad_with(node, mode, value, before, after)


def _read_known_pads(node: Node) -> list[int]:
    return [int(v) for v in node.numbers(1, "pads").reshape(-1)]


def _pad_with(node: Node, mode: str, value: Any, before: list[int], after: list[int]) -> RelaxExpr:
    x, dims = node[0], node.dims(0)
    cut = [i for i in range(len(dims)) if before[i] < 0 or after[i] < 0]
    if cut:
        starts = [max(-before[i], 0) for i in cut]
        ends = [min(after[i], 0) or 1 << 62 for i in cut]
        x = node.emit(op.strided_slice(x, cut, starts, ends))
    widths = [max(v, 0) for pair in zip(before, after) for v in pair]
    if not any(widths):
        return x
    if value is not None:
        number = value.reshape(-1)[0].item() if hasattr(value, "reshape") else value
        if node.dtype(0) != "bool":
            return op.nn.pad(x, widths, mode, number)
        bytes_ = node.emit(op.astype(x, "uint8"))
        return op.astype(node.emit(op.nn.pad(bytes_, widths, mode, int(number))), "bool")
    # The value is known when the program runs: it is put where a mask says.
    filled = node.emit(op.nn.pad(x, widths, mode, 0))
    ones = node.emit(op.ones_like(x, "bool"))
    inside = node.emit(op.nn.pad(ones, widths, "constant", 0))
    return op.where(inside, filled, node.emit(op.reshape(node[2], ())))


def _center_crop_pad(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    rank = len(dims)
    axes = node.get("axes")
    axes = list(range(rank)) if axes is None else [node.count_axis(a, rank) for a in axes]
    wanted = [int(v) for v in node.numbers(1, "extents").reshape(-1)]
    before, after = [0] * rank, [0] * rank
    for axis, extent in zip(axes, wanted):
        own = dims[axis]
        if not isinstance(own, int):
            raise node.refuse("the extent of an axis that it crops is unknown")
        more = extent - own
        first = more // 2 if more >= 0 else -((-more) // 2)
        before[axis], after[axis] = first, more - first
    return _pad_with(node, "constant", 0, before, after)


def _tensor_scatter(node: Node) -> RelaxExpr:
    """Write updates into a cache, from a place of each item of a batch on."""
    dims, news = node.dims(0), node.dims(1)
    axis = node.axis("axis", -2, len(dims))
    count = news[axis]
    steps = node.emit(op.arange(0, _extent(count), 1, "int64"))
    places = node.emit(op.reshape(steps, (1, count)))
    if node.has(2):
        starts = node.emit(op.reshape(node.emit(op.astype(node[2], "int64")), (dims[0], 1)))
        places = node.emit(op.add(starts, places))
    else:
        places = node.emit(op.broadcast_to(places, (dims[0], count)))
    if node.get("mode", "linear") == "circular":
        extent = dims[axis]
        if not isinstance(extent, int):
            raise node.refuse("an extent of its cache is unknown")
        places = node.emit(op.floor_mod(places, constant(extent, "int64")))
    shape = [dims[0], *[1] * (axis - 1), count, *[1] * (len(dims) - axis - 1)]
    column = node.emit(op.reshape(places, tuple(shape)))
    whole = node.emit(op.broadcast_to(column, tuple(news)))
    return op.scatter_elements(node[0], whole, node[1], axis)


def _extent(value: Any) -> Any:
    return value if isinstance(value, int) else PrimValue(value)


ROWS: Final[tuple[Row, ...]] = (
    row("CenterCropPad", _center_crop_pad),
    row("Pad", _pad),
    row("TensorScatter", _tensor_scatter),
)
