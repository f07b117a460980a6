"""Extents and factors of iterators: a number times symbols, with exact division.

A symbol is an expression without iterators that is not analysed further. Its known residue class
becomes part of the number: if ``n`` is a multiple of 4, it is ``4 * (n // 4)``, so that a division
by 4 divides numbers.
"""

from __future__ import annotations

from math import gcd
from typing import Any, Final, NamedTuple, TypeAlias

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, imm, mul, sub, to_int
from loomir.arith.linear_form import add_terms
from loomir.ir.visit import fold
from loomir.support.dtype import DataType
from loomir.tir.analysis.effects import Effects
from loomir.tir.expr import Add, Cast, FloorDiv, IntImm, Mul, PrimExpr, Sub

__all__ = ["ONE", "ZERO", "IterMapError", "NotAnIterMap", "Poly", "Size", "Sizes", "holds"]

Atoms: TypeAlias = "tuple[int, ...]"
Poly: TypeAlias = "dict[Atoms, int]"
"""A sum: each product of symbols with its factor; no factor is 0."""


class IterMapError(NamedTuple):
    """The reason why expressions form no iterator map, and the offending part."""

    message: str
    expr: PrimExpr | None = None

    def __str__(self) -> str:
        return self.message if self.expr is None else f"{self.message}: {self.expr}"


class NotAnIterMap(Exception):
    """Raised internally for expressions that form no iterator map; it never reaches users."""

    def __init__(self, message: str, expr: PrimExpr | None = None) -> None:
        super().__init__(message)
        self.error = IterMapError(message, expr)


class Size(NamedTuple):
    """A number times symbols, which are sorted."""

    number: int
    atoms: Atoms = ()


ZERO: Final = Size(0)
ONE: Final = Size(1)


class _Symbol:
    """A symbol for an expression; ``whole``, the original expression, is ``grain`` times it."""

    __slots__ = ("expr", "grain", "nonnegative", "poly", "whole")

    def __init__(self, expr: PrimExpr, grain: int, whole: PrimExpr, poly: Poly | None) -> None:
        self.expr = expr
        self.grain = grain
        self.whole = whole
        self.poly = poly
        self.nonnegative: bool | None = None


def holds(dtype: DataType, low: int, high: int) -> bool:
    """Tell whether two numbers fit a dtype."""
    return dtype.min_value <= low and high <= dtype.max_value


