"""Intervals with symbolic ends, such as the region of a buffer that a loop reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from loomir.arith.bounds.interval import Interval
from loomir.arith.fold import add, imm, mul, sub, to_int
from loomir.ir.visit import fold
from loomir.tir.buffer import Range
from loomir.tir.expr import (
    Add,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
)

__all__ = ["IntSet", "set_of"]


class Analyzer(Protocol):
    """The interface of an analyzer that this module uses."""

    def enter(self) -> None:
        """Start a scope."""
        ...

    def exit(self) -> None:
        """End the latest scope."""
        ...

    def is_bound(self, var: Var) -> bool:
        """Tell whether a variable is bound."""
        ...

    def bind(self, var: Var, value: Range) -> None:
        """Bind a variable to a range."""
        ...

    def simplify(self, expr: PrimExpr) -> PrimExpr:
        """Simplify an expression."""
        ...

    def is_exact(self, expr: PrimExpr) -> bool:
        """Tell whether an expression certainly does not wrap."""
        ...

    def interval_of(self, expr: PrimExpr) -> Interval:
        """Bound a scalar integer."""
        ...


class IntSet(NamedTuple):
    """The integers from ``min_value`` to ``max_value``, both inclusive; None for an open end."""

    min_value: PrimExpr | None
    max_value: PrimExpr | None

    @property
    def is_everything(self) -> bool:
        """Whether both ends are open."""
        return self.min_value is None and self.max_value is None


_EVERYTHING: Final = IntSet(None, None)


def set_of(analyzer: Analyzer, expr: PrimExpr, dom_map: Mapping[Var, Range]) -> IntSet:
    """Bound an expression while the variables of ``dom_map`` run over their ranges.

    Only operations that cannot wrap are followed; for others the end is open.
    """
    analyzer.enter()
    try:
        domains = {id(var): (var, domain) for var, domain in dom_map.items()}
        for var, domain in domains.values():
            if not analyzer.is_bound(var):
                analyzer.bind(var, domain)
        reader = _Reader(analyzer, {key: domain for key, (_, domain) in domains.items()})
        found = fold(analyzer.simplify(expr), reader.join)
        return IntSet(reader.finish(found.min_value), reader.finish(found.max_value))
    finally:
        analyzer.exit()


class _Reader:
    """Computes an interval for each node of an expression, bottom-up."""

    def __init__(self, analyzer: Analyzer, domains: Mapping[int, Range]) -> None:
        self.analyzer = analyzer
        self.domains = domains

    def finish(self, end: PrimExpr | None) -> PrimExpr | None:
        """Simplify an end; it becomes open if computing it might wrap."""
        if end is None or not self.analyzer.is_exact(end):
            return None
        return self.analyzer.simplify(end)

    def join(self, e: Any, parts: list[IntSet]) -> IntSet:
        """Return the interval of a node from those of its parts."""
        if not isinstance(e, PrimExpr):
            return _EVERYTHING
        if isinstance(e, Var) and id(e) in self.domains:
            return self._var(e)
        if all(p.min_value is not None and p.min_value is p.max_value for p in parts):
            return IntSet(e, e)  # all operands are invariant
        if not (e.dtype.is_integer and e.dtype.lanes == 1):
            return _EVERYTHING
        rule = _RULES.get(e.__class__)
        if rule is not None and self.analyzer.is_exact(e):
            made = rule(self, e, *parts)
            if made is not None:
                return made
        low, high = self.analyzer.interval_of(e)
        return IntSet(
            imm(low, e.dtype) if low > e.dtype.min_value else None,
            imm(high, e.dtype) if high < e.dtype.max_value else None,
        )

    def _var(self, var: Var) -> IntSet:
        domain = self.domains[id(var)]
        if domain.extent is None:
            return IntSet(domain.min, domain.min)
        first = to_int(domain.min, var.dtype)
        last = add(first, sub(to_int(domain.extent, var.dtype), imm(1, var.dtype)))
        return IntSet(first, last)

    def plus(self, e: Add, a: IntSet, b: IntSet) -> IntSet:
        """Add ends."""
        return IntSet(
            _combine(add, a.min_value, b.min_value), _combine(add, a.max_value, b.max_value)
        )

    def minus(self, e: Sub, a: IntSet, b: IntSet) -> IntSet:
        """Subtract the opposite ends."""
        return IntSet(
            _combine(sub, a.min_value, b.max_value), _combine(sub, a.max_value, b.min_value)
        )

    def times(self, e: Mul, a: IntSet, b: IntSet) -> IntSet | None:
        """Multiply by an invariant factor of known sign."""
        if a.min_value is a.max_value:
            a, b = b, a
        by = b.min_value
        if by is None or by is not b.max_value:
            return None
        low, high = self.analyzer.interval_of(by)
        ends = IntSet(_combine(mul, a.min_value, by), _combine(mul, a.max_value, by))
        if low >= 0:
            return ends
        return IntSet(ends.max_value, ends.min_value) if high <= 0 else None

    def quotient(self, e: FloorDiv, a: IntSet, b: IntSet) -> IntSet | None:
        """Divide ends by an invariant, positive divisor."""
        by = b.min_value
        if by is None or by is not b.max_value or self.analyzer.interval_of(by).low <= 0:
            return None
        return IntSet(_combine(FloorDiv, a.min_value, by), _combine(FloorDiv, a.max_value, by))

    def remainder(self, e: FloorMod, a: IntSet, b: IntSet) -> IntSet | None:
        """Bound a remainder by its divisor."""
        by = b.min_value
        if by is None or by is not b.max_value or self.analyzer.interval_of(by).low <= 0:
            return None
        if isinstance(by, IntImm):
            return None
        one = imm(1, e.dtype)
        return IntSet(imm(0, e.dtype), sub(by, one))

    def extreme(self, e: Min | Max, a: IntSet, b: IntSet) -> IntSet:
        """Take the minimum or maximum of both ends."""
        kind = e.__class__
        return IntSet(
            _combine(kind, a.min_value, b.min_value), _combine(kind, a.max_value, b.max_value)
        )

    def cast(self, e: Cast, a: IntSet) -> IntSet | None:
        """Convert ends that fit the new dtype."""
        if not (e.value.dtype.is_integer and self.analyzer.is_exact(e.value)):
            return None
        interval = self.analyzer.interval_of(e.value)
        if interval.low < e.dtype.min_value or interval.high > e.dtype.max_value:
            return None
        ends = [None if x is None else to_int(x, e.dtype) for x in a]
        return IntSet(ends[0], ends[1])


def _combine(
    make: Callable[[Any, Any], PrimExpr], a: PrimExpr | None, b: PrimExpr | None
) -> PrimExpr | None:
    return None if a is None or b is None else make(a, b)


_RULES: Final[dict[type, Callable[..., IntSet | None]]] = {
    Add: _Reader.plus,
    Sub: _Reader.minus,
    Mul: _Reader.times,
    FloorDiv: _Reader.quotient,
    FloorMod: _Reader.remainder,
    Min: _Reader.extreme,
    Max: _Reader.extreme,
    Cast: _Reader.cast,
}
