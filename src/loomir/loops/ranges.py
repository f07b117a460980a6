"""Find the ranges of loop variables and of symbolic sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import imm
from loomir.ir.visit import children
from loomir.tir.buffer import Range
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, BlockRealize, For, Stmt

__all__ = [
    "analyzer_for",
    "bind_loops",
    "domains",
    "find_size_ranges",
    "loop_range",
    "positive_extents",
    "ranges_in",
]

_LARGEST: Final = (1 << 31) - (1 << 16)
_INDEX_BITS: Final = 32


def analyzer_for(ranges: Mapping[Var, Range]) -> Analyzer:
    """Return an analyzer that knows ranges of variables."""
    analyzer = Analyzer()
    for var, r in ranges.items():
        analyzer.bind(var, r)
    return analyzer


def loop_range(loop: For) -> Range:
    """Return the range of a loop's variable."""
    return Range(loop.min, loop.extent)


def bind_loops(analyzer: Analyzer, loops: Iterable[For]) -> None:
    """Tell an analyzer the ranges of loops, outer ones first, but for what it knows already."""
    for loop in loops:
        if not analyzer.is_bound(loop.loop_var):
            analyzer.bind(loop.loop_var, loop_range(loop))


def domains(block: Block) -> dict[Var, Range]:
    """Return the domains of a block's iterators."""
    return {it.var: it.dom for it in block.iter_vars if it.dom is not None}


def ranges_in(stmt: Stmt) -> dict[Var, Range]:
    """Return the ranges of the loops of a statement that are outside of its blocks."""
    found: dict[Var, Range] = {}
    stack: list[Stmt] = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, For):
            found[node.loop_var] = loop_range(node)
        if not isinstance(node, BlockRealize):
            stack.extend(part for part in reversed(children(node)) if isinstance(part, Stmt))
    return found


def find_size_ranges(func: PrimFunc) -> dict[Var, Range]:
    """Return the ranges of the variables that are extents of parameters of a function."""
    return {
        e: Range(imm(0, e.dtype), imm(_LARGEST, e.dtype))
        for buffer in func.buffer_map.values()
        for e in buffer.shape
        if isinstance(e, Var) and e.dtype.bits >= _INDEX_BITS
    }


def positive_extents(ranges: Mapping[Var, Range]) -> dict[Var, Range]:
    """Return the ranges of variables that are extents, where there is a point within them all."""
    return {
        e: Range(imm(1, e.dtype), imm(_LARGEST, e.dtype))
        for r in ranges.values()
        if isinstance(e := r.extent, Var) and e.dtype.bits >= _INDEX_BITS
    }
