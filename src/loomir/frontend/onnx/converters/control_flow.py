"""Branches and loops.

A branch whose condition is known is chosen at import. A loop whose number of steps is known is
unrolled; another becomes a function that calls itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from loomir import op
from loomir.frontend.onnx.converters.sequence import item
from loomir.frontend.onnx.mistakes import NeedsBranches
from loomir.frontend.onnx.model import GraphDef
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.frontend.onnx.values import TensorValue, Value
from loomir.relax.expr import If, SeqExpr, Tuple, TupleGetItem
from loomir.relax.node import RelaxExpr

_MOST_STEPS: Final = 1024
"""Steps of the longest loop that is unrolled."""


def _if(node: Node) -> list[Value]:
    known = node.constant(0)
    branches: tuple[GraphDef, GraphDef] = (node.get("then_branch"), node.get("else_branch"))
    if known is not None:
        return node.graph.run(branches[0 if bool(known.reshape(-1)[0]) else 1], ())
    if node.graph.dataflow:
        raise NeedsBranches
    condition = node[0] if not node.dims(0) else node.emit(op.reshape(node[0], ()))
    made: list[SeqExpr] = []
    elements: list[str] = []
    for body in branches:
        node.graph.builder.begin_scope()
        values = node.graph.run(body, ())
        if not all(isinstance(v, TensorValue) for v in values):
            node.graph.builder.end_scope(())
            raise node.unknown(0, "condition")
        elements = [v.element for v in values if isinstance(v, TensorValue)]
        leaves = [node.graph.expression(v) for v in values]
        # A graph may hand on what is outside of it: a name of its own keeps the branch whole.
        made.append(node.graph.builder.end_scope(Tuple(tuple(leaves))))
    chosen = node.emit(If(condition, made[0], made[1]))
    fields = [node.emit(TupleGetItem(chosen, i)) for i in range(len(elements))]
    return [TensorValue(f, e) for f, e in zip(fields, elements)]


def _loop(node: Node) -> list[Value]:
    body: GraphDef = node.get("body")
    states: list[Value] = [node.value(i) for i in range(2, len(node))]
    scanned = len(body.outputs) - 1 - len(states)
    most = int(node.numbers(0, "steps").reshape(-1)[0]) if node.has(0) else None
    condition: Value = node.value(1) if node.has(1) else TensorValue(None, "bool", np.array(True))
    collected: list[list[Value]] = [[] for _ in range(scanned)]
    step = 0
    while most is None or step < most:
        if step == _MOST_STEPS:
            raise node.unsupported(f"it is a loop of more than {_MOST_STEPS} steps")
        known = condition.constant if isinstance(condition, TensorValue) else None
        if known is None:
            raise node.unknown(1, "condition")
        if not bool(known.reshape(-1)[0]):
            break
        number = TensorValue(None, "int64", np.array(step, "int64"))
        condition, *rest = node.graph.run(body, [number, condition, *states])
        states = rest[: len(states)]
        for column, value in zip(collected, rest[len(states) :]):
            column.append(value)
        step += 1
    return [*states, *[_stack(node, column, 0) for column in collected]]


def _stack(node: Node, values: Sequence[Value], axis: int, *, backwards: bool = False) -> Value:
    if not values:
        raise node.unsupported("it makes no steps, and gathers what each of them gives")
    parts = [node.graph.expression(v) for v in values]
    if backwards:
        parts.reverse()
    first = values[0]
    element = first.element if isinstance(first, TensorValue) else ""
    return TensorValue(node.emit(op.stack(parts, axis)), element)


def _scan(node: Node) -> list[Value]:
    body: GraphDef = node.get("body")
    count = int(node.get("num_scan_inputs", 1))
    if node.version < 9:
        return _scan_of_batches(node, body, count)
    states: list[Value] = [node.value(i) for i in range(len(node) - count)]
    inputs = [node[i] for i in range(len(node) - count, len(node))]
    return _unroll_scan(node, body, states, inputs)


def _unroll_scan(
    node: Node, body: GraphDef, states: list[Value], inputs: list[RelaxExpr]
) -> list[Value]:
    count = len(inputs)
    scanned = len(body.outputs) - len(states)
    axes, directions = [
        list(node.get(f"scan_input_{name}", [0] * count)) for name in ("axes", "directions")
    ]
    ranks = [len(node.dims_of(x)) for x in inputs]
    axes = [node.counted(a, r) for a, r in zip(axes, ranks)]
    length = node.dims_of(inputs[0])[axes[0]]
    if not isinstance(length, int):
        raise node.unsupported("it is a scan of an axis whose extent is not known")
    if length > _MOST_STEPS:
        raise node.unsupported(f"it is a scan of more than {_MOST_STEPS} steps")
    collected: list[list[Value]] = [[] for _ in range(scanned)]
    for step in range(length):
        given: list[Value] = list(states)
        for x, axis, direction in zip(inputs, axes, directions):
            place = length - 1 - step if direction else step
            part = item(node, x, axis, place)
            given.append(TensorValue(part, str(node.info_of(part).dtype)))
        made = node.graph.run(body, given)
        states = made[: len(states)]
        for column, value in zip(collected, made[len(states) :]):
            column.append(value)
    out_axes, out_directions = [
        list(node.get(f"scan_output_{name}", [0] * scanned)) for name in ("axes", "directions")
    ]
    return [
        *states,
        *[
            _stack(node, column, axis, backwards=bool(direction))
            for column, axis, direction in zip(collected, out_axes, out_directions)
        ],
    ]


def _scan_of_batches(node: Node, body: GraphDef, count: int) -> list[Value]:
    """Scan each item of a batch, as the first version of the operator does."""
    if node.has(0):
        raise node.unsupported("its sequences have lengths of their own")
    first = len(node) - count
    batch = node.dims(first)[0]
    if not isinstance(batch, int):
        raise node.unsupported("it is a scan of a batch whose size is not known")
    columns: list[list[Value]] = []
    for k in range(batch):
        slices = [item(node, node[i], 0, k) for i in range(1, len(node))]
        values = [TensorValue(s, str(node.info_of(s).dtype)) for s in slices]
        made = _unroll_scan(node, body, [*values[: first - 1]], slices[first - 1 :])
        columns.append(made)
    return [_stack(node, column, 0) for column in zip(*columns)]


ROWS: Final[tuple[Row, ...]] = (
    row("If", _if, small=True),
    row("Loop", _loop, small=True, note="steps that are not known at import, or too many"),
    row("Scan", _scan, small=True, note="extents that are not known at import, or too many"),
)
