"""Run Python functions on symbols: every path of the function is followed, and z3 judges each.

A symbol is an integer, or a bit-vector wide enough that the arithmetic of 8-bit operands is exact
in it, which z3 decides where products of two symbols occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import z3

WIDE = 24


class Paths:
    """Follows a function through all branches that symbols can take."""

    def __init__(self, given: list[Any]) -> None:
        self.solver = z3.Solver()
        self.solver.add(*given)
        self.plan: list[bool] = []
        self.taken: list[tuple[bool, bool]] = []  # (way, whether the other way is still open)

    def decide(self, condition: Any) -> bool:
        at = len(self.taken)
        if at < len(self.plan):
            way, open_ = self.plan[at], self.open[at]
        else:
            can = self.solver.check(condition) == z3.sat
            cannot = self.solver.check(z3.Not(condition)) == z3.sat
            way, open_ = can, can and cannot
        self.solver.push()
        self.solver.add(condition if way else z3.Not(condition))
        self.taken.append((way, open_))
        return way

    def run(self, fn: Callable[[], Any]) -> Iterator[Any]:
        """Yield the function's result on each path, with the solver knowing the path."""
        self.open: list[bool] = []
        while True:
            self.taken = []
            yield fn()
            for _ in self.taken:
                self.solver.pop()
            while self.taken and not self.taken[-1][1]:
                self.taken.pop()
            if not self.taken:
                return
            way, _ = self.taken.pop()
            self.plan = [w for w, _ in self.taken] + [not way]
            self.open = [o for _, o in self.taken] + [False]


def floor_divide(a: Any, b: Any) -> Any:
    """Divide towards minus infinity, integers by a constant only.

    z3's own division of integers is Euclidean: it rounds up for a negative divisor.
    """
    if z3.is_int(a):
        return a / b if b.as_long() > 0 else -a / -b
    inexact = z3.And(z3.SRem(a, b) != 0, (a < 0) != (b < 0))
    return z3.If(inexact, a / b - 1, a / b)


def number(value: int, like: Any) -> Any:
    """Return a constant of the sort of another term."""
    return z3.IntVal(value) if z3.is_int(like) else z3.BitVecVal(value, WIDE)


class Symbol:
    """An integer that z3 knows."""

    __slots__ = ("paths", "term")

    def __init__(self, term: Any, paths: Paths) -> None:
        self.term, self.paths = term, paths

    def _with(self, fn: Callable[[Any, Any], Any], other: Any, flip: bool = False) -> Symbol:
        value = other.term if isinstance(other, Symbol) else number(other, self.term)
        a, b = (value, self.term) if flip else (self.term, value)
        return Symbol(fn(a, b), self.paths)

    def __add__(self, other: Any) -> Symbol:
        return self._with(lambda a, b: a + b, other)

    def __sub__(self, other: Any) -> Symbol:
        return self._with(lambda a, b: a - b, other)

    def __rsub__(self, other: Any) -> Symbol:
        return self._with(lambda a, b: a - b, other, flip=True)

    def __mul__(self, other: Any) -> Symbol:
        return self._with(lambda a, b: a * b, other)

    def __floordiv__(self, other: Any) -> Symbol:
        return self._with(floor_divide, other)

    def __mod__(self, other: Any) -> Symbol:
        return self._with(lambda a, b: a - b * floor_divide(a, b), other)

    def __neg__(self) -> Symbol:
        return Symbol(-self.term, self.paths)

    def __abs__(self) -> Symbol:
        return -self if self < 0 else self

    def _test(self, fn: Callable[[Any, Any], Any], other: Any) -> bool:
        return self.paths.decide(self._with(fn, other).term)

    def __lt__(self, other: Any) -> bool:
        return self._test(lambda a, b: a < b, other)

    def __le__(self, other: Any) -> bool:
        return self._test(lambda a, b: a <= b, other)

    def __gt__(self, other: Any) -> bool:
        return self._test(lambda a, b: a > b, other)

    def __ge__(self, other: Any) -> bool:
        return self._test(lambda a, b: a >= b, other)

    def __eq__(self, other: object) -> bool:
        return self._test(lambda a, b: a == b, other)

    def __ne__(self, other: object) -> bool:
        return self._test(lambda a, b: a != b, other)

    def __bool__(self) -> bool:
        return self != 0

    __hash__ = None  # type: ignore[assignment]


def term(value: Any, like: Any) -> Any:
    """Return the term of a symbol or a number."""
    return value.term if isinstance(value, Symbol) else number(value, like)