class Sizes:
    """Computes with sizes, using an analyzer's facts; created expressions have ``dtype``."""

    def __init__(self, analyzer: Analyzer, dtype: DataType) -> None:
        self.analyzer = analyzer
        self.dtype = dtype
        self._symbols: list[_Symbol] = []
        self._polys: dict[int, tuple[PrimExpr, Poly]] = {}
        self._sums: dict[tuple[tuple[Atoms, int], ...], int] = {}
        self._ceilings: dict[tuple[Size, Size], Size] = {}

    # -- reading -----------------------------------------------------------------------------------
    def read(self, expr: PrimExpr) -> Poly:
        """Read an expression without iterators; it must be invariant while they run."""
        if isinstance(expr, IntImm):
            return {(): expr.value} if expr.value else {}
        if not (expr.dtype.is_integer and expr.dtype.lanes == 1):
            raise NotAnIterMap("not a scalar integer", expr)
        made = self.analyzer.canonical_simplify(expr)
        if self.analyzer.does(made) != Effects.NOTHING:
            raise NotAnIterMap("its value may change, or it may fail", expr)
        if not self.analyzer.is_exact(made):
            return self._symbol(made)
        return dict(fold(made, self._part))

    def _part(self, expr: Any, parts: list[Poly]) -> Poly:
        kind = expr.__class__
        if kind is IntImm:
            return {(): expr.value} if expr.value else {}
        if kind is Add or kind is Sub:
            return self.plus(parts[0], parts[1], 1 if kind is Add else -1)
        if kind is Mul:
            return self.times(parts[0], parts[1])
        if kind is Cast and _widens(expr) and self.analyzer.is_exact(expr.value):
            return parts[0]
        if not (expr.dtype.is_integer and expr.dtype.lanes == 1):
            return {}  # below an operation that becomes a symbol
        return self._symbol(expr)

    def _symbol(self, expr: PrimExpr) -> Poly:
        found = self._polys.get(id(expr))
        if found is None:
            known = self.analyzer.modular_set(expr)
            grain, inner = gcd(known.coeff, known.base), expr
            if grain > 1 and self.analyzer.is_exact(expr):
                inner = FloorDiv(expr, imm(grain, expr.dtype))
            else:
                grain = 1
            self._symbols.append(_Symbol(inner, grain, expr, None))
            found = self._polys[id(expr)] = (expr, {(len(self._symbols) - 1,): grain})
        return found[1]

    def size(self, poly: Poly) -> Size:
        """Return a sum as a size; one of several terms becomes a symbol."""
        if not poly:
            return ZERO
        if len(poly) == 1:
            ((atoms, number),) = poly.items()
            return Size(number, atoms)
        grain = gcd(*poly.values())
        terms = tuple(sorted((atoms, number // grain) for atoms, number in poly.items()))
        found = self._sums.get(terms)
        if found is None:
            inner = dict(terms)
            expr = self.expr(inner)
            self._symbols.append(_Symbol(expr, 1, expr, inner))
            found = self._sums[terms] = len(self._symbols) - 1
        return Size(grain, (found,))

    # -- computing ---------------------------------------------------------------------------------
    def plus(self, a: Poly, b: Poly, factor: int = 1) -> Poly:
        """Return ``a + factor * b``."""
        return add_terms(a, b, factor)

    def times(self, a: Poly, b: Poly) -> Poly:
        """Return ``a * b``."""
        made: Poly = {}
        for atoms, number in a.items():
            for others, factor in b.items():
                key = tuple(sorted(atoms + others)) if atoms and others else atoms or others
                total = made.get(key, 0) + number * factor
                if total:
                    made[key] = total
                else:
                    made.pop(key, None)
        return made

    def mul(self, a: Size, b: Size) -> Size:
        """Return ``a * b``."""
        number = a.number * b.number
        if not number:
            return ZERO
        if a.atoms and b.atoms:
            return Size(number, tuple(sorted(a.atoms + b.atoms)))
        return Size(number, a.atoms or b.atoms)

    def divide(self, a: Size, b: Size) -> Size | None:
        """Return ``a / b`` if ``b`` divides ``a`` for all values of the symbols, else None."""
        if not b.number or a.number % b.number:
            return None
        if not a.number or not b.atoms:
            return Size(a.number // b.number, a.atoms)
        left = list(a.atoms)
        for atom in b.atoms:
            if atom not in left:
                return None
            left.remove(atom)
        return Size(a.number // b.number, tuple(left))

    def sum(self, a: Size, b: Size) -> Size:
        """Return ``a + b``."""
        if a.atoms == b.atoms:
            number = a.number + b.number
            return Size(number, a.atoms) if number else ZERO
        return self.size(self.plus(self.poly(a), self.poly(b)))

    def poly(self, size: Size) -> Poly:
        """Return a size as a sum, with symbols that stand for sums expanded."""
        if not size.number:
            return {}
        made: Poly = {(): size.number}
        for atom in size.atoms:
            inner = self._symbols[atom].poly
            made = self.times(made, {(atom,): 1} if inner is None else inner)
        return made

    def ceil_divide(self, a: Size, b: Size) -> Size:
        """Return ``a / b``, rounded up, for positive ``b``."""
        exact = self.divide(a, b)
        if exact is not None:
            return exact
        if not a.atoms and not b.atoms:
            return Size(-(-a.number // b.number))
        found = self._ceilings.get((a, b))
        if found is None:
            over = self.plus(self.plus(self.poly(a), self.poly(b)), {(): 1}, -1)
            made = FloorDiv(self.expr(over), self.expr(self.poly(b)))
            found = self._ceilings[a, b] = self.size(self.read(made))
        return found

    # -- proofs ------------------------------------------------------------------------------------
    def is_nonnegative(self, poly: Poly) -> bool:
        """Tell whether a sum is certainly at least 0."""
        if all(not atoms for atoms in poly):
            return poly.get((), 0) >= 0
        if all(
            number > 0 and self._is_nonnegative_product(atoms) for atoms, number in poly.items()
        ):
            return True
        try:
            expr = self.expr(poly)
        except NotAnIterMap:
            return False
        return self.analyzer.can_prove_greater_equal(expr, 0)

    def _is_nonnegative_product(self, atoms: Atoms) -> bool:
        """Tell whether no symbol of a product can be negative."""
        for atom in atoms:
            symbol = self._symbols[atom]
            if symbol.nonnegative is None:
                symbol.nonnegative = self.analyzer.can_prove_greater_equal(symbol.expr, 0)
            if not symbol.nonnegative:
                return False
        return True

    def sign(self, size: Size) -> int:
        """Return 1 if a size is not negative, -1 if not positive, 0 if unknown."""
        if not self._is_nonnegative_product(size.atoms):
            return 0
        return 1 if size.number >= 0 else -1

    def is_at_least(self, a: Size, b: Size) -> bool:
        """Tell whether certainly ``a >= b``."""
        if not a.atoms and not b.atoms:
            return a.number >= b.number
        return self.is_nonnegative(self.plus(self.poly(a), self.poly(b), -1))

    # -- writing -----------------------------------------------------------------------------------
    def constant(self, value: int) -> IntImm:
        """Write a number."""
        if not holds(self.dtype, value, value):
            raise NotAnIterMap(f"{value} does not fit {self.dtype}")
        return imm(value, self.dtype)

    def expr(self, poly: Poly) -> PrimExpr:
        """Write a sum, in the order of its symbols; its value must fit the dtype."""
        made: PrimExpr | None = None
        for atoms, number in sorted(poly.items(), key=lambda item: (not item[0], item)):
            term = self._product(atoms, abs(number))
            if made is None:
                made = sub(self.constant(0), term) if number < 0 else term
            else:
                made = sub(made, term) if number < 0 else add(made, term)
        if made is None:
            return self.constant(0)
        if isinstance(made, IntImm):
            return made
        if not self.analyzer.is_exact(made):
            raise NotAnIterMap(f"may not fit {self.dtype}", made)
        return made

    def _product(self, atoms: Atoms, number: int) -> PrimExpr:
        made: PrimExpr | None = None
        for atom in atoms:
            symbol = self._symbols[atom]
            factor = symbol.expr
            if number % symbol.grain == 0:
                number, factor = number // symbol.grain, symbol.whole
            factor = to_int(factor, self.dtype)
            made = factor if made is None else mul(made, factor)
        if made is None:
            return self.constant(number)
        return mul(made, self.constant(number)) if number != 1 else made

    def size_expr(self, size: Size) -> PrimExpr:
        """Write a size."""
        if not size.atoms:
            return self.constant(size.number)
        return self.expr({size.atoms: size.number})


def _widens(expr: Cast) -> bool:
    source, target = expr.value.dtype, expr.dtype
    return (
        source.is_integer
        and target.is_integer
        and source.lanes == 1
        and holds(target, source.min_value, source.max_value)
    )
