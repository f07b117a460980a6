"""Branches and loops: torch.cond, while_loop, scan and map.

A scan of few steps is unrolled; a longer one, and each while_loop, becomes a recursive function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.loops import LoopMistake, ScanInputs, Step, emit_loop, emit_scan
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.constants import const
from loomir.relax.expr import If, PrimValue, SeqExpr, Tuple, TupleGetItem
from loomir.relax.node import RelaxExpr
from loomir.tir.expr import PrimExpr

__all__ = ["has_control_flow"]

_OPERATORS: Final = ("cond", "map_impl", "scan", "while_loop")
_MOST_UNROLLED: Final = 32
"""Steps of the longest scan that is unrolled."""


def has_control_flow(module: Any) -> bool:
    """Tell whether a graph has branches or loops, which no dataflow block may contain."""
    return any(str(node.target) in _OPERATORS for node in module.graph.nodes)


@register("cond")
def _cond(node: Node) -> list[Any]:
    condition, *branches, operands = [node[i] for i in range(4)]
    if not isinstance(condition, (RelaxExpr, PrimExpr)):
        return node.graph.run_inner(branches[0 if condition else 1], operands)
    chosen = _truth(node, condition)
    builder = node.graph.builder
    made: list[SeqExpr] = []
    count = 0
    depth = len(builder.normalizer.scopes)
    try:
        for body in branches:
            builder.begin_scope()
            leaves = _tensors(node, node.graph.run_inner(body, operands))
            count = len(leaves)
            made.append(builder.end_scope(Tuple(tuple(leaves))))
    finally:
        builder.normalizer.leave_to(depth)
    result = node.emit(If(chosen, made[0], made[1]))
    return [node.emit(TupleGetItem(result, i)) for i in range(count)]


def _truth(node: Node, value: Any) -> RelaxExpr:
    """Return a truth without axes, of what a branch or a loop asks."""
    if isinstance(value, PrimExpr):
        return node.emit(op.full((), PrimValue(value), "bool"))
    if not isinstance(value, RelaxExpr):
        return const(np.array(bool(value)))
    x = node.cast(value, "bool")
    return node.emit(op.reshape(x, ())) if node.dims_of(x) else x


def _tensors(node: Node, values: Sequence[Any]) -> list[RelaxExpr]:
    for value in values:
        if not isinstance(value, RelaxExpr):
            raise node.refuse(
                "it takes or returns a Python number instead of a tensor",
                help="make it a tensor: torch.tensor(0)",
            )
    return list(values)


@register("while_loop")
def _while(node: Node) -> list[RelaxExpr]:
    test, body, carried, more = [node[i] for i in range(4)]
    run = node.graph.run_inner
    states = _tensors(node, carried)

    def asks(now: Sequence[RelaxExpr]) -> RelaxExpr:
        return _truth(node, run(test, [*now, *more])[0])

    def step(now: list[RelaxExpr]) -> Step:
        made = _tensors(node, run(body, [*now, *more]))
        return Step(asks(made), made)

    try:
        return emit_loop(node.graph, asks(states), states, step)[0]
    except LoopMistake as error:
        raise node.refuse(str(error)) from error


@register("scan")
def _scan(node: Node) -> list[RelaxExpr]:
    combine, start, xs, more = [node[i] for i in range(4)]
    states = _tensors(node, start)

    def body(now: list[RelaxExpr], parts: list[RelaxExpr]) -> tuple[list[RelaxExpr], int]:
        made = _tensors(node, node.graph.run_inner(combine, [*now, *parts, *more]))
        return made, len(states)

    return _scan_along(node, states, _tensors(node, xs), body)


@register("map_impl")
def _map(node: Node) -> list[RelaxExpr]:
    function, xs, more = [node[i] for i in range(3)]

    def body(now: list[RelaxExpr], parts: list[RelaxExpr]) -> tuple[list[RelaxExpr], int]:
        return _tensors(node, node.graph.run_inner(function, [*parts, *more])), 0

    return _scan_along(node, [], _tensors(node, xs), body)


def _scan_along(
    node: Node,
    states: list[RelaxExpr],
    xs: list[RelaxExpr],
    body: Callable[[list[RelaxExpr], list[RelaxExpr]], tuple[list[RelaxExpr], int]],
) -> list[RelaxExpr]:
    """Make steps along the first axis, and return the last states and what the steps give."""
    length = node.dims_of(xs[0])[0]
    if not isinstance(length, int) or not 0 < length <= _MOST_UNROLLED:
        try:
            ends, rows = emit_scan(
                node.graph, ScanInputs(length, [(x, 0, False) for x in xs]), states, body
            )
        except LoopMistake as error:
            raise node.refuse(str(error)) from error
        return [*ends, *rows]
    gathered: list[list[RelaxExpr]] = []
    for k in range(length):
        at = const(np.array(k, "int64"))
        made, count = body(states, [node.emit(op.take(x, at, 0)) for x in xs])
        states = made[:count]
        gathered.append(made[count:])
    return [*states, *[node.emit(op.stack(list(rows), 0)) for rows in zip(*gathered)]]
