"""Operators that only change shapes, orders and parts of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.expr import Constant, PrimValue
from loomir.relax.node import RelaxExpr
from loomir.support.array import Array
from loomir.te import Tensor, compute
from loomir.tir.expr import IntImm, Max, Min, PrimExpr, const


@register("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default",
          "aten._reshape_alias.default", "aten.flatten.using_ints", "aten.view_copy.default",
          "aten.unflatten.int")  # fmt: skip
def _view(node: Node) -> RelaxExpr:
    return op.reshape(node.tensor(0), tuple(node.shape))


@register("aten.unsqueeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default")
def _axes_of_one(node: Node) -> RelaxExpr:
    return op.reshape(node.tensor(0), tuple(node.shape))


@register("aten.permute.default", "aten.permute_copy.default")
def _permute(node: Node) -> RelaxExpr:
    rank = node.rank(0)
    order = [node.count_axis(a, rank) for a in node["dims"]]
    return node.tensor(0) if order == list(range(rank)) else op.permute_dims(node.tensor(0), order)


@register("aten.t.default", "aten.numpy_T.default")
def _t(node: Node) -> RelaxExpr:
    return op.permute_dims(node.tensor(0)) if node.rank(0) > 1 else node.tensor(0)


@register("aten.transpose.int")
def _transpose(node: Node) -> RelaxExpr:
    rank = node.rank(0)
    if rank == 0:
        return node.tensor(0)
    a, b = node.count_axis(node[1], rank), node.count_axis(node[2], rank)
    order = list(range(rank))
    order[a], order[b] = b, a
    return op.permute_dims(node.tensor(0), order)


@register("aten.expand.default", "aten.broadcast_to.default", "aten.expand_copy.default")
def _expand(node: Node) -> RelaxExpr:
    return op.broadcast_to(node.tensor(0), tuple(node.shape))


@register("aten.cat.default")
def _cat(node: Node) -> RelaxExpr:
    given: list[Any] = node[0]
    # Empty tensors of one axis go with any others.
    parts = [node.cast(x, node.dtype) for x in given if node.dims_of(x) != [0]] or [
        node.cast(given[0], node.dtype)
    ]
    if len(parts) == 1:
        return parts[0]
    return op.concat(tuple(parts), node.axis("dim", len(node.dims_of(parts[0]))))


@register("aten.stack.default")
def _stack(node: Node) -> RelaxExpr:
    parts = tuple([node.cast(x, node.dtype) for x in node[0]])
    return op.stack(parts, node.axis("dim", len(node.shape)))


def _wrap_bound(value: Any) -> Any:
    return PrimValue(value) if isinstance(value, PrimExpr) else int(value)


def _cut(x: RelaxExpr, axis: int, start: Any, end: Any, step: int = 1) -> RelaxExpr:
    return op.strided_slice(x, [axis], [_wrap_bound(start)], [_wrap_bound(end)], [step])


def _clamp_bound(node: Node, place: Any, extent: Any, otherwise: Any) -> Any:
    """Return a bound of a slice, counted from the start and brought into the axis."""
    if place is None:
        return otherwise
    if isinstance(place, int) and place >= 2**62:
        return extent
    if isinstance(place, int) and place < 0:
        place = extent + place
    if isinstance(place, int) and isinstance(extent, int):
        return min(max(place, 0), extent)
    if isinstance(place, int) and place == 0:
        return 0
    if node.is_equal(place, extent):
        return extent
    high: PrimExpr = place if isinstance(place, PrimExpr) else const(place, "int64")
    limit: PrimExpr = extent if isinstance(extent, PrimExpr) else const(extent, "int64")
    return node.simplify(Max(Min(high, limit), IntImm(0, high.dtype)))


def _slice_bounds(node: Node) -> tuple[int, Any, Any, int]:
    dims = node.dims(0)
    axis = node.axis("dim", len(dims))
    start = _clamp_bound(node, node["start"], dims[axis], 0)
    end = _clamp_bound(node, node["end"], dims[axis], dims[axis])
    return axis, start, end, int(node["step"])


@register("aten.slice.Tensor")
def _slice(node: Node) -> RelaxExpr:
    axis, start, end, step = _slice_bounds(node)
    dims = node.dims(0)
    if step == 1 and isinstance(start, int) and start == 0 and node.is_equal(end, dims[axis]):
        return node.tensor(0)
    return _cut(node.tensor(0), axis, start, end, step)


@register("aten.narrow.default")
def _narrow(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    axis = node.axis("dim", len(dims))
    start = _clamp_bound(node, node["start"], dims[axis], 0)
    return _cut(node.tensor(0), axis, start, node.simplify(start + node["length"]))


@register("aten.select.int", "aten.select_copy.int")
def _select(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    axis = node.axis("dim", len(dims))
    place = node["index"]
    if isinstance(place, int) and place < 0:
        place = node.simplify(dims[axis] + place)
    made = node.emit(_cut(node.tensor(0), axis, place, node.simplify(place + 1)))
    return op.reshape(made, tuple(node.shape))


@register("aten.slice_scatter.default")
def _slice_scatter(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    axis = node.axis("dim", len(dims))
    start = _clamp_bound(node, node["start"], dims[axis], 0)
    end = _clamp_bound(node, node["end"], dims[axis], dims[axis])
    source = node.tensor("src", node.dtype)
    if isinstance(start, int) and isinstance(end, int) and end <= start:
        return node.tensor(0)
    return op.slice_scatter(
        node.tensor(0), source, _wrap_bound(start), _wrap_bound(end), int(node["step"]), axis
    )


@register("aten.select_scatter.default")
def _select_scatter(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    axis = node.axis("dim", len(dims))
    place = node["index"]
    if isinstance(place, int) and place < 0:
        place = node.simplify(dims[axis] + place)
    source = node.emit(op.expand_dims(node.tensor("src", node.dtype), [axis]))
    end = node.simplify(place + 1)
    return op.slice_scatter(node.tensor(0), source, _wrap_bound(place), _wrap_bound(end), 1, axis)


@register("aten.split_with_sizes.default", "aten.split.Tensor", "aten.unbind.int",
          "aten.chunk.default", "aten.split_with_sizes_copy.default")  # fmt: skip
def _split(node: Node) -> list[Any]:
    """Cut an axis at the places that the shapes of the results say."""
    axis = node.axis("dim", node.rank(0))
    results: list[Any] = node.definition.meta["val"]
    single = node.operator == "aten.unbind.int"
    made: list[Any] = []
    start: Any = 0
    for i, result in enumerate(results):
        shape = [node.graph.sizes.convert_size(d) for d in result.shape]
        size = 1 if single else shape[axis]
        end = node.simplify(start + size)
        if not node.wants(i):
            made.append(None)
        else:
            part = node.emit(_cut(node.tensor(0), axis, start, end))
            made.append(op.reshape(part, tuple(shape)) if single else part)
        start = end
    return made


@register("aten.repeat.default", "aten.tile.default")
def _repeat(node: Node) -> RelaxExpr:
    counts: list[Any] = list(node[1])
    dims = node.dims(0)
    counts = [1] * (len(dims) - len(counts)) + counts
    own = [1] * (len(counts) - len(dims)) + dims
    paired = [v for d in own for v in (1, d)]
    repeated = [v for c, d in zip(counts, own) for v in (c, d)]
    x = node.emit(op.reshape(node.tensor(0), tuple(paired)))
    x = node.emit(op.broadcast_to(x, tuple(repeated)))
    return op.reshape(x, tuple(node.shape))


@register("aten.flip.default")
def _flip(node: Node) -> RelaxExpr:
    x = node.tensor(0)
    for axis in node.axes("dims", node.rank(0)) or ():
        x = node.emit(op.flip(x, axis))
    return x


@register("aten.roll.default")
def _roll(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    shifts = [node["shifts"]] if not isinstance(node["shifts"], list) else list(node["shifts"])
    axes = node.axes("dims", len(dims))
    x = node.tensor(0)
    if not axes:
        total = node.simplify(reduce(mul, dims, 1))
        x = node.emit(op.reshape(x, (total,)))
        return op.reshape(_roll_axis(node, x, 0, shifts[0], total), tuple(dims))
    for axis, shift in zip(axes, shifts):
        x = _roll_axis(node, x, axis, shift, dims[axis])
    return x


def _roll_axis(node: Node, x: RelaxExpr, axis: int, shift: Any, extent: Any) -> RelaxExpr:
    if isinstance(extent, int):
        if extent == 0:
            return x
        shift = shift % extent if isinstance(shift, int) else shift
        if isinstance(shift, int) and shift == 0:
            return x
    middle = node.simplify(extent - shift) if not _is_negative(shift) else -shift
    first = node.emit(_cut(x, axis, middle, extent))
    rest = node.emit(_cut(x, axis, 0, middle))
    return node.emit(op.concat((first, rest), axis))


def _is_negative(value: Any) -> bool:
    return isinstance(value, int) and value < 0


@register("aten.constant_pad_nd.default")
def _constant_pad(node: Node) -> RelaxExpr:
    given: list[Any] = node["pad"]
    value = node["value"] or 0
    rank = node.rank(0)
    x, dims = node.tensor(0), node.dims(0)
    pairs = [(0, 0)] * (rank - len(given) // 2)
    for i in reversed(range(len(given) // 2)):
        pairs.append((given[2 * i], given[2 * i + 1]))
    if any(isinstance(v, PrimExpr) for p in pairs for v in p):
        return _pad_by_sizes(node, x, pairs, value)
    for axis, (before, after) in enumerate(pairs):
        if before < 0 or after < 0:
            end = node.simplify(dims[axis] + min(after, 0))
            x = node.emit(_cut(x, axis, max(-before, 0), end))
    widths = [max(v, 0) for p in pairs for v in p]
    if not any(widths):
        return x
    if node.dtype == "bool":
        made = node.emit(op.nn.pad(node.cast(x, "uint8"), widths, "constant", float(bool(value))))
        return op.astype(made, "bool")
    return op.nn.pad(x, widths, "constant", float(value))


def _pad_by_sizes(node: Node, x: RelaxExpr, pairs: list[Any], value: Any) -> RelaxExpr:
    """Pad by extents: parts of one value before and after each axis."""
    for axis, (before, after) in enumerate(pairs):
        dims = node.dims_of(x)
        parts: list[RelaxExpr] = [x]
        for place, width in ((0, before), (2, after)):
            if isinstance(width, int) and width == 0:
                continue
            shape = [*dims[:axis], width, *dims[axis + 1 :]]
            part = node.emit(op.full(tuple(shape), node.constant(value)))
            parts.insert(0 if place == 0 else len(parts), part)
        if len(parts) > 1:
            x = node.emit(op.concat(tuple(parts), axis))
    return x


def _pad_like(node: Node, mode: str) -> RelaxExpr:
    given: list[int] = node["padding"]
    count = len(given) // 2
    pairs = [(0, 0)] * (node.rank(0) - count)
    for i in reversed(range(count)):
        pairs.append((given[2 * i], given[2 * i + 1]))
    x, dims = node.tensor(0), node.dims(0)
    for axis, (before, after) in enumerate(pairs):
        if before < 0 or after < 0:
            end = node.simplify(dims[axis] + min(after, 0))
            x = node.emit(_cut(x, axis, max(-before, 0), end))
    return op.nn.pad(x, [max(v, 0) for p in pairs for v in p], mode)


@register("aten.reflection_pad1d.default", "aten.reflection_pad2d.default",
          "aten.reflection_pad3d.default")  # fmt: skip
def _reflection_pad(node: Node) -> RelaxExpr:
    return _pad_like(node, "reflect")


@register("aten.replication_pad1d.default", "aten.replication_pad2d.default",
          "aten.replication_pad3d.default")  # fmt: skip
def _replication_pad(node: Node) -> RelaxExpr:
    return _pad_like(node, "replicate")


@register("aten.diagonal.default", "aten.diagonal_copy.default")
def _diagonal(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    offset = int(node["offset"])
    a, b = [node.axis(name, len(dims)) for name in ("dim1", "dim2")]

    def kernel(x: Tensor, shape: list[Any]) -> Tensor:
        def element(*i: PrimExpr) -> PrimExpr:
            rest = list(i[:-1])
            found: list[Any] = []
            for axis in range(len(dims)):
                if axis == a:
                    found.append(i[-1] + max(-offset, 0))
                elif axis == b:
                    found.append(i[-1] + max(offset, 0))
                else:
                    found.append(rest.pop(0))
            return x(*found)

        return compute(tuple(shape), element, name="diagonal")

    return node.compute(kernel, node.tensor(0), node.shape)


@register("aten.as_strided.default", "aten.as_strided_copy.default",
          note="sizes that are not known, memory outside of its input")  # fmt: skip
def _as_strided(node: Node) -> RelaxExpr:
    kept, places = _read_places(node)
    xp: Any = np
    order = xp.argsort(kept, kind="stable")
    found = order[xp.minimum(xp.searchsorted(kept[order], places), max(len(kept) - 1, 0))]
    if not (kept[found] == places).all():
        raise node.refuse("it reads memory that its input is only a part of")
    flat = node.emit(op.reshape(node.tensor(0), (len(kept),)))
    taken = node.emit(op.take(flat, Constant(Array(found)), 0))
    return op.reshape(taken, tuple(node["size"]))


@register("aten.as_strided_scatter.default", note="sizes that are not known")
def _as_strided_scatter(node: Node) -> RelaxExpr:
    kept, places = _read_places(node)
    if not len(kept) or not len(places):
        return node.tensor(0)
    xp: Any = np
    order = xp.argsort(places, kind="stable")  # of elements that share a place, the last counts
    last = xp.searchsorted(places[order], kept, side="right") - 1
    found = order[xp.maximum(last, 0)]
    written = (last >= 0) & (places[found] == kept)
    flat = node.emit(op.reshape(node.tensor(0), (len(kept),)))
    source = node.emit(op.reshape(node.tensor("src", node.dtype), (len(places),)))
    taken = node.emit(op.take(source, Constant(Array(found)), 0))
    made = node.emit(op.where(Constant(Array(written)), taken, flat))
    return op.reshape(made, tuple(node.dims(0)))


def _read_places(node: Node) -> tuple[Any, Any]:
    """Return where the elements of an input lie in memory, and where those of a view of it lie."""
    sizes, strides, dims = node["size"], node["stride"], node.dims(0)
    source = node.definition.args[0].meta["val"]
    own, start = [*source.stride()], source.storage_offset()
    offset = start if node["storage_offset"] is None else node["storage_offset"]
    if not all(isinstance(v, int) for v in [*sizes, *strides, *dims, *own, start, offset]):
        raise node.refuse("its sizes or strides are unknown")
    return _memory_places(dims, own, start), _memory_places(sizes, strides, offset)


def _memory_places(sizes: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    """Return where the elements of a tensor lie in memory, in their order."""
    xp: Any = np
    places: Any = xp.full(tuple(sizes), offset, "int64")
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        shape = [1] * len(sizes)
        shape[axis] = size
        places = places + (xp.arange(size) * stride).reshape(shape)
    return places.reshape(-1)


@register("aten.tril.default")
def _tril(node: Node) -> RelaxExpr:
    return op.tril(node.tensor(0), _wrap_bound(node["diagonal"]))


@register("aten.triu.default")
def _triu(node: Node) -> RelaxExpr:
    return op.triu(node.tensor(0), _wrap_bound(node["diagonal"]))


@register("aten.pixel_shuffle.default")
def _pixel_shuffle(node: Node) -> RelaxExpr:
    *front, c, h, w = node.dims(0)
    r = int(node["upscale_factor"])
    deep = node.simplify(c // (r * r)) if isinstance(c, PrimExpr) else c // (r * r)
    rank = len(front)
    x = node.emit(op.reshape(node.tensor(0), (*front, deep, r, r, h, w)))
    order = [*range(rank), rank, rank + 3, rank + 1, rank + 4, rank + 2]
    return op.reshape(node.emit(op.permute_dims(x, order)), tuple(node.shape))


@register("aten.pixel_unshuffle.default")
def _pixel_unshuffle(node: Node) -> RelaxExpr:
    *front, c, h, w = node.dims(0)
    r = int(node["downscale_factor"])
    rank = len(front)
    high, wide = node.shape[-2:]
    x = node.emit(op.reshape(node.tensor(0), (*front, c, high, r, wide, r)))
    order = [*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3]
    del h, w
    return op.reshape(node.emit(op.permute_dims(x, order)), tuple(node.shape))


@register("aten.unfold.default")
def _unfold(node: Node) -> RelaxExpr:
    """Return windows along an axis, their elements along a new last one."""
    step, shape, rank = node["step"], node.shape, node.rank(0)
    if rank == 0:
        return op.reshape(node.tensor(0), tuple(shape))
    axis = node.axis("dimension", rank)

    def windows(x: Tensor, extents: list[Any]) -> Tensor:
        def element(*index: PrimExpr) -> PrimExpr:
            *outer, within = index
            outer[axis] = outer[axis] * step + within
            return x[tuple(outer)]

        return compute(tuple(extents), element, name="windows")

    return node.compute(windows, node.tensor(0), shape)
