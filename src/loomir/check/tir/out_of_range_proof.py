"""Prove an access out of bounds by a point of the loops around it.

A point has a value for each loop: an end of its range, or a value at which a condition around the
access changes. Unknown sizes stand for all of their values: if a loop over such a size runs at all,
the size counts as large enough for the point.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from loomir.check.tir.affine import Affine, Atom, Sum, show
from loomir.check.tir.conditions import Guard, conjuncts, read_less_equal
from loomir.support.diagnostics import Diagnostic
from loomir.support.span import Span
from loomir.tir.buffer import Buffer
from loomir.tir.expr import NE, Eq, IntImm, PrimExpr, Var

__all__ = ["Element", "EnclosingScope", "Fault", "Loop", "Proof"]

_MOST_POINTS: Final = 64
"""Corners of the loops around an access that are tried; a bound on time, not tuned."""
_ONE: Final = Sum({}, 1)


class _Condition(NamedTuple):
    """An integer comparison, ``small + slack <= large``; ``gap`` is what is left between them."""

    small: PrimExpr
    large: PrimExpr
    slack: int
    gap: Sum


class Loop(NamedTuple):
    """A loop whose variable is not known to have one value only."""

    atom: Atom
    first: Sum
    extent: Sum
    variable: Var

    @property
    def last(self) -> Sum:
        """The greatest value of the variable, where the loop runs."""
        return self.first.plus(self.extent).plus(_ONE, -1)


class EnclosingScope(NamedTuple):
    """The surroundings of a statement, as a list linked from the inside out."""

    outer: EnclosingScope | None
    what: Loop | Guard


class Element(NamedTuple):
    """An element at an index; for a vector, the first or the last lane."""

    base: PrimExpr
    offset: int


@dataclass
class Fault:
    """A point at which an element is outside of its axis."""

    value: Sum
    length: Sum
    span: tuple[Sum, Sum]
    point: list[tuple[str, Sum]]

    def diagnostic(self, buffer: Buffer, axis: int, where: Span | None) -> Diagnostic:
        """Describe the mistake, with the ranges of the index and of the axis."""
        end = self.length.plus(_ONE, -1)
        low, high = self.span
        at = " and ".join(f"{name} is {show(value)}" for name, value in self.point)
        range_ = f"is {show(low)}" if low == high else f"goes from {show(low)} to {show(high)}"
        empty = self.length.is_constant and self.length.constant <= 0
        return Diagnostic(
            "TIR0421",
            f"index {show(self.value)} is outside of axis {axis} of {buffer.called}",
            where,
            f"the index {range_}, the axis "
            + ("has no elements" if empty else f"from 0 to {show(end)}"),
            notes=(f"this is reached where {at}",) if at else (),
            help="let the loops end where the axis does, or guard the access with `if`",
        )


@dataclass
class Proof:
    """The search for a point of the loops around an access."""

    affine: Affine
    around: EnclosingScope | None
    loops: list[Loop] = field(default_factory=list[Loop])
    guards: list[Guard] = field(default_factory=list[Guard])
    least: dict[Atom, int] = field(default_factory=dict[Atom, int])
    reached: dict[frozenset[Atom], tuple[frozenset[Atom], list[dict[Atom, Sum]]]] = field(
        default_factory=dict[Any, Any]
    )

    def __post_init__(self) -> None:
        link = self.around
        while link is not None:
            if isinstance(link.what, Loop):
                self.loops.append(link.what)
            else:
                self.guards.append(link.what)
            link = link.outer
        self.loops.reverse()
        for loop in self.loops:
            self._assume_running(loop.extent)

    def _assume_running(self, extent: Sum) -> None:
        """Note how large a size is where a loop over it runs."""
        if len(extent.terms) == 1 and not extent.loops:
            ((atom, times),) = extent.terms.items()
            if times > 0:
                least = -(-(1 - extent.constant) // times)
                self.least[atom] = max(least, self.least.get(atom, least))

    def fault(self, element: Element, value: Sum, length: Sum) -> Fault | None:
        """Return the first point that proves the access wrong, None if there is none."""
        if self._is_empty(length):
            return None
        used, points = self._points(value.loops | length.loops)
        for point in points:
            at = self._index(element, value, point)
            size = length.with_atoms(point)
            if self._is_least(at.plus(size, -1), 0) or self._is_least(at.times(-1), 1):
                used_names = [
                    (str(loop.atom.name), point[loop.atom])
                    for loop in self.loops
                    if loop.atom in used
                ]
                return Fault(at, size, self._span(at, element, value, points), used_names)
        return None

    def _is_empty(self, length: Sum) -> bool:
        """Tell whether an axis has no elements and a loop may never run, as it must then."""
        known = length.is_constant and length.constant <= 0
        return known and any(not loop.extent.is_constant for loop in self.loops)

    def _points(self, used: frozenset[Atom]) -> tuple[frozenset[Atom], list[dict[Atom, Sum]]]:
        """List the points that are reached, and the loops in which they differ.

        Those are ``used``, and what conditions and other loops depend on. Accesses in the same
        surroundings share them.
        """
        found = self.reached.get(used)
        if found is None:
            found = self.reached[used] = self._find_points(used)
        return found

    def _find_points(self, used: frozenset[Atom]) -> tuple[frozenset[Atom], list[dict[Atom, Sum]]]:
        conditions = self._conditions()
        if conditions is None:
            return used, []
        for condition in conditions:
            used |= condition.gap.loops
        for loop in reversed(self.loops):
            if loop.atom in used:
                used |= loop.first.loops | loop.extent.loops
        choices = [self._values(loop, loop.atom in used, conditions) for loop in self.loops]
        points: list[dict[Atom, Sum]] = []
        for chosen in itertools.islice(itertools.product(*choices), _MOST_POINTS):
            point = self._point(chosen)
            if point is not None and self._is_reached(conditions, point):
                points.append(point)
        return used, points

    def _conditions(self) -> list[_Condition] | None:
        """Read the conditions around the access; None if one cannot be read."""
        found: list[_Condition] = []
        read = self.affine.read

        def add(small: PrimExpr, large: PrimExpr, slack: int) -> None:
            gap = read(large).plus(read(small), -1).plus(Sum({}, -slack))
            found.append(_Condition(small, large, slack, gap))

        for guard in self.guards:
            for condition, negated in conjuncts(guard):
                if isinstance(condition, IntImm):
                    if bool(condition.value) is negated:
                        return None
                    continue
                sides = read_less_equal(condition, negated)
                equal = isinstance(condition, NE) if negated else isinstance(condition, Eq)
                if sides is not None:
                    add(*sides)
                elif equal and isinstance(condition, (Eq, NE)) and condition.a.dtype.is_integer:
                    add(condition.a, condition.b, 0)
                    add(condition.b, condition.a, 0)
                else:
                    return None
        return found

    def _values(self, loop: Loop, is_used: bool, conditions: list[_Condition]) -> list[Sum]:
        """List the values of a loop to try in a proof."""
        if not is_used:
            return [loop.first]
        values = [loop.last, loop.first]
        for gap in (condition.gap for condition in conditions):
            times = gap.terms.get(loop.atom)
            if times is None:
                continue
            rest = Sum({a: t for a, t in gap.terms.items() if a is not loop.atom}, gap.constant)
            if abs(times) == 1:
                turn = rest.times(-times)
            elif rest.is_constant:
                # The last value for which the condition holds, from either side.
                c = rest.constant
                turn = Sum({}, c // -times if times < 0 else -(c // times))
            else:
                continue
            if turn not in values:
                values.append(turn)
        return values

    def _point(self, chosen: tuple[Sum, ...]) -> dict[Atom, Sum] | None:
        """Return the values of loops, from the outermost; None if a loop does not run there."""
        point: dict[Atom, Sum] = {}
        for loop, choice in zip(self.loops, chosen, strict=True):
            value = choice.with_atoms(point)
            extent = loop.extent.with_atoms(point)
            if loop.extent.loops and not self._is_least(extent, 1):
                return None
            if not loop.extent.loops and not extent.terms and extent.constant < 1:
                return None
            if choice is not loop.first and choice != loop.last:
                low = value.plus(loop.first.with_atoms(point), -1)
                high = loop.last.with_atoms(point).plus(value, -1)
                if not (self._is_least(low, 0) and self._is_least(high, 0)):
                    return None
            if any(atom.loops for atom in value.terms):
                return None
            point[loop.atom] = value
        return point

    def _is_reached(self, conditions: list[_Condition], point: dict[Atom, Sum]) -> bool:
        for small, large, slack, gap in conditions:
            left = gap.with_atoms(point)
            if left.loops:
                read = self.affine.variant(point).read
                left = read(large).plus(read(small), -1).plus(Sum({}, -slack))
            if not self._is_least(left, 0):
                return False
        return True

    def _index(self, element: Element, value: Sum, point: dict[Atom, Sum]) -> Sum:
        """Return the index at a point; it is read again if its form depends on the loops."""
        at = value.with_atoms(point)
        if at.loops:
            return self.affine.variant(point).read(element.base).plus(Sum({}, element.offset))
        return at

    def _is_least(self, value: Sum, least: int) -> bool:
        """Tell whether a value is proven to be ``least`` or more."""
        low = value.constant
        for atom, times in value.terms.items():
            known = self.least.get(atom)
            bounds = [b for b in (known, atom.low) if b is not None]
            end = (max(bounds) if bounds else None) if times > 0 else atom.high
            if end is None:
                return False
            low += times * end
        return low >= least

    def _span(
        self, at: Sum, element: Element, value: Sum, points: list[dict[Atom, Sum]]
    ) -> tuple[Sum, Sum]:
        """Return the least and the greatest index at the ends of the loops."""
        low = high = at
        for point in points:
            here = self._index(element, value, point)
            if self._is_least(low.plus(here, -1), 1):
                low = here
            if self._is_least(here.plus(high, -1), 1):
                high = here
        return low, high
