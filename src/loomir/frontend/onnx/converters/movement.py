"""Operators that only move elements: reshape, transpose, slice, copy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from operator import mul
from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Row, row
from loomir.frontend.onnx.values import TensorValue, objects
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr
from loomir.tir.expr import PrimExpr


def _reshape(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    given = list(node.get("shape", ())) if node.version < 5 else node.find_known(1)
    if given is None:
        given = _shape_when_run(node, dims)
    if not node.get("allowzero", 0):
        given = [dims[i] if _is(d, 0) and i < len(dims) else d for i, d in enumerate(given)]
    return op.reshape(node[0], _fill_unknown(node, dims, given))


def _is(value: Any, number: int) -> bool:
    return not isinstance(value, PrimExpr) and value == number


def _fill_unknown(node: Node, dims: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
    """Return extents with what is left of the number of elements in the place of -1."""
    places = [i for i, d in enumerate(given) if _is(d, -1)]
    symbolic = any(isinstance(d, PrimExpr) for d in (*dims, *given))
    if len(places) != 1 or not symbolic:
        return tuple(given)
    rest = [d for i, d in enumerate(given) if i != places[0]]
    left = list(dims)
    for d in list(rest):  # equal extents cancel, whatever they are
        same = next((k for k, e in enumerate(left) if e is d or _is_same(node, d, e)), None)
        if same is not None:
            left.pop(same)
            rest.remove(d)
    total, divisor = [node.simplify(reduce(mul, part, 1)) for part in (left, rest)]
    made = list(given)
    made[places[0]] = total if _is(divisor, 1) else node.simplify(total // divisor)
    return tuple(made)


def _is_same(node: Node, a: Any, b: Any) -> bool:
    if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
        return _is(node.simplify(a - b), 0)
    return bool(a == b)


def _shape_when_run(node: Node, dims: Sequence[Any]) -> list[Any]:
    """Return the extents that a tensor holds when the program runs, 0 and -1 replaced."""
    (count,) = node.dims(1)
    if not isinstance(count, int):
        raise node.unknown(1, "numbers of axes")
    wanted = node[1] if node.dtype(1) == "int64" else node.emit(op.astype(node[1], "int64"))
    zero, one = constant(0, "int64"), constant(1, "int64")
    if not node.get("allowzero", 0):
        own = [*dims, *[1] * count][:count]
        shape = node.graph.expression(TensorValue(None, "int64", _numbers(own)))
        wanted = node.emit(op.where(node.emit(op.equal(wanted, zero)), shape, wanted))
    open_ = node.emit(op.less(wanted, zero))
    product = node.emit(op.prod(node.emit(op.where(open_, one, wanted)), keepdims=True))
    total = node.simplify(reduce(mul, dims, 1))
    elements = node.graph.expression(TensorValue(None, "int64", _numbers([total])))
    # Of no elements nothing is left to divide.
    product = node.emit(op.maximum(product, one))
    left = node.emit(op.floor_divide(elements, product))
    return list(node.graph.extents(node.emit(op.where(open_, left, wanted)), count))


def _numbers(items: Sequence[Any]) -> Any:
    if any(isinstance(v, PrimExpr) for v in items):
        return objects(items, (len(items),))
    return np.array(items, "int64")


def _flatten(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    axis = node.get("axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    if not 0 <= axis <= len(dims):
        raise node.refuse(f"axis {axis} is out of range for {len(dims)} axes")
    parts = [node.simplify(reduce(mul, part, 1)) for part in (dims[:axis], dims[axis:])]
    return op.reshape(node[0], tuple(parts))


def _transpose(node: Node) -> RelaxExpr:
    order = node.get("perm")
    return op.permute_dims(node[0], None if order is None else list(order))


def _axes(node: Node, since: int) -> list[int] | None:
    """Return axes that are an attribute, or from a version on an input."""
    if node.version < since:
        given = node.get("axes")
        return None if given is None else list(given)
    if not node.has(1):
        return None
    return [int(v) for v in node.numbers(1, "axes").reshape(-1)]


def _squeeze(node: Node) -> RelaxExpr:
    axes = _axes(node, 13)
    if axes is not None and not axes:
        return node[0]
    if axes is None and not all(isinstance(d, int) for d in node.dims(0)):
        raise node.refuse(
            "it removes all axes of extent 1, but some extents are unknown",
            help="give it axes, or the model's inputs shapes: load(model, shapes={'x': (1, 3)})",
        )
    return op.squeeze(node[0], axes)


def _unsqueeze(node: Node) -> RelaxExpr:
    axes = _axes(node, 13)
    if axes is None:
        raise node.refuse("its input has no axes")
    return op.expand_dims(node[0], axes) if axes else node[0]


def _concat(node: Node) -> RelaxExpr:
    parts = node.all()
    axis = int(node.get("axis", 1))
    return parts[0] if len(parts) == 1 else op.concat(parts, axis)


def _split(node: Node) -> list[Any]:
    dims = node.dims(0)
    axis = node.axis("axis", 0, len(dims))
    given = list(node.get("split", ())) or None if node.version < 13 else node.find_known(1)
    if node.version >= 13 and node.has(1) and given is None:
        raise node.unknown(1, "sizes")
    if given is None:
        count = int(node.get("num_outputs", len(node.definition.outputs)))
        extent = dims[axis]
        if not isinstance(extent, int):
            return _equal_parts(node, axis, extent, count)
        size = -(-extent // max(count, 1))
        given = [min(size, max(extent - i * size, 0)) for i in range(count)]
    x = _check_lengths(node, axis, given)
    if len(given) == 1:
        return [node[0] if x is None else x]
    known = node.tensor(0).known
    if known is not None and not any(isinstance(v, PrimExpr) for v in given):
        ends = np.cumsum([int(v) for v in given])[:-1]
        parts = np.split(known, ends, axis)
        return [TensorValue(None, node.element(0), part) for part in parts]
    made: list[RelaxExpr] = []
    start: Any = 0
    for size in given:
        end = node.simplify(start + size)
        made.append(node.emit(_cut(node[0] if x is None else x, axis, start, end)))
        start = end
    return made


def _check_lengths(node: Node, axis: int, lengths: Sequence[Any]) -> RelaxExpr | None:
    """Return the tensor, of which parts are the whole axis; None where all of it is known.

    An extent that is not known is compared with their sum when the program runs.
    """
    dims = node.dims(0)
    known = [int(v) for v in lengths if not isinstance(v, PrimExpr)]
    extent, total, all_known = dims[axis], sum(known), len(known) == len(lengths)
    is_whole = not isinstance(extent, int) or (total == extent if all_known else total <= extent)
    if any(v < 0 for v in known) or not is_whole:
        raise node.refuse(
            f"axis {axis} has {extent} elements, and its parts have {', '.join(map(str, lengths))}",
            help="give lengths whose sum is the extent of the axis",
        )
    if isinstance(extent, int) or not all_known:
        return None
    return node.match_dims(node[0], [*dims[:axis], total, *dims[axis + 1 :]])


def _equal_parts(node: Node, axis: int, extent: Any, count: int) -> list[RelaxExpr]:
    """Cut an axis of unknown extent: places beyond its end are brought to it."""
    size = node.simplify((extent + (count - 1)) // count)
    places = [node.simplify(size * i) for i in range(count + 1)]
    return [node.emit(_cut(node[0], axis, a, b)) for a, b in pairwise(places)]


def _cut(x: RelaxExpr, axis: int, start: Any, end: Any) -> RelaxExpr:
    bounds = [PrimValue(v) if isinstance(v, PrimExpr) else v for v in (start, end)]
    return op.strided_slice(x, [axis], [bounds[0]], [bounds[1]])


def _expand(node: Node) -> RelaxExpr:
    dims, wanted = node.dims(0), node.extents(1)
    rank = max(len(dims), len(wanted))
    own, other = [[1] * (rank - len(d)) + list(d) for d in (dims, wanted)]
    known = node.find_known(1) is not None
    made: list[Any] = []
    for a, b in zip(own, other):
        if _is(b, 1) or (not _is(a, 1) and _is_same(node, a, b)):
            made.append(a)
        elif _is(a, 1) or known:
            made.append(b)
        else:
            return _expand_when_run(node, rank)
    return op.broadcast_to(node[0], tuple(made))


def _expand_when_run(node: Node, rank: int) -> RelaxExpr:
    """Broadcast to a shape of which it is not known where it has extents of 1."""
    ones = op.ones(tuple(node.extents(1)), node.dtype(0))
    if node.dtype(0) == "bool":
        return op.logical_and(node[0], node.emit(ones))
    return op.multiply(node[0], node.emit(ones))


def _tile(node: Node) -> RelaxExpr:
    counts = node.extents(1)
    if not any(isinstance(c, PrimExpr) for c in counts):
        return op.tile(node[0], [int(c) for c in counts])
    x, dims = node[0], node.dims(0)
    paired = [v for d in dims for v in (1, d)]
    repeated = [v for c, d in zip(counts, dims) for v in (c, d)]
    x = node.emit(op.broadcast_to(node.emit(op.reshape(x, tuple(paired))), tuple(repeated)))
    return op.reshape(x, tuple([node.simplify(c * d) for c, d in zip(counts, dims)]))


def _depth_to_space(node: Node) -> RelaxExpr:
    b, c, h, w = node.dims(0)
    size = int(node.get("blocksize", 0))
    deep = node.simplify(c // (size * size))
    if node.get("mode", "DCR") == "DCR":
        shape, order = (b, size, size, deep, h, w), [0, 3, 4, 1, 5, 2]
    else:
        shape, order = (b, deep, size, size, h, w), [0, 1, 4, 2, 5, 3]
    x = node.emit(op.permute_dims(node.emit(op.reshape(node[0], shape)), order))
    return op.reshape(x, (b, deep, node.simplify(h * size), node.simplify(w * size)))


def _space_to_depth(node: Node) -> RelaxExpr:
    b, c, h, w = node.dims(0)
    size = int(node.get("blocksize", 0))
    high, wide = node.simplify(h // size), node.simplify(w // size)
    if node.get("mode", "DCR") == "DCR":
        shape, order = (b, c, high, size, wide, size), [0, 3, 5, 1, 2, 4]
    else:
        shape, order = (b, c, high, size, wide, size), [0, 1, 3, 5, 2, 4]
    x = node.emit(op.permute_dims(node.emit(op.reshape(node[0], shape)), order))
    return op.reshape(x, (b, node.simplify(c * size * size), high, wide))


def _trilu(node: Node) -> RelaxExpr:
    keep = op.triu if node.get("upper", 1) else op.tril
    if not node.has(1):
        return keep(node[0], 0)
    return keep(node[0], int(node.numbers(1, "diagonal").reshape(-1)[0]))


def _reverse_sequence(node: Node) -> RelaxExpr:
    time, batch = int(node.get("time_axis", 0)), int(node.get("batch_axis", 1))
    lengths = node.emit(op.astype(node[1], "int32"))
    return op.reverse_sequence(node[0], lengths, time, batch)


def _dropout(node: Node) -> list[Any]:
    if node.has(2) and bool(node.numbers(2, "mode").reshape(-1)[0]):
        ratio = node.numbers(1, "ratio") if node.has(1) else None
        if ratio is None or float(ratio.reshape(-1)[0]) != 0.0:
            raise node.refuse(
                "it applies dropout, as in training",
                help="export the model for inference: model.eval()",
            )
    mask = op.ones_like(node[0], "bool" if node.version >= 10 else node.dtype(0))
    return [node[0], node.emit(mask) if node.wants(1) else None]


ROWS: Final[tuple[Row, ...]] = (
    row("Concat", _concat, moves=True),
    row("DepthToSpace", _depth_to_space, moves=True),
    row("Dropout", _dropout),
    row("Expand", _expand),
    row("Flatten", _flatten, moves=True),
    row("Reshape", _reshape, moves=True),
    row("ReverseSequence", _reverse_sequence, moves=True),
    row("SpaceToDepth", _space_to_depth, moves=True),
    row("Split", _split, moves=True),
    row("Squeeze", _squeeze, moves=True),
    row("Tile", _tile, moves=True),
    row("Transpose", _transpose, moves=True),
    row("Trilu", _trilu),
    row("Unsqueeze", _unsqueeze, moves=True),
)
