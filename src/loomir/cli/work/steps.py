"""Estimate how many interpreter steps a program takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loomir.cli.files.sizes import size_of
from loomir.ir.node import Node
from loomir.ir.visit import children
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.signature import Signature
from loomir.tir.stmt import For, Stmt, While

__all__ = ["steps"]

_ASSUMED: Final = 16
"""The assumed iterations of a loop whose trip count depends on data."""


def steps(func: PrimFunc, signature: Signature, arguments: Sequence[object]) -> float:
    """Count executed statements; extents that depend on data are assumed."""
    env: dict[Var, int] = {}
    for binding in signature.bindings:
        array: Any = arguments[binding.source.parameter]
        if binding.source.what == "shape":
            env[binding.var] = array.shape[binding.source.axis]
    for p, value in zip(signature.parameters, arguments, strict=True):
        if p.buffer is None and isinstance(value, int):
            env[p.var] = value
    total = 0.0
    stack: list[tuple[Node, float]] = [(func.body, 1.0)]
    while stack:
        node, times = stack.pop()
        if isinstance(node, For):
            times *= max(0, _extent(node, env))
        elif isinstance(node, While):
            times *= _ASSUMED
        if isinstance(node, Stmt):
            total += times
            stack.extend((part, times) for part in children(node))
    return total


def _extent(loop: For, env: dict[Var, int]) -> int:
    known = size_of(loop.extent, env)
    return _ASSUMED if known is None else known
