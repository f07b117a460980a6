"""Branches and loops.

A branch with a known condition is selected at import. A loop with a known small trip count is
unrolled; any other loop becomes a recursive function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.loops import LoopMistake, Step, emit_loop
from loomir.frontend.onnx.converters.sequence import item
from loomir.frontend.onnx.mistakes import MissingBody, NeedsBranches
from loomir.frontend.onnx.model import GraphDef
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Row, row
from loomir.frontend.onnx.scanning import MOST_UNROLLED, ScanInputs, emit_scan
from loomir.frontend.onnx.values import MissingValue, TensorValue, Value
from loomir.relax.constants import const
from loomir.relax.expr import Constant, If, SeqExpr, Tuple, TupleGetItem
from loomir.relax.node import RelaxExpr

_MOST_STEPS: Final = 1024
"""Steps of the longest loop that is unrolled where it has to be: it keeps a sequence."""


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
    most = node.constant(0) if node.has(0) else None
    known = not node.has(0) or most is not None
    steps = None if most is None else int(most.reshape(-1)[0])
    if known and (steps is None or steps <= MOST_UNROLLED or not _are_tensors(states)):
        try:
            return _unroll(node, body, list(states), steps)
        except _NotUnrollable:
            pass
    return _emit(node, body, states)


class _NotUnrollable(Exception):
    """Whether a loop goes on is not known at import, or it makes too many steps to unroll."""


def _are_tensors(values: Sequence[Value]) -> bool:
    return all(isinstance(v, TensorValue) for v in values)


def _unroll(node: Node, body: GraphDef, states: list[Value], most: int | None) -> list[Value]:
    tensors = _are_tensors(states)
    count = len(states)
    condition: Value = node.value(1) if node.has(1) else TensorValue(None, "bool", np.array(True))
    collected: list[list[Value]] = [[] for _ in range(len(body.outputs) - 1 - count)]
    step = 0
    while most is None or step < most:
        known = condition.constant if isinstance(condition, TensorValue) else None
        if known is None:
            if tensors:
                raise _NotUnrollable
            raise node.unknown(1, "condition")
        if not bool(known.reshape(-1)[0]):
            break
        if step == (MOST_UNROLLED if tensors else _MOST_STEPS):
            if tensors:
                raise _NotUnrollable
            raise node.refuse(
                f"a loop that carries a sequence may have at most {_MOST_STEPS} steps"
            )
        number = TensorValue(None, "int64", np.array(step, "int64"))
        condition, *rest = node.graph.run(body, [number, condition, *states])
        states = rest[:count]
        for column, value in zip(collected, rest[count:]):
            column.append(value)
        step += 1
    return [*states, *[_stack(node, column, 0) for column in collected]]


def _emit(node: Node, body: GraphDef, given: Sequence[Value]) -> list[Value]:
    """Make a loop whose number of steps is known when it runs."""
    if not _are_tensors(given):
        raise node.unknown(0, "steps")
    if node.graph.dataflow:
        raise NeedsBranches
    graph = node.graph
    elements = [v.element for v in given if isinstance(v, TensorValue)]
    rows: list[str] = []
    most = _scalar(node, node[0]) if node.has(0) else None
    start = _constant(0)
    goes_on = _scalar(node, node[1]) if node.has(1) else None
    if most is not None:
        goes_on = _and(node, goes_on, node.emit(op.less(start, most)))

    def step(now: list[RelaxExpr]) -> Step:
        number, *states = now
        values: list[Value] = [
            TensorValue(number, "int64"),
            TensorValue(None, "bool", np.array(True)),
            *[TensorValue(s, e) for s, e in zip(states, elements)],
        ]
        condition, *made = graph.run(body, values)
        _check(node, [condition, *made])
        rows[:] = [v.element for v in made[len(elements) :] if isinstance(v, TensorValue)]
        after = node.emit(op.add(number, _constant(1)))
        more = _scalar(node, graph.expression(condition))
        if most is not None:
            more = _and(node, more, node.emit(op.less(after, most)))
        leaves = [graph.expression(v) for v in made]
        return Step(more, [after, *leaves[: len(elements)]], leaves[len(elements) :])

    first = [start, *[graph.expression(v) for v in given]]
    try:
        states, gathered = emit_loop(
            graph, _constant(True, "bool") if goes_on is None else goes_on, first, step
        )
    except LoopMistake as error:
        raise node.refuse(str(error)) from error
    return [
        *[TensorValue(s, e) for s, e in zip(states[1:], elements)],
        *[TensorValue(g, e) for g, e in zip(gathered, rows)],
    ]


def _check(node: Node, made: Sequence[Value]) -> None:
    """Refuse what a body gives; where it could not be made, nodes in it are named already."""
    if any(isinstance(v, MissingValue) for v in made):
        raise MissingBody
    if not _are_tensors(made):
        raise node.refuse("its body returns something other than a tensor")


def _scalar(node: Node, x: RelaxExpr) -> RelaxExpr:
    return x if not node.dims_of(x) else node.emit(op.reshape(x, ()))


def _constant(value: Any, dtype: str = "int64") -> RelaxExpr:
    return const(np.array(value, dtype))


def _and(node: Node, a: RelaxExpr | None, b: RelaxExpr) -> RelaxExpr:
    return b if a is None or isinstance(a, Constant) else node.emit(op.logical_and(a, b))


def _stack(node: Node, values: Sequence[Value], axis: int, *, backwards: bool = False) -> Value:
    if not values:
        raise node.refuse("it runs no iteration, but stacks a value of each iteration")
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
    axes = [node.count_axis(a, r) for a, r in zip(axes, ranks)]
    length = node.dims_of(inputs[0])[axes[0]]
    out_axes, out_directions = [
        list(node.get(f"scan_output_{name}", [0] * scanned)) for name in ("axes", "directions")
    ]
    if not isinstance(length, int) or length > MOST_UNROLLED:
        scan = ScanInputs(length, list(zip(inputs, axes, directions)))
        made = _emit_scan(node, body, states, scan)
        ends, every = made[: len(states)], made[len(states) :]
        return [
            *ends,
            *[_place_axis(node, v, a, bool(d)) for v, a, d in zip(every, out_axes, out_directions)],
        ]
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
    return [
        *states,
        *[
            _stack(node, column, axis, backwards=bool(direction))
            for column, axis, direction in zip(collected, out_axes, out_directions)
        ],
    ]


def _emit_scan(node: Node, body: GraphDef, given: Sequence[Value], scan: ScanInputs) -> list[Value]:
    """Make a scan along axes whose extent is not known, or great."""
    if not _are_tensors(given):
        raise node.refuse("it carries something other than a tensor")
    graph = node.graph
    elements = [v.element for v in given if isinstance(v, TensorValue)]
    rows: list[str] = []

    def step(states: list[RelaxExpr], parts: list[RelaxExpr]) -> tuple[list[RelaxExpr], int]:
        values: list[Value] = [TensorValue(s, e) for s, e in zip(states, elements)]
        values += [TensorValue(p, str(node.info_of(p).dtype)) for p in parts]
        made = graph.run(body, values)
        _check(node, made)
        rows[:] = [v.element for v in made[len(elements) :] if isinstance(v, TensorValue)]
        return [graph.expression(v) for v in made], len(elements)

    leaves = [graph.expression(v) for v in given]
    states, gathered = emit_scan(node, scan, leaves, step)
    return [
        *[TensorValue(s, e) for s, e in zip(states, elements)],
        *[TensorValue(g, e) for g, e in zip(gathered, rows)],
    ]


def _place_axis(node: Node, value: Value, axis: int, backwards: bool) -> Value:
    """Bring what was gathered along the first axis to another one."""
    assert isinstance(value, TensorValue)
    x = node.graph.expression(value)
    if backwards:
        x = node.emit(op.flip(x, 0))
    rank = len(node.dims_of(x))
    axis = node.count_axis(axis, rank)
    if axis:
        order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
        x = node.emit(op.permute_dims(x, order))
    return TensorValue(x, value.element)


def _scan_of_batches(node: Node, body: GraphDef, count: int) -> list[Value]:
    """Scan each item of a batch, as the first version of the operator does."""
    if node.has(0):
        raise node.refuse("its sequences have different lengths")
    first = len(node) - count
    batch = node.dims(first)[0]
    if not isinstance(batch, int):
        raise node.refuse("it scans a batch of unknown size")
    columns: list[list[Value]] = []
    for k in range(batch):
        slices = [item(node, node[i], 0, k) for i in range(1, len(node))]
        values = [TensorValue(s, str(node.info_of(s).dtype)) for s in slices]
        made = _unroll_scan(node, body, [*values[: first - 1]], slices[first - 1 :])
        columns.append(made)
    return [_stack(node, column, 0) for column in zip(*columns)]


ROWS: Final[tuple[Row, ...]] = (
    row("If", _if, small=True),
    row("Loop", _loop, small=True, note="sequences that are kept for an unknown number of steps"),
    row("Scan", _scan, small=True, note="batches (version 8) whose size is not known"),
)
