"""Polynomials over atoms, the canonical forms of integer expressions.

An atom is an integer that is not analysed further: a variable, a quotient, a load. A monomial is a
sorted tuple of atom numbers; a polynomial is a constant plus multiples of monomials. Atoms are
unbounded integers; callers account for wrapping to a dtype.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Final, TypeAlias

from loomir.arith.bounds.interval import Interval
from loomir.arith.bounds.modular import ANY, ModularSet
from loomir.support.dtype import DataType
from loomir.tir.expr import PrimExpr

__all__ = [
    "Atom",
    "AtomKind",
    "Form",
    "Key",
    "Monomial",
    "Terms",
    "common_factor",
    "divide_monomial",
    "divide_terms",
    "key_of",
    "multiply_terms",
    "residue_of",
    "scale_terms",
]

Monomial: TypeAlias = "tuple[int, ...]"
Terms: TypeAlias = "dict[Monomial, int]"
Key: TypeAlias = "tuple[object, ...]"


class AtomKind:
    """The kinds of atoms that proofs distinguish."""

    OPAQUE: Final = 0
    FLOORDIV: Final = 1
    FLOORMOD: Final = 2
    MIN: Final = 3
    MAX: Final = 4
    SELECT: Final = 5


class Atom:
    """An integer that occurs in sums: ``expr`` has its value.

    ``parts`` are the operands of a quotient, remainder, minimum or maximum, over the integers.
    """

    __slots__ = ("expr", "kind", "modular", "mono", "number", "parts")

    def __init__(
        self, number: int, expr: PrimExpr, kind: int, parts: tuple[Form, ...], modular: ModularSet
    ) -> None:
        self.number = number
        self.mono: Monomial = (number,)
        self.expr = expr
        self.kind = kind
        self.parts = parts
        self.modular = modular


class Form:
    """A polynomial: ``const`` plus each monomial times its factor; no factor is 0.

    It is congruent to the expression that it was read from, modulo 2 to the width of ``dtype``.
    ``low`` and ``high`` bound the polynomial; where both fit ``dtype`` it is ``exact``: the
    expression's value itself.
    """

    __slots__ = ("const", "dtype", "exact", "expr", "high", "low", "terms")

    def __init__(self, terms: Terms, const: int, low: int, high: int, dtype: DataType) -> None:
        self.terms = terms
        self.const = const
        self.low = low
        self.high = high
        self.dtype = dtype
        self.exact = dtype.min_value <= low and high <= dtype.max_value
        self.expr: PrimExpr | None = None

    @property
    def is_constant(self) -> bool:
        """Whether there are no monomials."""
        return not self.terms

    @property
    def interval(self) -> Interval:
        """The bounds of the polynomial."""
        return Interval(self.low, self.high)


def key_of(terms: Terms, const: int) -> Key:
    """Return a key that is equal exactly for equal polynomials."""
    if len(terms) == 1:
        ((mono, factor),) = terms.items()
        return (const, mono, factor)
    return (const, *sorted(terms.items()))


def scale_terms(a: Terms, factor: int) -> Terms:
    """Return ``factor * a``."""
    if factor == 0:
        return {}
    return {mono: times * factor for mono, times in a.items()}


def multiply_terms(a: Form, b: Form) -> Terms:
    """Return the monomials of a product of terms without constants."""
    made: Terms = {}
    rows = [*a.terms.items(), ((), a.const)]
    columns = [*b.terms.items(), ((), b.const)]
    for mono, factor in rows:
        for other, times in columns:
            product = tuple(sorted(mono + other)) if mono and other else mono or other
            total = made.get(product, 0) + factor * times
            if total:
                made[product] = total
            else:
                made.pop(product, None)
    made.pop((), None)
    return made


def divide_monomial(mono: Monomial, divisor: Monomial) -> Monomial | None:
    """Divide a monomial by another one; None if it is not a multiple."""
    left = list(mono)
    for number in divisor:
        if number not in left:
            return None
        left.remove(number)
    return tuple(left)


_MOST_STEPS: Final = 16
"""The most steps of a polynomial division; a bound on time, not tuned."""


def divide_terms(
    terms: Terms, const: int, divisor: Terms, offset: int
) -> tuple[Terms, int, Terms, int] | None:
    """Divide a polynomial by a non-constant one, as long as terms are multiples of its first.

    Returns quotient and rest with ``terms + const == quotient * divisor + rest``, or None if no
    term is a multiple.
    """
    lead = max(divisor, key=lambda mono: (len(mono), mono))
    factor = divisor[lead]
    rest, left = dict(terms), const
    quotient: Terms = {}
    whole = 0
    for _ in range(_MOST_STEPS):
        for mono, times in rest.items():
            over = divide_monomial(mono, lead) if times % factor == 0 else None
            if over is not None:
                break
        else:
            break
        times //= factor
        if over:
            quotient[over] = quotient.get(over, 0) + times
        else:
            whole += times
        for own, by in divisor.items():
            product = tuple(sorted(own + over))
            total = rest.get(product, 0) - by * times
            if total:
                rest[product] = total
            else:
                rest.pop(product, None)
        if over:
            total = rest.get(over, 0) - offset * times
            if total:
                rest[over] = total
            else:
                rest.pop(over, None)
        else:
            left -= offset * times
    quotient = {mono: times for mono, times in quotient.items() if times}
    return (quotient, whole, rest, left) if quotient or whole else None


def common_factor(values: Iterable[int]) -> int:
    """Return the greatest common divisor of factors."""
    return gcd(*values)


def residue_of(form: Form, atoms: list[Atom]) -> ModularSet:
    """Return the residue class of a polynomial."""
    coeff, base = 0, form.const
    for mono, factor in form.terms.items():
        grain, rest = 0, factor
        for number in mono:
            known = atoms[number].modular
            grain = gcd(grain * known.coeff, grain * known.base, rest * known.coeff)
            rest *= known.base
        coeff = gcd(coeff, grain)
        base += rest
    if coeff == 1:
        return ANY
    return ModularSet(coeff, base % coeff) if coeff else ModularSet(0, base)
