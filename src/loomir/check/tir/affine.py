"""Affine forms of integer expressions, for small proofs: a constant plus multiples of atoms.

An atom is a loop variable, another variable, or an expression that is not analysed, of which only
the loops that may change its value are known. ``FloorDiv`` and ``FloorMod`` by a constant are split
if the ranges of atoms allow it.

Sums are over the integers. An expression that may wrap, by the ranges of its atoms, is not
analysed; if ranges are unknown, it is assumed not to wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from loomir.arith.linear_form import add_terms
from loomir.ir.visit import Step, pre_order, trampoline
from loomir.support.dtype import DataType
from loomir.tir.analysis.effects import reads_memory
from loomir.tir.builtins.table import BUILTINS
from loomir.tir.expr import (
    Add,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
    Var,
)

__all__ = ["Affine", "Atom", "Sum", "show"]

_MOST_TERMS: Final = 64
"""Terms beyond which a sum becomes an atom; a bound on time, not tuned."""
_LEVELS: Final = 50
"""How many levels of an expression are read recursively; deeper ones on a stack."""


class Atom:
    """A quantity: its range (``low`` to ``high``, None for unknown) and the loops that change it.

    A loop is an atom that depends on itself. ``name``: its name in messages, or the expression.
    """

    __slots__ = ("high", "loops", "low", "name")

    def __init__(
        self,
        name: object,
        low: int | None = None,
        high: int | None = None,
        loops: frozenset[Atom] | None = None,
    ) -> None:
        self.name = name
        self.low = low
        self.high = high
        self.loops: frozenset[Atom] = frozenset((self,)) if loops is None else loops


class Sum(NamedTuple):
    """``constant`` plus each atom times its factor; no factor is 0.

    Unlike a ``LinearForm`` of ``arith``, it is over the integers, and its atoms have ranges.
    """

    terms: dict[Atom, int]
    constant: int

    @property
    def loops(self) -> frozenset[Atom]:
        """The loops on which the value may depend."""
        found: frozenset[Atom] = frozenset()
        for atom in self.terms:
            found |= atom.loops
        return found

    @property
    def is_constant(self) -> bool:
        """Whether there are no atoms."""
        return not self.terms

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """Return ``self + factor * other``."""
        if not other.terms:
            return Sum(self.terms, self.constant + factor * other.constant)
        terms = add_terms(self.terms, other.terms, factor)
        return Sum(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Sum:
        """Return ``factor * self``."""
        return Sum({}, 0).plus(self, factor) if factor else Sum({}, 0)

    def range(self) -> tuple[int | None, int | None]:
        """Return the least and the greatest value; None for one that is not known."""
        low: int | None = self.constant
        high: int | None = self.constant
        for atom, times in self.terms.items():
            ends = (atom.low, atom.high) if times > 0 else (atom.high, atom.low)
            low = None if low is None or ends[0] is None else low + times * ends[0]
            high = None if high is None or ends[1] is None else high + times * ends[1]
        return low, high

    def divide(self, divisor: int) -> tuple[Sum, Sum] | None:
        """Return quotient and remainder by a positive constant, None if they are not known."""
        whole = {a: t // divisor for a, t in self.terms.items() if t % divisor == 0}
        rest = Sum({a: t for a, t in self.terms.items() if t % divisor}, self.constant % divisor)
        low, high = rest.range()
        if low is None or high is None or low < 0 or high >= divisor:
            return None
        return Sum(whole, self.constant // divisor), rest

    def with_atoms(self, values: dict[Atom, Sum]) -> Sum:
        """Replace atoms by sums."""
        if values.keys().isdisjoint(self.terms):
            return self
        made = Sum({}, self.constant)
        for atom, times in self.terms.items():
            value = values.get(atom)
            made = made.plus(Sum({atom: 1}, 0) if value is None else value, times)
        return made


def show(value: Sum) -> str:
    """Write a sum for a message."""
    parts: list[str] = []
    for atom, times in value.terms.items():
        size = f"{atom.name}" if abs(times) == 1 else f"{abs(times)} * {atom.name}"
        sign = ("- " if parts else "-") if times < 0 else ("+ " if parts else "")
        parts.append(sign + size)
    if value.constant or not parts:
        sign = ("- " if value.constant < 0 else "+ ") if parts else ""
        parts.append(f"{sign}{abs(value.constant) if parts else value.constant}")
    return " ".join(parts)


class Affine:
    """Reads expressions as sums; ``values`` says what variables stand for.

    ``around`` are the loops on which a read of memory may depend.
    """

    def __init__(self) -> None:
        self.values: dict[int, Sum] = {}
        self.around: frozenset[Atom] = frozenset()
        # Atoms of variables that stand for themselves; the variable keeps its id from being reused.
        self._free: dict[int, tuple[Var, Sum]] = {}
        self._of: tuple[Affine, dict[Atom, Sum]] | None = None

    def variant(self, values: dict[Atom, Sum]) -> Affine:
        """Return a reader in which some atoms stand for other sums, valid until a name is added.

        Atoms are replaced only in the expressions that are read: a function may have very many
        names.
        """
        made = Affine()
        made.around = self.around
        made._free = self._free
        made._of = (self, values)
        return made

    def read(self, expr: PrimExpr) -> Sum:
        """Read an expression."""
        return self._read(expr, _LEVELS)

    def _read(self, expr: PrimExpr, levels: int) -> Sum:
        """Read an expression recursively, which is fast, and its deeper levels on a stack."""
        if isinstance(expr, IntImm):
            return Sum({}, expr.value)
        if isinstance(expr, Var):
            return self._check_size(expr, self._var(expr))
        rule = _OF_TWO.get(expr.__class__)
        if rule is None or not levels:
            return trampoline(self._visit(expr))
        both: Any = expr
        made = rule(expr, self._read(both.a, levels - 1), self._read(both.b, levels - 1))
        return self._check_size(expr, made)

    def _unread(self, expr: PrimExpr) -> Sum:
        """Return an expression of a kind that no rule reads as an atom of its own."""
        loops: frozenset[Atom] = frozenset()
        for part in pre_order(expr):
            if isinstance(part, Var):
                loops |= self._var(part).loops
        if reads_memory(expr):
            loops |= self.around
        return Sum({Atom(expr, loops=loops): 1}, 0)

    def _var(self, var: Var) -> Sum:
        known = self._find_known(id(var))
        if known is not None:
            return known
        found = self._free.get(id(var))
        if found is None:
            atom = Atom(var.name_hint, loops=frozenset())
            found = self._free[id(var)] = (var, Sum({atom: 1}, 0))
        return found[1]

    def _find_known(self, var: int) -> Sum | None:
        found = self.values.get(var)
        if found is None and self._of is not None:
            other, values = self._of
            found = other._find_known(var)
            if found is not None:
                found = self.values[var] = found.with_atoms(values)
        return found

    def _visit(self, expr: PrimExpr) -> Step[Sum]:
        both = _OF_TWO.get(expr.__class__)
        if both is not None:
            given: Any = expr
            a = yield self._visit(given.a)
            b = yield self._visit(given.b)
            return self._check_size(expr, both(expr, a, b))
        rule = _RULES.get(expr.__class__)
        if rule is None:
            return self._unread(expr)
        made: Sum = yield rule(self, expr)
        return self._check_size(expr, made)

    def _check_size(self, expr: PrimExpr, made: Sum) -> Sum:
        """Replace a sum that is too long, or may wrap, by an atom."""
        if len(made.terms) > _MOST_TERMS or not _fits(made, expr.dtype):
            return _blend(expr, made)
        return made

    # -- rules -----------------------------------------------------------------------------------
    def int_imm(self, expr: IntImm) -> Step[Sum]:
        """Read a constant."""
        return Sum({}, expr.value)
        yield  # makes this a step

    def var(self, expr: Var) -> Step[Sum]:
        """Read a variable."""
        return self._var(expr)
        yield  # makes this a step

    def cast(self, expr: Cast) -> Step[Sum]:
        """Read a conversion to an integer that holds the value."""
        value = yield self._visit(expr.value)
        if not (expr.dtype.is_integer and expr.value.dtype.is_integer):
            return _blend(expr, value)
        source, target = expr.value.dtype, expr.dtype
        widens = target.min_value <= source.min_value and source.max_value <= target.max_value
        return value if widens else _blend(expr, value)

    def call(self, expr: Call) -> Step[Sum]:
        """Read the argument of ``T.likely``."""
        if expr.op is not BUILTINS["likely"].op:
            return self._unread(expr)
        return (yield self._visit(expr.args[0]))

    def let(self, expr: Let) -> Step[Sum]:
        """Read a body with its variable bound."""
        self.values[id(expr.var)] = yield self._visit(expr.value)
        return (yield self._visit(expr.body))


# -- rules for two operands ------------------------------------------------------------------------
def _add(expr: Any, a: Sum, b: Sum) -> Sum:
    """Read a sum."""
    return a.plus(b)


def _subtract(expr: Any, a: Sum, b: Sum) -> Sum:
    """Read a difference."""
    return a.plus(b, -1)


def _multiply(expr: Any, a: Sum, b: Sum) -> Sum:
    """Read a product with a constant."""
    if b.is_constant:
        return a.times(b.constant)
    return b.times(a.constant) if a.is_constant else _blend(expr, a, b)


def _divide(expr: Any, a: Sum, b: Sum) -> Sum:
    """Read a quotient or remainder by a constant; truncated ones only of nonnegative values."""
    if not b.is_constant or b.constant <= 0:
        return _blend(expr, a, b)
    low, _ = a.range()
    truncates = isinstance(expr, (Div, Mod))
    if truncates and (low is None or low < 0):
        return _blend(expr, a, b)
    found = a.divide(b.constant)
    if found is None:
        if isinstance(expr, (FloorMod, Mod)):
            return _blend(expr, a, b, low=0, high=b.constant - 1)
        least, most = (None if end is None else end // b.constant for end in a.range())
        return _blend(expr, a, b, low=least, high=most)
    return found[0] if isinstance(expr, (FloorDiv, Div)) else found[1]


def _choose(expr: Any, a: Sum, b: Sum) -> Sum:
    """Read the minimum or maximum of two, if ranges determine which one it is."""
    low, high = a.plus(b, -1).range()
    smaller = a if high is not None and high <= 0 else None
    if smaller is None and low is not None and low >= 0:
        smaller = b
    if smaller is None:
        return _blend(expr, a, b, **_choice_range(isinstance(expr, Min), a, b))
    if isinstance(expr, Min):
        return smaller
    return b if smaller is a else a


def _choice_range(least: bool, a: Sum, b: Sum) -> dict[str, int | None]:
    """Return the bounds of the minimum of two sums, or of their maximum."""
    lows, highs = zip(a.range(), b.range(), strict=True)
    choose = min if least else max
    low = [end for end in lows if end is not None]
    high = [end for end in highs if end is not None]
    return {
        "low": choose(low) if len(low) == 2 or (low and not least) else None,
        "high": choose(high) if len(high) == 2 or (high and least) else None,
    }


def _blend(expr: PrimExpr, *parts: Sum, low: int | None = None, high: int | None = None) -> Sum:
    """Return an atom for an unreadable expression; it depends on the loops of its parts."""
    loops: frozenset[Atom] = frozenset()
    for part in parts:
        loops |= part.loops
    return Sum({Atom(expr, low, high, loops): 1}, 0)


def _fits(value: Sum, dtype: DataType) -> bool:
    if not dtype.is_integer or dtype.lanes != 1:
        return dtype.is_bool
    low, high = value.range()
    return (low is None or low >= dtype.min_value) and (high is None or high <= dtype.max_value)


_RULES: Final[dict[type, Callable[[Affine, Any], Step[Sum]]]] = {
    IntImm: Affine.int_imm,
    Var: Affine.var,
    Cast: Affine.cast,
    Call: Affine.call,
    Let: Affine.let,
}

_OF_TWO: Final[dict[type, Callable[[Any, Sum, Sum], Sum]]] = {
    Add: _add,
    Sub: _subtract,
    Mul: _multiply,
    FloorDiv: _divide,
    FloorMod: _divide,
    Div: _divide,
    Mod: _divide,
    Min: _choose,
    Max: _choose,
}
