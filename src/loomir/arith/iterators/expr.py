"""Quasi-affine iterators: the nodes of analysed index expressions.

A mark is an iterator that counts from 0: a loop, or several fused loops. A split is one digit of a
mark, ``source // lower_factor % extent``, times a scale. A sum adds splits and a base.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from loomir.arith.fold import add, mul, sub
from loomir.ir.visit import Step, trampoline
from loomir.tir.expr import Cast, FloorDiv, FloorMod, IntImm, PrimExpr, Sub, Var

__all__ = [
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "is_number",
    "is_top",
    "marks_of",
    "normalize_iter_map_to_expr",
    "variable_of",
]


@dataclass(frozen=True, eq=False)
class IterMark:
    """An iterator over ``[0, extent)`` whose value is ``source``; two marks are never the same.

    The source is a variable, a variable minus its first value, or a sum of splits.
    """

    source: PrimExpr | IterSumExpr
    extent: PrimExpr

    def __str__(self) -> str:
        return f"IterMark({self.source}, extent={self.extent})"


@dataclass(frozen=True)
class IterSplitExpr:
    """``source // lower_factor % extent * scale``.

    ``top``: it is the top of the source, so that the remainder changes nothing.
    """

    source: IterMark
    lower_factor: PrimExpr
    extent: PrimExpr
    scale: PrimExpr
    top: bool = field(default=False, kw_only=True, compare=False, repr=False)

    def __str__(self) -> str:
        return str(normalize_iter_map_to_expr(self))


@dataclass(frozen=True)
class IterSumExpr:
    """The sum of splits, in order of decreasing scale, and a base without iterators."""

    args: tuple[IterSplitExpr, ...]
    base: PrimExpr

    def __str__(self) -> str:
        return str(normalize_iter_map_to_expr(self))


def marks_of(sums: tuple[IterSumExpr, ...]) -> list[IterMark]:
    """List the marks in sums, each before the marks of its source."""
    found: list[IterMark] = []
    opened: set[int] = set()
    stack = [(split.source, False) for e in reversed(sums) for split in reversed(e.args)]
    while stack:
        mark, left = stack.pop()
        if left:
            found.append(mark)
        elif id(mark) not in opened:
            opened.add(id(mark))
            stack.append((mark, True))
            if isinstance(mark.source, IterSumExpr):
                stack += [(split.source, False) for split in reversed(mark.source.args)]
    found.reverse()
    return found


def variable_of(mark: IterMark) -> tuple[Var, PrimExpr | None] | None:
    """Return the variable that a mark counts, and its first value if that is not 0."""
    source, first = mark.source, None
    if isinstance(source, Sub):
        source, first = source.a, source.b
    if isinstance(source, Cast):
        source = source.value
    return (source, first) if isinstance(source, Var) else None


def normalize_iter_map_to_expr(
    e: PrimExpr | IterSumExpr | IterSplitExpr | IterMark,
) -> PrimExpr:
    """Write marks, splits and sums as an expression, without redundant operations."""
    if isinstance(e, PrimExpr):
        return e
    return trampoline(_Writer().visit(e))


class _Writer:
    def __init__(self) -> None:
        self._marks: dict[int, PrimExpr] = {}

    def visit(self, e: PrimExpr | IterSumExpr | IterSplitExpr | IterMark) -> Step[PrimExpr]:
        """Write one value; a mark that occurs several times is written once."""
        if isinstance(e, IterMark):
            made = self._marks.get(id(e))
            if made is None:
                made = self._marks[id(e)] = yield self.visit(e.source)
            return made
        if isinstance(e, IterSplitExpr):
            return (yield self._write_split(e))
        if isinstance(e, IterSumExpr):
            made = None
            for arg in e.args:
                part = yield self.visit(arg)
                made = part if made is None else add(made, part)
            if made is None:
                return e.base
            return add_base(made, e.base)
        return e

    def _write_split(self, e: IterSplitExpr) -> Step[PrimExpr]:
        made = yield self.visit(e.source)
        if not is_number(e.lower_factor, 1):
            made = FloorDiv(made, e.lower_factor)
        if not is_top(e):
            made = FloorMod(made, e.extent)
        return mul(made, e.scale)


def add_base(value: PrimExpr, base: PrimExpr) -> PrimExpr:
    """Add a base; a negative number is subtracted."""
    if isinstance(base, IntImm) and base.dtype.min_value < base.value < 0:
        return sub(value, IntImm(-base.value, base.dtype))
    return add(value, base)


def is_number(e: PrimExpr, value: int) -> bool:
    """Tell whether an expression is a given constant."""
    return isinstance(e, IntImm) and e.value == value


def is_top(e: IterSplitExpr) -> bool:
    """Tell whether a split is the top of its source."""
    whole, lower, extent = e.source.extent, e.lower_factor, e.extent
    if isinstance(whole, IntImm) and isinstance(lower, IntImm) and isinstance(extent, IntImm):
        return lower.value * extent.value >= whole.value
    return e.top
