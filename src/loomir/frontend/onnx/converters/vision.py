"""Regions of interest (RoiAlign), and suppression of overlapping boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.node import RelaxExpr
from loomir.te import all_of, compute, extern, floor, max, reduce_axis, select
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import count_loop, nest
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import And, Eq, Max, Min, PrimExpr, const
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq


def _roi_align(node: Node) -> RelaxExpr:
    size = (int(node.get("output_height", 1)), int(node.get("output_width", 1)))
    mode = node.get("coordinate_transformation_mode", "half_pixel")
    if node.version < 16:
        mode = "output_half_pixel"
    ratio = int(node.get("sampling_ratio", 0))
    if node.get("mode", "avg") == "max":
        if ratio <= 0:
            raise node.refuse("mode 'max' needs a positive sampling_ratio")
        scale = float(node.get("spatial_scale", 1.0))
        options = (size, ratio, scale, mode == "half_pixel")
        return node.compute(_largest_sample, node[0], node[1], node[2], *options)
    numbers = node.emit(op.astype(node[2], node.dtype(0)))
    column = node.emit(op.reshape(numbers, (node.dims(2)[0], 1)))
    rois = node.emit(op.concat([column, node[1]], 1))
    return op.vision.roi_align(
        node[0],
        rois,
        size,
        float(node.get("spatial_scale", 1.0)),
        ratio or -1,
        mode == "half_pixel",
        "NCHW",
        "avg",
    )


def _largest_sample(
    x: Tensor,
    rois: Tensor,
    images: Tensor,
    size: tuple[int, int],
    ratio: int,
    scale: float,
    half: bool,
) -> Tensor:
    """Take the largest of what the corners around each sample add to it, as the standard does."""
    dtype = x.dtype
    rows, columns = (reduce_axis((0, ratio)) for _ in range(2))

    def number(value: Any) -> Any:
        return value.astype(dtype) if hasattr(value, "astype") else const(value, dtype)

    def place(n: Any, axis: int, cell: Any, sample: Any) -> Any:
        """Return where a sample lies along an axis: 0 down, 1 across."""
        offset = number(0.5 if half else 0.0)
        start, end = (rois[n, i] * number(scale) - offset for i in (1 - axis, 3 - axis))
        length = end - start
        if not half:
            length = select(length < number(1.0), number(1.0), length)
        cells = length / number(float(size[axis]))
        within = (number(sample) + number(0.5)) / number(float(ratio))
        return start + (number(cell) + within) * cells

    def corners(at: Any, extent: Any) -> tuple[list[tuple[Any, Any]], Any]:
        """Return the elements on both sides of a place, their weights, and if it lies within."""
        inside = all_of(at >= number(-1.0), at <= number(extent))
        bounded = select(at < number(0.0), number(0.0), at)
        last = extent - 1
        low = floor(select(inside, bounded, number(0.0))).astype("int64")
        low = select(low > last, last, low)
        weight = select(low >= last, number(0.0), bounded - number(low))
        high = select(low >= last, last, low + 1)
        return [(low, number(1.0) - weight), (high, weight)], inside

    def sample(n: Any, c: Any, i: Any, j: Any) -> Any:
        extents = [e.astype("int64") for e in x.shape[2:]]
        down, fits_down = corners(place(n, 0, i, rows.var), extents[0])
        across, fits_across = corners(place(n, 1, j, columns.var), extents[1])
        most: Any = None
        for row_at, row_weight in down:
            for column_at, column_weight in across:
                part = row_weight * column_weight * x[images[n], c, row_at, column_at]
                most = part if most is None else select(part > most, part, most)
        return max(select(all_of(fits_down, fits_across), most, number(0.0)), axis=[rows, columns])

    return compute((rois.shape[0], x.shape[1], *size), sample, name="largest_sample")


def _non_max_suppression(node: Node) -> RelaxExpr:
    most = int(node.numbers(2, "number of boxes").reshape(-1)[0]) if node.has(2) else 0
    overlap, least = _threshold(node, 3), _threshold(node, 4)
    # Boxes of each class from the best score down; those that are kept are marked.
    order = node.emit(op.argsort(node[1], 2, True, "int64"))
    floor = float("-inf") if least is None else least
    centred = bool(node.get("center_point_box", 0))
    marks = node.compute(_mark_kept, node[0], node[1], order, overlap or 0.0, floor, centred)
    wide = node.emit(op.astype(marks, "int64"))
    number = node.emit(op.cumsum(wide, 2))
    few = node.emit(op.less_equal(number, constant(most, "int64")))
    kept = node.emit(op.logical_and(node.emit(op.astype(marks, "bool")), few))
    rows = node.emit(op.permute_dims(node.emit(op.nonzero(kept))))
    first = node.emit(op.strided_slice(rows, [1], [0], [2]))
    box = node.emit(op.expand_dims(node.emit(op.gather_nd(order, rows)), [1]))
    return op.concat([first, box], 1)


def _threshold(node: Node, index: int) -> float | None:
    if not node.has(index):
        return None
    return float(node.numbers(index, "threshold").reshape(-1)[0])


def _mark_kept(
    boxes: Tensor, scores: Tensor, order: Tensor, overlap: float, floor: float, centred: bool
) -> Tensor:
    """Mark, of the boxes from the best score down, those that overlap with none before."""

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        box, score, place = ins
        kept = outs[0]
        yes, no = const(1, "int8"), const(0, "int8")

        def sides(b: PrimExpr, index: PrimExpr) -> list[PrimExpr]:
            x, y, z, w = [BufferLoad(box, (b, index, const(k, b.dtype))) for k in range(4)]
            if not centred:
                return [Min(x, z), Min(y, w), Max(x, z), Max(y, w)]
            half = const(0.5, x.dtype)
            return [y - w * half, x - z * half, y + w * half, x + z * half]

        def mark_box(at: Sequence[PrimExpr]) -> Stmt:
            b, c, i = at
            index = BufferLoad(place, (b, c, i))
            mine = sides(b, index)

            def compare_with(j: PrimExpr) -> Stmt:
                other = sides(b, BufferLoad(place, (b, c, j)))
                zero = const(0, mine[0].dtype)
                shared = Max(Min(mine[2], other[2]) - Max(mine[0], other[0]), zero) * Max(
                    Min(mine[3], other[3]) - Max(mine[1], other[1]), zero
                )
                areas = [(p[2] - p[0]) * (p[3] - p[1]) for p in (mine, other)]
                # Without a division: boxes that have no area overlap with none.
                limit = const(overlap, shared.dtype) * (areas[0] + areas[1] - shared)
                there = Eq(BufferLoad(kept, (b, c, j)), yes)
                return IfThenElse(And(there, shared > limit), BufferStore(kept, no, (b, c, i)))

            best = BufferLoad(score, (b, c, index))
            taken = seq([BufferStore(kept, yes, (b, c, i)), count_loop("j", i, compare_with)])
            enough = best > const(floor, best.dtype)
            return IfThenElse(enough, taken, BufferStore(kept, no, (b, c, i)))

        return nest(scores.shape, mark_box)

    made: Tensor = extern(scores.shape, [boxes, scores, order], body, name="kept", dtype="int8")
    return made


ROWS: Final[tuple[Row, ...]] = (
    row("NonMaxSuppression", _non_max_suppression),
    row("RoiAlign", _roi_align),
)
