"""Prove in which orders elements may be selected, by trying all orders of a few values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from loomir.ir.visit import fold, rewrite
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Call,
    Eq,
    FloatImm,
    IntImm,
    Not,
    Or,
    PrimExpr,
    Var,
    const,
)

__all__ = ["TESTS", "is_order_free", "keep_before_later"]

TESTS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    Eq: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
    And: np.logical_and,
    Or: np.logical_or,
}
"""The comparisons and connectives of conditions."""

_Columns = tuple[npt.NDArray[np.float64], ...]


def is_order_free(
    keep: PrimExpr, old: Sequence[Var], new: Sequence[Var], starts: Sequence[PrimExpr]
) -> bool:
    """Prove that elements and the initial value may be selected in any order and grouping.

    Three elements have three different values at most, and any two of them some order around the
    initial value, which 0 stands for here.
    """

    def choose(a: _Columns, b: _Columns) -> _Columns:
        stays = _value(keep, dict(zip((*old, *new), (*a, *b))))
        return tuple(np.where(stays, x, y) for x, y in zip(a, b))

    def agree(a: _Columns, b: _Columns) -> bool:
        return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b))

    def joins(*parts: _Columns) -> bool:
        sizes = [len(part[0]) for part in parts]
        places = np.meshgrid(*map(np.arange, sizes), indexing="ij")
        a, b, c = (tuple(x[p.ravel()] for x in part) for part, p in zip(parts, places))
        grouped = agree(choose(choose(a, b), c), choose(a, choose(b, c)))
        return grouped and agree(choose(a, b), choose(b, a))

    def grid(values: Sequence[float]) -> _Columns:
        sides = [[*values, np.nan] if v.dtype.is_float else [*values] for v in old]
        return tuple(part.ravel() for part in np.meshgrid(*sides, indexing="ij"))

    any_three, around = grid([1.0, 2.0, 3.0]), grid([-2.0, -1.0, 0.0, 1.0, 2.0])
    nan = [isinstance(s, FloatImm) and s.value != s.value for s in starts]
    start: _Columns = tuple(np.array([np.nan if n else 0.0]) for n in nan)
    cases = [(any_three,) * 3, (start, around, around), (around, start, around)]
    return all(joins(*case) for case in (*cases, (around, around, start)))


def _value(keep: PrimExpr, known: Mapping[Var, npt.NDArray[np.float64]]) -> Any:
    def evaluate(node: Any, parts: list[Any]) -> Any:
        if isinstance(node, Var):
            return known[node]
        if isinstance(node, IntImm):
            return np.bool_(node.value)
        if isinstance(node, Not):
            return np.logical_not(parts[0])
        if isinstance(node, Call):
            return np.isnan(parts[0])
        return TESTS[type(node)](parts[0], parts[1])

    return fold(keep, evaluate)


def keep_before_later(
    keep: PrimExpr, old: Sequence[Var], new: Sequence[Var], place: int
) -> PrimExpr:
    """Simplify a condition for elements of which the next one has the greater index.

    ``place`` is the number of the index, which the result no longer mentions; there are two parts.
    """
    first, second = old[place], new[place]

    def know(e: Any) -> PrimExpr:
        if {e.a, e.b} != {first, second}:
            return e
        return const(bool(TESTS[type(e)](*((0, 1) if e.a is first else (1, 0)))), "bool")

    made = rewrite(keep, dict.fromkeys((Eq, NE, LT, LE, GT, GE), know))
    a, b = old[1 - place], new[1 - place]
    values = [1.0, 2.0, *([np.nan] if a.dtype.is_float else [])]
    sides = np.meshgrid(values, values, indexing="ij")
    known = dict(zip((a, b), (side.ravel() for side in sides)))
    wanted = _value(made, known)
    plain: list[PrimExpr] = [test(a, b) for test in (GT, GE, LT, LE)]
    if a.dtype.is_float:
        lost = call_builtin("isnan", a)
        plain += [*(Not(test) for test in plain), *(Or(test, lost) for test in plain)]
    return next((e for e in plain if np.array_equal(_value(e, known), wanted)), made)
