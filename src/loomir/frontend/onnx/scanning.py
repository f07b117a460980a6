"""Loops over an axis of tensors, with a trip count that is known only at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loomir.frontend import loops
from loomir.frontend.loops import LoopMistake, ScanInputs
from loomir.frontend.onnx.mistakes import NeedsBranches
from loomir.frontend.onnx.node import Node
from loomir.relax.node import RelaxExpr

__all__ = ["MOST_UNROLLED", "ScanInputs", "emit_scan"]

MOST_UNROLLED: Final = 32
"""Steps of the longest loop that is unrolled: passes see through it, at a cost for each step."""


def emit_scan(
    node: Node,
    scan: ScanInputs,
    states: Sequence[RelaxExpr],
    body: Callable[[list[RelaxExpr], list[RelaxExpr]], tuple[list[RelaxExpr], int]],
) -> tuple[list[RelaxExpr], list[RelaxExpr]]:
    """Emit a scan in the place of a node, as ``loops.emit_scan`` does."""
    if node.graph.dataflow:
        raise NeedsBranches
    try:
        return loops.emit_scan(node.graph, scan, states, body)
    except LoopMistake as error:
        raise node.refuse(str(error)) from error
