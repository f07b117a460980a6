"""Steps along an axis of tensors, as a loop: how many there are is known when it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from loomir import op
from loomir.frontend.loops import LoopMistake, Step, emit_loop
from loomir.frontend.onnx.mistakes import NeedsBranches
from loomir.frontend.onnx.node import Node
from loomir.relax.constants import const
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr
from loomir.relax.shape import INT64, ShapeExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import const as number

__all__ = ["MOST_UNROLLED", "Scanned", "emit_scan"]

MOST_UNROLLED: Final = 32
"""Steps of the longest loop that is unrolled: passes see through it, at a cost for each step."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a scan goes along: tensors with their axes, and whether from the end on."""

    length: Any
    inputs: Sequence[tuple[RelaxExpr, int, Any]]


_Body = Callable[[list[RelaxExpr], list[RelaxExpr]], tuple[list[RelaxExpr], int]]


def emit_scan(
    node: Node, scan: Scanned, states: Sequence[RelaxExpr], body: _Body
) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
    """Emit a scan, and return the last states and what its steps give, along the first axis.

    ``body`` is given states and the slices of a step, and returns new states with what is gathered
    behind them, and how many of these are states.
    """
    if node.graph.dataflow:
        raise NeedsBranches
    length = _as_tensor(node, scan.length)
    start = const(np.array(0, "int64"))
    one = const(np.array(1, "int64"))
    last = node.emit(op.subtract(length, one))

    def step(now: list[RelaxExpr]) -> Step:
        at, *kept = now
        back = node.emit(op.subtract(last, at)) if any(d for *_, d in scan.inputs) else at
        parts: list[RelaxExpr] = [
            node.emit(op.take(x, back if direction else at, axis))
            for x, axis, direction in scan.inputs
        ]
        made, count = body(kept, parts)
        after = node.emit(op.add(at, one))
        more = node.emit(op.less(after, length))
        return Step(more, [after, *made[:count]], made[count:])

    goes_on = node.emit(op.less(start, length))
    try:
        ends, rows = emit_loop(node.graph, goes_on, [start, *states], step)
    except LoopMistake as error:
        raise node.unsupported(str(error)) from error
    return ends[1:], [_of_length(node, r, scan.length) for r in rows]


def _as_tensor(node: Node, extent: Any) -> RelaxExpr:
    if isinstance(extent, PrimExpr):
        return node.emit(op.full((), PrimValue(extent), "int64"))
    return const(np.array(extent, "int64"))


def _of_length(node: Node, rows: RelaxExpr, length: Any) -> RelaxExpr:
    dims = (node.info_of(rows).dims or ())[1:]
    extent = length if isinstance(length, PrimExpr) else number(int(length), INT64)
    info = TensorStructInfo(ShapeExpr((extent, *dims)), node.info_of(rows).dtype)
    return node.graph.builder.match_cast(rows, info)
