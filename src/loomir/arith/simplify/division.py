"""Floor quotients and remainders of polynomials.

All arithmetic is on unbounded integers: operands are exact, results congruent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from loomir.arith.bounds.interval import Interval
from loomir.arith.bounds.modular import ANY, ModularSet
from loomir.arith.linear_form import add_terms
from loomir.arith.simplify.form import (
    Atom,
    AtomKind,
    Form,
    Key,
    Terms,
    common_factor,
    divide_terms,
    key_of,
    multiply_terms,
    residue_of,
    scale_terms,
)
from loomir.support.dtype import DataType
from loomir.tir.expr import FloorDiv, FloorMod, PrimExpr

__all__ = ["floor_divide", "fold_remainders", "remainder"]


class Canonical(Protocol):
    """The interface for creating forms and atoms that this module uses."""

    atoms: list[Atom]

    def bounds(self, terms: Terms, const: int) -> tuple[int, int]:
        """Bound a polynomial."""
        ...

    def is_nonnegative(self, terms: Terms, const: int) -> bool:
        """Tell whether a polynomial is certainly at least 0."""
        ...

    def constant(self, value: int, dtype: DataType) -> Form:
        """Make the form of a constant."""
        ...

    def form(
        self, terms: Terms, const: int, dtype: DataType, within: Interval | None = None
    ) -> Form:
        """Make the form of a polynomial."""
        ...

    def atom(
        self,
        key: Key,
        make: Callable[[], PrimExpr],
        low: int,
        high: int,
        kind: int,
        parts: tuple[Form, ...],
        modular: ModularSet,
    ) -> Atom:
        """Find or make an atom."""
        ...

    def find(self, key: Key) -> Atom:
        """Return an existing atom."""
        ...

    def form_of_atom(self, atom: Atom, dtype: DataType) -> Form:
        """Return an atom as a form."""
        ...

    def cons(self, kind: Any, *parts: Any) -> Any:
        """Find or make a node."""
        ...

    def write(self, terms: Terms, const: int, dtype: DataType) -> PrimExpr:
        """Return the expression of a polynomial."""
        ...


def floor_divide(c: Canonical, a: Form, b: Form, dtype: DataType) -> Form | None:
    """Return the quotient, or None if nothing is known about it."""
    if b.is_constant:
        if b.const < 0:
            down = _negate(c, a, b.const, dtype)
            return None if down is None else _divide_by_constant(c, down, -b.const, dtype)
        return _divide_by_constant(c, a, b.const, dtype)
    if b.low <= 0:
        return None
    split = divide_terms(a.terms, a.const, b.terms, b.const)
    if split is not None:
        whole, const, terms, left = split
        rest = Form(terms, left, *c.bounds(terms, left), dtype)
        if _is_below(c, rest, b):
            return c.form(whole, const, dtype)
        if rest.exact:
            over = _quotient(c, rest, b, dtype)
            return c.form(add_terms(whole, over.terms, 1), const + over.const, dtype)
    if _is_below(c, a, b):
        return c.constant(0, dtype)
    return _quotient(c, a, b, dtype)


def remainder(c: Canonical, a: Form, b: Form, dtype: DataType) -> Form | None:
    """Return the remainder, or None if nothing is known about it."""
    if b.is_constant:
        if b.const < 0:
            down = _negate(c, a, b.const, dtype)
            if down is None:
                return None
            made = _modulo(c, down, -b.const, dtype)
            return c.form(scale_terms(made.terms, -1), -made.const, dtype)
        return _modulo(c, a, b.const, dtype)
    if b.low <= 0:
        return None
    split = divide_terms(a.terms, a.const, b.terms, b.const)
    if split is not None:
        rest = Form(split[2], split[3], *c.bounds(split[2], split[3]), dtype)
        if _is_below(c, rest, b):
            return rest
        if rest.exact:
            a = rest
    if _is_below(c, a, b):
        return a
    high = b.high - 1 if a.low < 0 else min(a.high, b.high - 1)
    return _atom(c, AtomKind.FLOORMOD, a, b, dtype, Interval(0, high))


def _negate(c: Canonical, a: Form, by: int, dtype: DataType) -> Form | None:
    """Negate a dividend for a negative divisor; None if one of them would wrap.

    A divisor of -1 needs no dividend: the quotient is congruent, the remainder is 0.
    """
    made = Form(scale_terms(a.terms, -1), -a.const, -a.high, -a.low, dtype)
    fits = made.exact and -by <= dtype.max_value
    return made if fits or by == -1 else None


def _is_below(c: Canonical, rest: Form, b: Form) -> bool:
    """Tell whether a remainder is at least 0 and below the divisor."""
    if not c.is_nonnegative(rest.terms, rest.const):
        return False
    return c.is_nonnegative(add_terms(b.terms, rest.terms, -1), b.const - 1 - rest.const)


def _quotient(c: Canonical, a: Form, b: Form, dtype: DataType) -> Form:
    """Return a quotient by a positive divisor as an atom."""
    low = a.low // (b.low if a.low < 0 else b.high)
    high = a.high // (b.high if a.high < 0 else b.low)
    return _atom(c, AtomKind.FLOORDIV, a, b, dtype, Interval(low, high))


def _atom(
    c: Canonical,
    kind: int,
    a: Form,
    b: Form,
    dtype: DataType,
    within: Interval,
    modular: ModularSet = ANY,
) -> Form:
    node = FloorDiv if kind == AtomKind.FLOORDIV else FloorMod

    def make() -> PrimExpr:
        x = c.write(a.terms, a.const, dtype)
        return c.cons(node, x, c.write(b.terms, b.const, dtype))

    key = (kind, key_of(a.terms, a.const), key_of(b.terms, b.const))
    atom = c.atom(key, make, *within, kind, (a, b), modular)
    return c.form_of_atom(atom, dtype)


def _fits(c: Canonical, terms: Terms, const: int, dtype: DataType) -> bool:
    low, high = c.bounds(terms, const)
    return dtype.min_value <= low and high <= dtype.max_value


def _divide_by_constant(c: Canonical, a: Form, by: int, dtype: DataType) -> Form:
    """Divide by a positive constant: multiples move out of the quotient, common factors cancel."""
    if by == 1:
        return c.form(a.terms, a.const, dtype)
    whole: Terms = {}
    rest: Terms = {}
    for mono, factor in a.terms.items():
        if factor % by == 0:
            whole[mono] = factor // by
        else:
            rest[mono] = factor
    const, left = a.const // by, a.const % by
    if (whole or const) and not _fits(c, rest, left, dtype):
        whole, const, rest, left = {}, 0, a.terms, a.const
    if rest:
        # floor((g*r + u) / (g*d)) == floor(r / d) for 0 <= u < g
        grain, coarse, count, _, _ = _split_multiples(c, rest, left, by)
        if grain > 1 and _fits(c, coarse, count, dtype):
            rest, left, by = coarse, count, by // grain
    low, high = c.bounds(rest, left)
    if not whole:
        low, high = (low, high) if rest is not a.terms else (a.low, a.high)
    if by == 1 or low // by == high // by:
        over = Form(rest, left, low, high, dtype) if by == 1 else c.constant(low // by, dtype)
    else:
        over = _quotient_by_constant(c, Form(rest, left, low, high, dtype), by, dtype)
    if not whole and not const:
        return over
    return c.form(add_terms(whole, over.terms, 1), const + over.const, dtype)


def _quotient_by_constant(c: Canonical, a: Form, by: int, dtype: DataType) -> Form:
    """Make the atom of a quotient; a quotient of a quotient becomes a single one."""
    if len(a.terms) == 1:
        ((mono, factor),) = a.terms.items()
        inner = c.atoms[mono[0]] if len(mono) == 1 and factor == 1 else None
        if inner is not None and inner.kind == AtomKind.FLOORDIV and inner.parts[1].is_constant:
            # A quotient of a quotient is the quotient by the product of the divisors.
            x, d = inner.parts[0], inner.parts[1].const
            const = x.const + a.const * d
            if d * by <= dtype.max_value and _fits(c, x.terms, const, dtype):
                return _divide_by_constant(c, c.form(x.terms, const, dtype), d * by, dtype)
    b = Form({}, by, by, by, dtype)
    return _atom(
        c, AtomKind.FLOORDIV, a, b, dtype, Interval(a.low // by, a.high // by), _coarse(c, a, by)
    )


def _coarse(c: Canonical, a: Form, by: int) -> ModularSet:
    """Return the residue class of a quotient."""
    known = residue_of(a, c.atoms)
    if known.coeff and known.coeff % by == 0:
        coeff = known.coeff // by
        return ModularSet(coeff, known.base // by % coeff)
    return ANY


def _modulo(c: Canonical, a: Form, by: int, dtype: DataType) -> Form:
    """Return the remainder by a positive constant: multiples vanish, common factors move out."""
    known = residue_of(a, c.atoms)
    if known.coeff % by == 0:
        return c.constant(known.base % by, dtype)
    turn = a.low // by
    if turn == a.high // by:
        return c.form(
            a.terms, a.const - turn * by, dtype, Interval(a.low - turn * by, a.high - turn * by)
        )
    rest: Terms = {}
    for mono, factor in a.terms.items():
        left = factor % by
        if left:
            # Keep a factor that is small already, so that -x stays -x.
            rest[mono] = factor if -by < factor < by else left
    const = a.const % by
    if not _fits(c, rest, const, dtype):
        rest, const = a.terms, a.const
    low, high = c.bounds(rest, const)
    if low // by == high // by:
        const -= low // by * by
        return c.form(rest, const, dtype)
    # (g*r + u) % (g*d) == g * (r % d) + u for 0 <= u < g
    grain, coarse, count, fine, extra = _split_multiples(c, rest, const, by)
    if grain > 1 and _fits(c, coarse, count, dtype):
        rest, const, by = coarse, count, by // grain
        low, high = c.bounds(rest, const)
        if by == 1:
            return c.form(fine, extra, dtype)
        if low // by == high // by:
            const -= low // by * by
            terms = add_terms(fine, rest, grain)
            return c.form(terms, extra + grain * const, dtype)
    else:
        grain, fine, extra = 1, {}, 0
    inner = Form(rest, const, low, high, dtype)
    b = Form({}, by, by, by, dtype)
    most = by - 1 if low < 0 else min(high, by - 1)
    coeff = common_factor((residue_of(inner, c.atoms).coeff, by))
    modular = ModularSet(coeff, residue_of(inner, c.atoms).base % coeff)
    made = _atom(c, AtomKind.FLOORMOD, inner, b, dtype, Interval(0, most), modular)
    if grain == 1:
        return made
    return c.form(add_terms(fine, made.terms, grain), extra + grain * made.const, dtype)


def _split_multiples(
    c: Canonical, terms: Terms, const: int, by: int
) -> tuple[int, Terms, int, Terms, int]:
    """Split a sum into multiples of a factor of ``by``, and a rest from 0 to below that factor.

    Returns the factor, the sum divided by it, and the rest; the factor is 1 if there is no other.
    """
    for grain in sorted({common_factor((f, by)) for f in terms.values()}, reverse=True):
        if grain == 1:
            break
        coarse = {m: f // grain for m, f in terms.items() if f % grain == 0}
        fine = {m: f for m, f in terms.items() if f % grain}
        low, high = c.bounds(fine, const % grain)
        if low >= 0 and high < grain:
            return grain, coarse, const // grain, fine, const % grain
    return 1, terms, const, {}, 0


def fold_remainders(c: Canonical, form: Form) -> Form:
    """Combine quotients and remainders of one dividend: ``x // c * c + x % c`` is ``x``.

    Each step leaves fewer terms.
    """
    again = True
    while again and len(form.terms) > 1:
        again = False
        for mono, factor in form.terms.items():
            if len(mono) != 1:
                continue
            atom = c.atoms[mono[0]]
            made = None
            if atom.kind == AtomKind.FLOORMOD and _is_related(c, form, atom.parts[0]):
                made = _expand_remainder(c, form, atom.parts, factor)
            elif atom.kind == AtomKind.FLOORDIV and atom.parts[1].is_constant:
                made = _extract_remainder(c, form, atom.parts, factor)
            if made is not None and len(made.terms) < len(form.terms):
                form, again = made, True
                break
    return form


def _is_related(c: Canonical, form: Form, a: Form) -> bool:
    """Tell whether a sum has the quotient of a remainder, or a term of its dividend."""
    return any(mono in a.terms for mono in form.terms) or any(
        c.atoms[number].kind == AtomKind.FLOORDIV for mono in form.terms for number in mono
    )


def _expand_remainder(
    c: Canonical, form: Form, parts: tuple[Form, ...], factor: int
) -> Form | None:
    """Replace ``a % b`` by ``a - a // b * b``."""
    a, b = parts
    over = floor_divide(c, a, b, a.dtype) if a.exact else None
    if over is None:
        return None
    key = (AtomKind.FLOORMOD, key_of(a.terms, a.const), key_of(b.terms, b.const))
    own: Terms = {c.find(key).mono: 1}
    product, const = multiply_terms(over, b), over.const * b.const
    terms = add_terms(
        add_terms(add_terms(form.terms, own, -factor), a.terms, factor), product, -factor
    )
    total = form.const + factor * (a.const - const)
    if len(terms) >= len(form.terms):
        return None
    return c.form(terms, total, form.dtype, form.interval)


def _extract_remainder(
    c: Canonical, form: Form, parts: tuple[Form, ...], factor: int
) -> Form | None:
    """Replace ``a - a // b * b`` by ``a % b``."""
    a, b = parts
    if factor % b.const:
        return None
    times = -factor // b.const
    if not a.terms or any(form.terms.get(mono) != f * times for mono, f in a.terms.items()):
        return None
    rest = _modulo(c, a, b.const, a.dtype)
    over = floor_divide(c, a, b, a.dtype)
    if over is None:
        return None
    product, const = multiply_terms(over, b), over.const * b.const
    terms = add_terms(
        add_terms(add_terms(form.terms, a.terms, -times), product, times), rest.terms, times
    )
    total = form.const + times * (const + rest.const - a.const)
    if len(terms) >= len(form.terms):
        return None
    return c.form(terms, total, form.dtype, form.interval)
