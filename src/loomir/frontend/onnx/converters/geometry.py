"""Col2Im, spatial sampling, and the grids for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.node import RelaxExpr
from loomir.relax.shape import ShapeExpr
from loomir.support.dtype import DataType
from loomir.te import Tensor, all_of, compute, const, floor, if_then_else, reduce_axis, select, sum

_MODES: Final = {"linear": "bilinear", "bilinear": "bilinear", "nearest": "nearest"} | {
    "cubic": "bicubic",
    "bicubic": "bicubic",
}


# -- grids ---------------------------------------------------------------------------------------
def _affine_grid(node: Node) -> RelaxExpr:
    """Transform the places of an image's elements, which lie between -1 and 1."""
    count = node.dims(1)[0]
    size = node.extents(1, count)[2:]
    if len(size) not in (2, 3):
        raise node.refuse(f"a grid of {len(size)} axes is not supported")
    aligned = bool(node.get("align_corners", 0))
    return node.compute(_transform_places, node[0], ShapeExpr(tuple(size)), aligned)


def _transform_places(theta: Tensor, size: Any, aligned: bool) -> Tensor:
    dtype, axes = theta.dtype, len(size)

    def place(index: Any, extent: Any) -> Any:
        """Return a place along an axis: the first and the last at -1 and 1, or by half a cell."""
        at, total = index.astype(dtype), extent.astype(dtype)
        two, one = const(2, dtype), const(1, dtype)
        if not aligned:
            return (two * at + one) / total - one
        steps = select(total > one, total - one, one)
        return two * at / steps - one

    def element(*where: Any) -> Any:
        batch, cell, row = where[0], where[1:-1], where[-1]
        made = theta[batch, row, axes]
        for k, (index, extent) in enumerate(zip(reversed(cell), reversed(list(size)))):
            made = made + theta[batch, row, k] * place(index, extent)
        return made

    return compute((theta.shape[0], *size, axes), element, name="affine_grid")


def _grid_sample(node: Node) -> RelaxExpr:
    axes = node.rank(0) - 2
    mode = _MODES.get(node.get("mode", "bilinear"))
    padding = node.get("padding_mode", "zeros")
    aligned = bool(node.get("align_corners", 0))
    if mode is None or axes not in (2, 3) or (axes == 3 and mode == "bicubic"):
        raise node.refuse(f"mode {node.get('mode')!r} is not supported over {axes} spatial axes")
    if axes == 3:
        return node.compute(_sample_volume, node[0], node[1], mode, padding, aligned)
    grid = node.emit(op.permute_dims(node[1], [0, 3, 1, 2]))
    return op.image.grid_sample(node[0], grid, mode, "NCHW", padding, aligned)


def _sample_volume(x: Tensor, grid: Tensor, mode: str, padding: str, aligned: bool) -> Tensor:
    """Sample volumes (N, C, D, H, W) at the places (N, D', H', W', 3), whose order is W, H, D."""
    dtype = grid.dtype
    one, half = const(1, dtype), const(0.5, dtype)

    def clamp(value: Any, low: Any, high: Any) -> Any:
        value = select(value > low, value, low)  # which brings what is not a number to a bound
        return select(value < high, value, high)

    def position(at: Any, extent: Any) -> Any:
        """Return a place between -1 and 1 in elements of an axis, within it if padding says so."""
        total = extent.astype(dtype)
        if aligned:
            made = (at + one) * half * (total - one)
        else:
            made = ((at + one) * total - one) * half
        if padding == "border":
            return clamp(made, const(0, dtype), total - one)
        if padding == "reflection":
            low, width = (const(0, dtype), total - one) if aligned else (-half, total)
            return clamp(_reflect(made, low, width, dtype), const(0, dtype), total - one)
        return made

    def element(n: Any, c: Any, *cell: Any) -> Any:
        extents = x.shape[2:]
        at = [position(grid[(n, *cell, 2 - k)], extents[k]) for k in range(3)]
        if mode == "nearest":
            places = [_even(p, dtype) for p in at]
            return _read_or_zero(x, n, c, places, extents)
        first = [floor(p) for p in at]
        parts = [p - f for p, f in zip(at, first)]
        total: Any = None
        for corner in product((0, 1), repeat=3):
            weight: Any = const(1, x.dtype)
            for part, side in zip(parts, corner):
                weight = weight * (part if side else one - part).astype(x.dtype)
            places = [f + const(side, dtype) for f, side in zip(first, corner)]
            piece = weight * _read_or_zero(x, n, c, places, extents)
            total = piece if total is None else total + piece
        return total

    return compute((*x.shape[:2], *grid.shape[1:4]), element, name="grid_sample")


def _even(value: Any, dtype: DataType) -> Any:
    """Round to the nearest whole number, ties to the even one."""
    low = floor(value)
    rest = value - low
    half, one, two = (const(v, dtype) for v in (0.5, 1, 2))
    odd = low - two * floor(low / two) == one
    up = select(
        rest == half, select(odd, one, const(0, dtype)), select(rest > half, one, const(0, dtype))
    )
    return low + up


def _reflect(value: Any, low: Any, width: Any, dtype: DataType) -> Any:
    """Reflect a place at both ends of an interval until it lies within."""
    zero, one, two = (const(v, dtype) for v in (0, 1, 2))
    wide = select(width > zero, width, one)
    away = select(value < low, low - value, value - low)
    rounds = floor(away / wide)
    rest = away - rounds * wide
    odd = rounds - two * floor(rounds / two) == one
    return select(width > zero, low + select(odd, wide - rest, rest), zero)


