"""Make an analyzer that knows the ranges and values of a function's variables."""

from __future__ import annotations

from loomir.arith import Analyzer
from loomir.ir.visit import nodes_outside
from loomir.loops.ranges import bind_loops
from loomir.tir.expr import PrimExpr
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For, LetStmt

__all__ = ["make_analyzer"]


def make_analyzer(func: PrimFunc) -> Analyzer:
    """Make an analyzer that knows the bounds of variables, outer ones first."""
    analyzer = Analyzer()
    for part in nodes_outside(func.body, PrimExpr):
        if isinstance(part, For):
            bind_loops(analyzer, [part])
        elif isinstance(part, LetStmt) and part.var.dtype.is_integer and part.var.dtype.lanes == 1:
            analyzer.know_equal(part.var, part.value)
    return analyzer
