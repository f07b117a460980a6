"""Gather and scatter operators."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.expr import PrimValue, TupleGetItem
from loomir.relax.node import RelaxExpr
from loomir.relax.shape import INT64
from loomir.tir.expr import Max, PrimExpr, const


def _gather(node: Node) -> RelaxExpr:
    axis = node.axis("axis", 0, node.rank(0))
    return op.take(node[0], node[1], axis)


def _gather_elements(node: Node) -> RelaxExpr:
    axis = node.axis("axis", 0, node.rank(0))
    return op.gather_elements(node[0], node[1], axis)


def _gather_nd(node: Node) -> RelaxExpr:
    return op.gather_nd(node[0], node[1], int(node.get("batch_dims", 0)))


def _reduction(node: Node) -> str:
    found = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}
    name = node.get("reduction", "none")
    if name not in found:
        raise node.refuse(f"reduction {name!r} is not supported")
    return found[name]


def _scatter_elements(node: Node) -> RelaxExpr:
    axis = node.axis("axis", 0, node.rank(0))
    data, updates = _read_numbers(node, 0), _read_numbers(node, 2)
    made = op.scatter_elements(data, node[1], updates, axis, _reduction(node))
    return made if node.dtype(0) != "bool" else op.astype(node.emit(made), "bool")


def _scatter_nd(node: Node) -> RelaxExpr:
    made = op.scatter_nd(_read_numbers(node, 0), node[1], _read_numbers(node, 2), _reduction(node))
    return made if node.dtype(0) != "bool" else op.astype(node.emit(made), "bool")


def _read_numbers(node: Node, index: int) -> RelaxExpr:
    """Return an input, truths as bytes."""
    return (
        node[index] if node.dtype(index) != "bool" else node.emit(op.astype(node[index], "uint8"))
    )


def _slice(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    if node.version < 10:
        starts, ends = [list(node.get(name, ())) for name in ("starts", "ends")]
        axes: Any = list(node.get("axes", range(len(starts))))
        steps: Any = [1] * len(starts)
    else:
        starts, ends = node.find_known(1), node.find_known(2)
        axes = node.find_known(3) if node.has(3) else None
        steps = node.find_known(4) if node.has(4) else None
        if starts is None or ends is None or (node.has(4) and steps is None):
            return _slice_when_run(node)
        if node.has(3) and axes is None:
            raise node.unknown(3, "axes")
        axes = list(range(len(starts))) if axes is None else axes
        steps = [1] * len(starts) if steps is None else steps
    axes = [node.count_axis(int(a), len(dims)) for a in axes]
    if any(isinstance(s, PrimExpr) or s == 0 for s in steps):
        raise node.refuse("a step is 0 or unknown")
    first = [
        _clamp_start(v, dims[axis]) if step < 0 else v
        for v, axis, step in zip(starts, axes, steps, strict=True)
    ]
    return op.strided_slice(node[0], axes, _places(first), _places(ends), [int(s) for s in steps])


_FAR: Final = 1 << 62


def _clamp_start(start: Any, extent: Any) -> Any:
    """Return where a slice begins that runs backwards.

    A place before the first element means the first element, where Python slices nothing.
    """
    if isinstance(start, PrimExpr) or isinstance(extent, PrimExpr):
        known = not isinstance(start, PrimExpr)
        return start if known and start >= 0 else Max(_extent(start), _extent(0) - extent)
    return max(int(start), -int(extent))


def _extent(value: Any) -> PrimExpr:
    return value if isinstance(value, PrimExpr) else const(max(int(value), -_FAR), INT64)


def _places(given: list[Any]) -> list[Any]:
    """Return places that count neither beyond what is large enough, nor wrap around."""
    return [
        PrimValue(v) if isinstance(v, PrimExpr) else min(max(int(v), -_FAR), _FAR) for v in given
    ]


def _slice_when_run(node: Node) -> RelaxExpr:
    """Slice at places that are elements of tensors: on all axes, most of them whole."""
    dims = node.dims(0)
    (count,) = node.dims(1)
    if not isinstance(count, int):
        raise node.unknown(1, "numbers of axes")
    axes = (
        [int(a) for a in node.find_known(3) or range(count)] if node.has(3) else list(range(count))
    )
    if node.has(3) and node.find_known(3) is None:
        raise node.unknown(3, "axes")
    axes = [node.count_axis(a, len(dims)) for a in axes]
    steps = [int(s) for s in node.find_known(4) or [1] * count] if node.has(4) else [1] * count
    if node.has(4) and node.find_known(4) is None:
        raise node.unknown(4, "steps")
    order = np.full(len(dims), count, "int64")
    order[axes] = np.arange(count)
    whole = [(0, _FAR), (1, 1)]
    bounds: list[RelaxExpr] = []
    for i, otherwise in ((1, whole[0][0]), (2, whole[0][1])):
        places = node.emit(op.astype(node[i], "int64"))
        if i == 1 and min(steps, default=1) < 0:
            places = _clamp_starts(node, places, axes, steps)
        more = node.emit(op.concat([places, constant([otherwise], "int64")], 0))
        bounds.append(node.emit(op.take(more, constant(order, "int64"), 0)))
    strides = np.ones(len(dims), "int64")
    strides[axes] = steps
    return op.dynamic_strided_slice(node[0], *bounds, constant(strides, "int64"))


def _clamp_starts(node: Node, starts: RelaxExpr, axes: list[int], steps: list[int]) -> RelaxExpr:
    """Do for elements of a tensor what ``_clamp_start`` does for a place."""
    extents = node.emit(op.shape_to_tensor(node.emit(op.shape_of(node[0]))))
    extents = node.emit(op.take(extents, constant(axes, "int64"), 0))
    least = node.emit(op.maximum(starts, node.emit(op.negative(extents))))
    return node.emit(op.where(constant([s < 0 for s in steps], "bool"), least, starts))


def _read_extent(node: Node, index: int) -> Any:
    """Return the only element of a tensor as an extent."""
    known = node.find_known(index)
    if known is not None:
        return int(known[0]) if not isinstance(known[0], PrimExpr) else known[0]
    flat = node.emit(op.reshape(node.emit(op.astype(node[index], "int64")), (1,)))
    return node.graph.extents(flat, 1)[0]


def _one_hot(node: Node) -> RelaxExpr:
    rank = node.rank(0) + 1
    axis = node.axis("axis", -1, rank)
    depth = _read_extent(node, 1)
    values = node[2]
    off, on = [
        node.emit(op.reshape(node.emit(op.strided_slice(values, [0], [i], [i + 1])), ()))
        for i in range(2)
    ]
    places = node[0] if node.dtype(0) == "int64" else node.emit(op.astype(node[0], "int64"))
    extent = constant(depth, "int64") if not isinstance(depth, PrimExpr) else None
    if extent is None:
        extent = node.emit(op.full((), PrimValue(depth), "int64"))
    zero = constant(0, "int64")
    below = node.emit(op.less(places, zero))
    places = node.emit(op.where(below, node.emit(op.add(places, extent)), places))
    dims = node.dims(0)
    shape = [*dims[:axis], 1, *dims[axis:]]
    column = node.emit(op.reshape(places, tuple(shape)))
    count = node.emit(op.arange(0, _prim(depth), 1, "int64"))
    line = node.emit(op.reshape(count, tuple([depth if i == axis else 1 for i in range(rank)])))
    return op.where(node.emit(op.equal(column, line)), on, off)


def _prim(value: Any) -> Any:
    return PrimValue(value) if isinstance(value, PrimExpr) else int(value)


def _non_zero(node: Node) -> RelaxExpr:
    return op.nonzero(node[0])


def _compress(node: Node) -> RelaxExpr:
    axis = node.get("axis")
    data = node[0] if axis is not None else node.emit(op.flatten(node[0]))
    place = 0 if axis is None else node.axis("axis", 0, node.rank(0))
    found = node.emit(op.nonzero(node[1]))
    count = node.dims_of(found)[1]
    return op.take(data, node.emit(op.reshape(found, (count,))), place)


def _top_k(node: Node) -> list[Any]:
    axis = node.axis("axis", -1, node.rank(0))
    if node.version < 10:
        k: Any = int(node.get("k", 1))
    else:
        k = _read_extent(node, 1)
    largest = bool(node.get("largest", 1))
    if isinstance(k, PrimExpr):
        places = node.emit(op.argsort(node[0], axis, largest, "int64"))
        places = node.emit(op.strided_slice(places, [axis], [0], [PrimValue(k)]))
        return [node.emit(op.gather_elements(node[0], places, axis)), places]
    if k == 0:
        raise node.refuse("k is 0")
    made = node.emit(op.topk(node[0], int(k), axis, "both", largest, "int64"))
    return [node.emit(TupleGetItem(made, i)) for i in range(2)]


def _unique(node: Node) -> list[Any]:
    axis = node.get("axis")
    made = node.emit(op.unique(node[0], True, True, True, True, axis))
    parts: list[RelaxExpr] = [node.emit(TupleGetItem(made, i)) for i in range(4)]
    if not node.get("sorted", 1):  # values stand in the order in which they first occur
        order = node.emit(op.argsort(parts[1], 0, False, "int64"))
        along = 0 if axis is None else int(axis)
        parts[0] = node.emit(op.take(parts[0], order, along))
        parts[1], parts[3] = (node.emit(op.take(parts[i], order, 0)) for i in (1, 3))
        place = node.emit(op.argsort(order, 0, False, "int64"))
        parts[2] = node.emit(op.take(place, parts[2], 0))
    return parts[: node.wanted]


ROWS: Final[tuple[Row, ...]] = (
    row("Compress", _compress),
    row("Gather", _gather, moves=True),
    row("GatherElements", _gather_elements, moves=True),
    row("GatherND", _gather_nd, moves=True),
    row("NonZero", _non_zero),
    row("OneHot", _one_hot),
    row("Scatter", _scatter_elements),
    row("ScatterElements", _scatter_elements),
    row("ScatterND", _scatter_nd),
    row("Slice", _slice, moves=True),
    row("TopK", _top_k),
    row("Unique", _unique),
)
