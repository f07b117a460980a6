"""Divide iterator maps into a part over outer loops and a part over inner loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, mul
from loomir.arith.iterators.digits import Chain, Digit, Mark
from loomir.arith.iterators.expr import IterMark, normalize_iter_map_to_expr
from loomir.arith.iterators.map import CheckLevel, Writer, detect_chains, run_reader
from loomir.arith.iterators.reader import Reader
from loomir.arith.iterators.size import ONE, IterMapError, NotAnIterMap, Poly
from loomir.support.dtype import BOOL
from loomir.tir.buffer import Range
from loomir.tir.expr import GE, LT, And, IntImm, PrimExpr, Var

__all__ = ["DividedIter", "SubspaceDivision", "subspace_divide"]

_ALWAYS = IntImm(1, BOOL)


@dataclass(frozen=True, eq=False)
class DividedIter:
    """``base + scale * (outer * inner.extent + inner)``, each mark over its own loops only."""

    outer: IterMark
    inner: IterMark
    scale: PrimExpr
    base: PrimExpr

    def value(self) -> PrimExpr:
        """Write both parts as one expression."""
        outer, inner = (normalize_iter_map_to_expr(part) for part in (self.outer, self.inner))
        made = mul(outer, self.inner.extent)
        made = inner if _is_zero(made) else made if _is_zero(inner) else add(made, inner)
        return add(mul(made, self.scale), self.base)


class SubspaceDivision(NamedTuple):
    """The result of ``subspace_divide``: parts of bindings and of the predicate, or errors."""

    parts: tuple[DividedIter, ...]
    outer_predicate: PrimExpr
    inner_predicate: PrimExpr
    errors: tuple[IterMapError, ...]

    @property
    def ok(self) -> bool:
        """Whether the bindings can be divided."""
        return not self.errors


def _is_zero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 0


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    sub_iters: Iterable[Var],
    predicate: PrimExpr | bool = True,
    *,
    check_level: CheckLevel = "surjective",
    analyzer: Analyzer | None = None,
) -> SubspaceDivision:
    """Divide bindings into outer parts, and inner parts over ``sub_iters`` only.

    The bindings must be an iterator map in which inner digits are below outer ones, and no
    condition may relate outer to inner iterators. Never raises for any bindings.
    """
    inner = {id(var) for var in sub_iters}

    def divide(reader: Reader, exprs: Sequence[PrimExpr]) -> SubspaceDivision:
        found = detect_chains(reader, exprs, check_level)
        divider = _Divider(inner, Writer(reader))
        outer_limit, inner_limit = divider.limits(reader.digits.limited)
        parts = tuple(
            divider.divide(chain, base, binding)
            for (chain, base), binding in zip(found.chains, exprs)
        )
        return SubspaceDivision(parts, outer_limit, inner_limit, ())

    try:
        return run_reader(bindings, input_iters, predicate, analyzer, divide)
    except NotAnIterMap as refused:
        return SubspaceDivision((), _ALWAYS, _ALWAYS, (refused.error,))


class _Divider:
    def __init__(self, inner: set[int], writer: Writer) -> None:
        self._inner = inner
        self._writer = writer
        self._sides: dict[int, bool | None] = {}

    def _is_inner(self, mark: Mark) -> bool | None:
        """Tell whether a mark is inner; None if it has inner and outer parts."""
        stack = [mark]
        while stack:
            top = stack[-1]
            missing = [part.mark for part in top.parts if id(part.mark) not in self._sides]
            if missing:
                stack += missing
                continue
            stack.pop()
            sides = {self._sides[id(part.mark)] for part in top.parts}
            if top.var is not None:
                sides = {id(top.var) in self._inner}
            self._sides[id(top)] = sides.pop() if len(sides) == 1 else None
        return self._sides[id(mark)]

    def limits(self, marks: Sequence[Mark]) -> tuple[PrimExpr, PrimExpr]:
        """Write the limits of outer and of inner iterators."""
        made: dict[bool, PrimExpr] = {False: _ALWAYS, True: _ALWAYS}
        for mark in marks:
            side = self._is_inner(mark)
            if side is None:
                raise NotAnIterMap(
                    "a condition ties outer to inner iterators",
                    normalize_iter_map_to_expr(self._writer.mark(mark)),
                )
            written = self._writer.mark(mark)
            value = normalize_iter_map_to_expr(written)
            test: PrimExpr = LT(value, written.extent)
            if mark.shift:
                test = And(GE(value, IntImm(0, value.dtype)), test)
            known = made[side]
            made[side] = test if known is _ALWAYS else And(known, test)
        return made[False], made[True]

    def divide(self, chain: Chain, base: Poly, binding: PrimExpr) -> DividedIter:
        """Divide one binding."""
        inner: list[Digit] = []
        outer: list[Digit] = []
        for digit in chain.digits:
            side = self._is_inner(digit.mark)
            if side is None:
                raise NotAnIterMap("an iterator fuses outer and inner ones", binding)
            if side and outer:
                raise NotAnIterMap("an inner iterator stands above an outer one", binding)
            (inner if side else outer).append(digit)
        return DividedIter(
            self._side(outer),
            self._side(inner),
            self._writer.size(chain.scale),
            self._writer.sum((), base).base,
        )

    def _side(self, digits: Sequence[Digit]) -> IterMark:
        if not digits:
            return IterMark(self._writer.sum((), {}), self._writer.size(ONE))
        return self._writer.fuse(digits)
