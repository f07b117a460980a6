"""Prove equality of extents, with three answers: certain, impossible, or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Final, TypeAlias

from loomir.arith.analyzer import Analyzer
from loomir.ir.equality import structural_equal
from loomir.ir.node import Node
from loomir.ir.visit import by_class
from loomir.relax.node import Expr
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import ShapeStructInfo, TensorStructInfo
from loomir.tir.expr import NE, IntImm, PrimExpr, Var

__all__ = [
    "EXTENT_LIMIT",
    "Match",
    "ShapeVars",
    "analyzer_for",
    "assume_extents",
    "compare_pairs",
    "dims_equal",
    "dims_of",
    "equal",
    "shape_vars_in",
    "shapes_equal",
]

EXTENT_LIMIT: Final = 1 << 40
"""A bound above every extent: a tensor with an axis of this length would fit no memory."""

ShapeVars: TypeAlias = AbstractSet[Var]


class Match(Enum):
    """How sure it is that a relation holds: never, not known, always."""

    NO = 0
    MAYBE = 1
    YES = 2

    def __and__(self, other: Match) -> Match:
        """Return how sure it is that both relations hold."""
        return self if self.value <= other.value else other


def shape_vars_in(root: Node) -> list[Var]:
    """List the shape variables that occur, each once, also in the parameters of functions.

    If a variable stands for a tensor's shape, those in its known value count too.
    """
    groups = by_class(root)
    found: list[Var] = list(groups.get(Var, ()))
    for info in groups.get(TensorStructInfo, ()):
        if info.shape is not None and info.shape.is_definition:
            for dim in info.dims or ():
                found += by_class(dim).get(Var, ())
    return list(dict.fromkeys(found))


def _lone_extents(root: Node) -> Iterator[Var]:
    """List the variables that are an extent of a tensor or a shape."""
    groups = by_class(root)
    rows: list[tuple[PrimExpr, ...]] = [shape.values for shape in groups.get(ShapeExpr, ())]
    rows += [info.values or () for info in groups.get(ShapeStructInfo, ())]
    rows += [info.dims or () for info in groups.get(TensorStructInfo, ())]
    for row in rows:
        for dim in row:
            if isinstance(dim, Var):
                yield dim


def assume_extents(analyzer: Analyzer, roots: Iterable[Node]) -> None:
    """Tell the analyzer that variables which are an extent by themselves are not negative."""
    for var in dict.fromkeys(var for root in roots for var in _lone_extents(root)):
        analyzer.assume_size(var, EXTENT_LIMIT)


def analyzer_for(*roots: Node) -> Analyzer:
    """Make an analyzer that knows that extents are not negative."""
    made = Analyzer()
    assume_extents(made, roots)
    return made


def equal(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> Match:
    """Tell whether two scalars have the same value for all values of their variables."""
    if a is b:
        return Match.YES
    if a.dtype is not b.dtype:
        return Match.NO
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return Match.YES if a.value == b.value else Match.NO
    if analyzer.can_prove_equal(a, b) or structural_equal(a, b):
        return Match.YES
    return Match.NO if _differ(a, b, analyzer) else Match.MAYBE


def _differ(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> bool:
    """Tell whether two scalars are certain to differ."""
    if analyzer.can_prove(NE(a, b)):
        return True
    if not a.dtype.is_integer or a.dtype.is_bool:
        return False
    gap = a - b
    low, high = analyzer.const_int_bound(gap)
    if low > 0 or high < 0:
        return True
    return analyzer.modular_set(gap).base != 0


def dims_equal(a: Sequence[PrimExpr], b: Sequence[PrimExpr], analyzer: Analyzer) -> Match:
    """Tell whether two lists of extents are the same."""
    if len(a) != len(b):
        return Match.NO
    return compare_pairs(zip(a, b), analyzer)


def compare_pairs(pairs: Iterable[tuple[PrimExpr, PrimExpr]], analyzer: Analyzer) -> Match:
    """Tell whether the scalars of every pair are equal."""
    result = Match.YES
    for a, b in pairs:
        result &= equal(a, b, analyzer)
        if result is Match.NO:
            break
    return result


def dims_of(shape: Expr | None) -> tuple[PrimExpr, ...] | None:
    """Return the extents of a tensor's shape, None if they are not known."""
    if isinstance(shape, ShapeExpr):
        return shape.values
    info: Any = getattr(shape, "struct_info_annotation", None)
    return info.values if isinstance(info, ShapeStructInfo) else None


def shapes_equal(a: Expr, b: Expr, analyzer: Analyzer) -> Match:
    """Compare shapes: variables by identity, or else by the extents that they are known to hold."""
    if a is b:
        return Match.YES
    first, second = dims_of(a), dims_of(b)
    if first is None or second is None:
        return Match.MAYBE
    return dims_equal(first, second, analyzer)