def _read_or_zero(x: Tensor, n: Any, c: Any, places: Sequence[Any], extents: Sequence[Any]) -> Any:
    """Return an element at whole places, 0 outside."""
    dtype = places[0].dtype
    inside = all_of(
        *[p >= const(0, dtype) for p in places],
        *[p < e.astype(dtype) for p, e in zip(places, extents)],
    )
    return if_then_else(inside, x[(n, c, *[p.astype("int64") for p in places])], const(0, x.dtype))


# -- windows -------------------------------------------------------------------------------------
def _col2im(node: Node) -> RelaxExpr:
    """Add the columns that windows of an image were written to where they came from."""
    block = [int(v) for v in node.numbers(2, "extents of windows").reshape(-1)]
    axes = len(block)
    image = node.extents(1, axes)
    strides = [int(v) for v in node.get("strides", [1] * axes)]
    dilations = [int(v) for v in node.get("dilations", [1] * axes)]
    pads = [int(v) for v in node.get("pads", [0] * 2 * axes)]
    shape = ShapeExpr(tuple(image))
    return node.compute(_add_windows, node[0], shape, block, strides, dilations, pads)


def _add_windows(
    x: Tensor,
    image: Any,
    block: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> Tensor:
    axes, taps = len(block), 1
    for extent in block:
        taps *= extent
    counts = [
        (image[i] + pads[i] + pads[axes + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(axes)
    ]
    tap_axes = [reduce_axis((0, extent)) for extent in block]

    def element(n: Any, c: Any, *where: Any) -> Any:
        row, column = c * taps, const(0, "int64")
        fits: list[Any] = []
        inner = const(0, "int64")
        for i in range(axes):
            tap = tap_axes[i].var
            start = where[i] + pads[i] - tap * dilations[i]
            window = start // strides[i]
            fits += [start >= 0, start % strides[i] == 0, window < counts[i]]
            inner = inner * block[i] + tap
            column = column * counts[i] + window
        value = if_then_else(all_of(*fits), x[n, row + inner, column], const(0, x.dtype))
        return sum(value, axis=tap_axes)

    return compute((x.shape[0], x.shape[1] // taps, *image), element, name="col2im")


# -- displaced windows ---------------------------------------------------------------------------
def _deform_conv(node: Node) -> RelaxExpr:
    batch, channels, *image = node.dims(0)
    filters, per_group, *kernel = node.dims(1)
    if len(image) != 2:
        raise node.refuse(f"images of {len(image)} axes are not supported")
    if not all(isinstance(v, int) for v in (channels, filters, per_group, *kernel)):
        raise node.refuse("the shape of its weight, or its number of channels, is unknown")
    rows, columns = node.dims(2)[2:]
    groups = int(node.get("group", 1))
    how = (
        channels,
        [int(v) for v in kernel],
        [int(v) for v in node.get("strides", (1, 1))],
        [int(v) for v in node.get("pads", (0, 0, 0, 0))[:2]],
        [int(v) for v in node.get("dilations", (1, 1))],
        int(node.get("offset_group", 1)),
    )
    given = [node[0], node[2], *([node[4]] if node.has(4) else [])]
    windows = node.compute(lambda *tensors: _displaced(tensors, *how), *given)
    taps = per_group * kernel[0] * kernel[1]
    parts = node.emit(op.reshape(windows, (batch, groups, taps, node.simplify(rows * columns))))
    weights = node.emit(op.reshape(node[1], (1, groups, filters // groups, taps)))
    made = node.emit(op.matmul(weights, parts))
    made = node.emit(op.reshape(made, (batch, filters, rows, columns)))
    if node.has(3):
        made = node.emit(op.add(made, node.emit(op.reshape(node[3], (1, filters, 1, 1)))))
    return made


def _displaced(
    given: Sequence[Tensor],
    channels: int,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    offset_groups: int,
) -> Tensor:
    """Gather the elements of all windows: batch, channel and tap, row, column."""
    x, offset, *masks = given
    dtype, taps = x.dtype, kernel[0] * kernel[1]
    extents = [e.astype("int64") for e in x.shape[2:]]
    together = channels // offset_groups
    zero, one = const(0, dtype), const(1, dtype)

    def element(n: Any, k: Any, i: Any, j: Any) -> Any:
        channel, tap = k // taps, k % taps
        number = (channel // together) * taps + tap
        starts = [i, j]
        steps = [tap // kernel[1], tap % kernel[1]]
        corners: list[list[tuple[Any, Any, Any]]] = []
        for axis in range(2):
            fixed = starts[axis] * strides[axis] - pads[axis] + steps[axis] * dilations[axis]
            at = fixed.astype(dtype) + offset[n, number * 2 + axis, i, j]
            low = floor(at)
            share, place = at - low, low.astype("int64")
            corners.append(
                [
                    (p, weight, all_of(p >= 0, p < extents[axis]))
                    for p, weight in ((place, one - share), (place + 1, share))
                ]
            )
        total: Any = zero
        for row_at, row_weight, row_fits in corners[0]:
            for column_at, column_weight, column_fits in corners[1]:
                fits = all_of(row_fits, column_fits)
                down, across = (select(fits, p, const(0, "int64")) for p in (row_at, column_at))
                part = row_weight * column_weight * x[n, channel, down, across]
                total = total + select(fits, part, zero)
        return total * masks[0][n, number, i, j] if masks else total

    shape = (x.shape[0], channels * taps, *offset.shape[2:])
    return compute(shape, element, name="displaced")


ROWS: Final[tuple[Row, ...]] = (
    row("DeformConv", _deform_conv, note="volumes"),
    row("AffineGrid", _affine_grid),
    row("Col2Im", _col2im),
    row("GridSample", _grid_sample, note="volumes by `cubic`"),
)
