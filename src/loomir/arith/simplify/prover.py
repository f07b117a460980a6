"""Prove that polynomials are not negative, by eliminating atoms through their bounds.

Each inequality is exact over the integers: a quotient is between its operands' bounds, a minimum
below its operands, a variable in its range, and assumed conditions hold. To prove ``p >= 0``, a
monomial of ``p`` is replaced by the bound that makes ``p`` smaller, until an interval decides. The
number of attempts is limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from loomir.arith.linear_form import add_terms
from loomir.arith.simplify.form import (
    Atom,
    AtomKind,
    Form,
    Key,
    Monomial,
    Terms,
    divide_monomial,
    key_of,
)

__all__ = ["CASES", "FUEL", "Inequality", "Knowledge", "is_nonnegative"]

FUEL: Final = 80
"""The most inequalities that a proof tries; a bound on time, not tuned."""
_MOST_TERMS: Final = 24
"""Terms beyond which an inequality is not tried; as those of canonical forms."""
CASES: Final = 3
"""The most choices (min, max, select) of which a proof takes both cases: they multiply."""
_MOST_FACTS: Final = 16
"""The latest facts that a proof may add; a bound on time, not tuned."""
_BOUNDED: Final = (AtomKind.FLOORDIV, AtomKind.FLOORMOD, AtomKind.MIN, AtomKind.MAX)
_CHOICES: Final = (AtomKind.MIN, AtomKind.MAX, AtomKind.SELECT)


class Inequality(NamedTuple):
    """``terms + const >= 0``."""

    terms: Terms
    const: int


class Knowledge(Protocol):
    """The facts about atoms that the prover uses; an analyzer provides them."""

    atoms: list[Atom]
    relations: dict[int, list[Inequality]]
    """Known inequalities about variables, by atom."""
    facts: list[Inequality]
    """The assumed inequalities."""

    def range_of(self, number: int) -> tuple[int, int]:
        """Return the bounds of an atom."""
        ...

    def lower(self, terms: Terms, const: int) -> int:
        """Return a lower bound that follows from the bounds of atoms."""
        ...


def is_nonnegative(
    known: Knowledge, terms: Terms, const: int, fuel: int = FUEL, most_cases: int = CASES
) -> bool:
    """Tell whether a polynomial is certainly at least 0.

    A minimum, maximum or choice equals one of its operands: as a last resort, all are tried.
    """
    cases = [(terms, const, 0)]
    while cases:
        terms, const, depth = cases.pop()
        if _search(known, terms, const, fuel):
            continue
        chosen = _choice(known, terms) if depth < most_cases else None
        if chosen is None:
            return False
        for part in chosen.parts:
            made, total = _substitute(terms, const, chosen, part)
            cases.append((made, total, depth + 1))
    return True


def _choice(known: Knowledge, terms: Terms) -> Atom | None:
    """Return the latest atom that equals one of its operands, or None."""
    found = -1
    for mono in terms:
        for number in mono:
            if number > found and known.atoms[number].kind in _CHOICES and mono.count(number) == 1:
                found = number
    return known.atoms[found] if found >= 0 else None


def _substitute(terms: Terms, const: int, atom: Atom, part: Form) -> tuple[Terms, int]:
    """Replace an atom that occurs at most once in each monomial by a polynomial."""
    made: Terms = {}

    def add(mono: Monomial, factor: int) -> None:
        total = made.get(mono, 0) + factor
        if total:
            made[mono] = total
        else:
            made.pop(mono, None)

    for mono, factor in terms.items():
        rest = divide_monomial(mono, atom.mono)
        if rest is None or atom.number in rest:
            add(mono, factor)
            continue
        for own, times in part.terms.items():
            add(tuple(sorted(own + rest)), factor * times)
        if rest:
            add(rest, factor * part.const)
        else:
            const += factor * part.const
    return {mono: factor for mono, factor in made.items() if factor}, const


def _search(known: Knowledge, terms: Terms, const: int, fuel: int) -> bool:
    seen: set[Key] = set()
    stack = [(terms, const)]
    while stack and fuel > 0:
        terms, const = stack.pop()
        fuel -= 1
        if known.lower(terms, const) >= 0:
            return True
        if not terms or len(terms) > _MOST_TERMS:
            continue
        key = key_of(terms, const)
        if key in seen:
            continue
        seen.add(key)
        ways = list(_smaller(known, terms, const))
        ways.reverse()
        stack += ways
    return False


def _smaller(known: Knowledge, terms: Terms, const: int) -> Iterator[tuple[Terms, int]]:
    """Yield polynomials that are at most this one, each with a monomial eliminated.

    The latest atoms come first, since they depend on earlier ones.
    """
    for mono in sorted(terms, reverse=True):
        factor = terms[mono]
        for lead, bound in _bounds_in(known, mono):
            share = bound.terms.get(lead, 0)
            rest = divide_monomial(mono, lead)
            if rest is None or share == 0 or (share > 0) != (factor > 0):
                continue
            sign = _sign(known, rest)
            if sign <= 0:
                continue
            # share * p - factor * rest * bound does not have the monomial, and is nonnegative only
            # if p is.
            times, other = abs(share), abs(factor)
            made: Terms = {m: c * times for m, c in terms.items()}
            total = const * times
            for m, c in bound.terms.items():
                product = tuple(sorted(m + rest))
                value = made.get(product, 0) - c * other
                if value:
                    made[product] = value
                else:
                    made.pop(product, None)
            if rest:
                value = made.get(rest, 0) - bound.const * other
                if value:
                    made[rest] = value
                else:
                    made.pop(rest, None)
            else:
                total -= bound.const * other
            yield made, total


def _sign(known: Knowledge, mono: Monomial) -> int:
    """Return 1 where a product of atoms is certainly at least 0, else 0."""
    for number in mono:
        if known.range_of(number)[0] < 0:
            return 0
    return 1


def _bounds_in(known: Knowledge, mono: Monomial) -> Iterator[tuple[Monomial, Inequality]]:
    """Yield the inequalities about a monomial, or about atoms and products that divide it."""
    for number in reversed(mono):
        atom = known.atoms[number]
        for bound in known.relations.get(number, ()):
            yield atom.mono, bound
        if atom.kind in _BOUNDED:
            yield from _bounds_of_kind(known, atom)
    for fact in known.facts[-_MOST_FACTS:]:
        for lead in fact.terms:
            if lead[0] in mono and (len(lead) == 1 or divide_monomial(mono, lead) is not None):
                yield lead, fact


def _minus(a: Form, terms: Terms, extra: int = 0) -> Inequality:
    """Return ``a - terms + extra >= 0``."""
    return Inequality(add_terms(a.terms, terms, -1), a.const + extra)


def _plus(terms: Terms, a: Form, extra: int = 0) -> Inequality:
    """Return ``terms - a + extra >= 0``."""
    return Inequality(add_terms(terms, a.terms, -1), extra - a.const)


def _bounds_of_kind(known: Knowledge, atom: Atom) -> Iterator[tuple[Monomial, Inequality]]:
    own: Terms = {atom.mono: 1}
    if atom.kind == AtomKind.MIN:
        for part in atom.parts:
            yield atom.mono, _minus(part, own)
        return
    if atom.kind == AtomKind.MAX:
        for part in atom.parts:
            yield atom.mono, _plus(own, part)
        return
    a, b = atom.parts
    positive = known.lower(b.terms, b.const) >= 1
    if not positive:
        return
    if atom.kind == AtomKind.FLOORMOD:
        yield atom.mono, _minus(b, own, -1)
        if known.lower(a.terms, a.const) >= 0:
            yield atom.mono, _minus(a, own)
        return
    # The dividend is at least the product, and less than the product plus the divisor.
    product: Terms = {tuple(sorted((*mono, atom.number))): c for mono, c in b.terms.items()}
    if b.const:
        product[atom.mono] = b.const
    upper = _minus(a, product)
    lower = Inequality(
        add_terms(add_terms(product, b.terms, 1), a.terms, -1), b.const - 1 - a.const
    )
    for lead in product:
        yield lead, upper
        yield lead, lower
    if known.lower(a.terms, a.const) >= 0:
        yield atom.mono, _minus(a, own)
