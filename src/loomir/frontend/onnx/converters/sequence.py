"""Sequences and optionals, whose lengths and presence are known at import."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.frontend.onnx.values import AbsentOptional, SequenceValue, TensorValue, Value
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr
from loomir.tir.expr import PrimExpr


def _construct(node: Node) -> Value:
    return SequenceValue(tuple([node.value(i) for i in range(len(node))]))


def _empty(node: Node) -> Value:
    return SequenceValue(())


def _position(node: Node, index: int, length: int, otherwise: int) -> int:
    if not node.has(index):
        return otherwise
    place = int(node.numbers(index, "position").reshape(-1)[0])
    if not -length <= place <= length:
        raise node.refuse(f"position {place} is out of range for a sequence of {length} items")
    return place + length if place < 0 else place


def _insert(node: Node) -> Value:
    items = node.sequence(0).items
    place = _position(node, 2, len(items), len(items))
    return SequenceValue((*items[:place], node.value(1), *items[place:]))


def _erase(node: Node) -> Value:
    items = node.sequence(0).items
    place = _position(node, 1, len(items), len(items) - 1)
    return SequenceValue(items[:place] + items[place + 1 :])


def _sequence_at(node: Node) -> Value:
    items = node.sequence(0).items
    place = _position(node, 1, len(items), 0)
    if place == len(items):
        raise node.refuse(f"position {place} is out of range for a sequence of {place} items")
    return items[place]


def _length(node: Node) -> Value:
    return TensorValue(None, "int64", np.array(len(node.sequence(0).items), "int64"))


def _concat(node: Node) -> RelaxExpr:
    parts = [node.graph.expression(v) for v in node.sequence(0).items]
    axis = int(node.get("axis", 0))
    return op.stack(parts, axis) if node.get("new_axis", 0) else op.concat(parts, axis)


def _split(node: Node) -> Value:
    dims = node.dims(0)
    axis = node.axis("axis", 0, len(dims))
    extent = dims[axis]
    if not isinstance(extent, int):
        raise node.refuse("the extent of the axis that it splits is unknown")
    if not node.has(1):
        sizes = [1] * extent
    else:
        given = node.numbers(1, "sizes")
        if given.ndim:
            sizes = [int(v) for v in given]
        else:
            size = max(int(given), 1)
            sizes = [min(size, extent - start) for start in range(0, extent, size)]
    parts: list[Value] = []
    start = 0
    for size in sizes:
        part = node.emit(op.strided_slice(node[0], [axis], [start], [start + size]))
        if not node.has(1) and not node.get("keepdims", 1):
            part = node.emit(op.squeeze(part, [axis]))
        parts.append(TensorValue(part, node.element(0)))
        start += size
    return SequenceValue(tuple(parts))


def _optional(node: Node) -> Value:
    return node.value(0) if node.has(0) else AbsentOptional()


def _has_element(node: Node) -> Value:
    there = node.has(0) and not isinstance(node.value(0), AbsentOptional)
    return TensorValue(None, "bool", np.array(there))


def _get_element(node: Node) -> Value:
    found = node.value(0)
    if isinstance(found, AbsentOptional):
        raise node.refuse("its optional has no value")
    return found


def _map(node: Node) -> list[Value]:
    """Apply a graph to each element of a sequence, and to tensors beside it."""
    body = node.get("body")
    first = node.sequence(0)
    made: list[list[Value]] = []
    for k in range(len(first.items)):
        given: list[Value] = []
        for i in range(len(node)):
            value = node.value(i)
            given.append(value.items[k] if isinstance(value, SequenceValue) else value)
        made.append(node.graph.run(body, given))
    return [SequenceValue(tuple(column)) for column in zip(*made)]


def item(node: Node, x: RelaxExpr, axis: int, place: Any) -> RelaxExpr:
    """Return one slice along an axis, without that axis."""
    bounds = [PrimValue(v) if isinstance(v, PrimExpr) else v for v in (place, place + 1)]
    part = node.emit(op.strided_slice(x, [axis], [bounds[0]], [bounds[1]]))
    return node.emit(op.squeeze(part, [axis]))


ROWS: Final[tuple[Row, ...]] = (
    row("ConcatFromSequence", _concat),
    row("Optional", _optional, small=True),
    row("OptionalGetElement", _get_element, small=True),
    row("OptionalHasElement", _has_element, small=True),
    row("SequenceAt", _sequence_at, small=True),
    row("SequenceConstruct", _construct, small=True),
    row("SequenceEmpty", _empty),
    row("SequenceErase", _erase, small=True),
    row("SequenceInsert", _insert, small=True),
    row("SequenceLength", _length, small=True),
    row("SequenceMap", _map, small=True),
    row("SplitToSequence", _split, small=True),
)
