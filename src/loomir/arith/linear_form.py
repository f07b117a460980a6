"""Linear forms of index expressions: terms times constants, plus a rest.

``read_linear_form`` is for callers that name the variables: the rest is what has none of them, an
expression. ``read_sums`` is for comparing addresses: whatever is no sum is a term, and the rest is
a number. Sums are those of int64, which wrap; ranges of terms play no part, as they do in the sums
of ``check/tir/affine.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from loomir.arith.fold import INT64, add, imm64, mul
from loomir.ir.equality import structural_equal
from loomir.ir.visit import fold
from loomir.tir.expr import Add, Cast, FloorDiv, IntImm, Mul, PrimExpr, Sub, Var

__all__ = ["LinearForm", "add_terms", "read_linear_form", "read_sums", "split_sum"]

Term = TypeVar("Term")


def add_terms(a: Mapping[Term, int], b: Mapping[Term, int], factor: int = 1) -> dict[Term, int]:
    """Return ``a + factor * b``, without terms that cancel."""
    made = dict(a)
    for term, times in b.items():
        total = made.get(term, 0) + factor * times
        if total:
            made[term] = total
        else:
            made.pop(term, None)
    return made


@dataclass(frozen=True, eq=False)
class LinearForm(Generic[Term]):
    """Each term times its factor, plus the rest; no factor is 0."""

    terms: Mapping[Term, int]
    rest: PrimExpr

    @property
    def constant(self) -> int:
        """The rest, of a form whose rest is known to be a number."""
        assert isinstance(self.rest, IntImm)
        return self.rest.value

    def plus(self, other: LinearForm[Term], factor: int = 1) -> LinearForm[Term]:
        """Return ``self + factor * other``."""
        rest = add(self.rest, mul(other.rest, imm64(factor)))
        return LinearForm(add_terms(self.terms, other.terms, factor), rest)

    def times(self, factor: int) -> LinearForm[Term]:
        """Return ``factor * self``."""
        return LinearForm(add_terms({}, self.terms, factor), mul(self.rest, imm64(factor)))


def read_linear_form(
    expr: PrimExpr, variables: Iterable[Var], *, literal: bool = False
) -> LinearForm[Var] | None:
    """Read an int64 expression as a linear form of variables; None if it is not one.

    Parts without variables stay as they are; they may read memory. A factor is what turns out to be
    a constant. With ``literal`` it must be written as one, and a division by 1 is no linear form:
    so the rule of a language does not depend on what is simplified.
    """
    names = frozenset(variables)

    def join(e: Any, parts: list[LinearForm[Var] | None]) -> LinearForm[Var] | None:
        if isinstance(e, Var) and e in names:
            return LinearForm({e: 1}, imm64(0))
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        if not any(part.terms for part in known):
            return LinearForm({}, e) if isinstance(e, PrimExpr) else None
        if isinstance(e, (Add, Sub)):
            return known[0].plus(known[1], 1 if isinstance(e, Add) else -1)
        if isinstance(e, Mul):
            for form, other, written in ((known[0], known[1], e.b), (known[1], known[0], e.a)):
                factor = written if literal else other.rest
                if not other.terms and isinstance(factor, IntImm):
                    return form.times(factor.value)
        if isinstance(e, FloorDiv) and isinstance(e.b, IntImm) and e.b.value == 1:
            return None if literal else known[0]
        return None

    return fold(expr, join) if expr.dtype == INT64 else None


def read_sums(*exprs: PrimExpr) -> list[LinearForm[PrimExpr]]:
    """Read expressions as sums of terms, with a constant for the rest.

    Structurally equal terms are one, in all of the expressions.
    """
    known: list[PrimExpr] = []
    made: list[LinearForm[PrimExpr]] = []
    for expr in exprs:
        terms: dict[PrimExpr, int] = {}
        constant = 0
        for part, factor in split_sum(expr):
            if isinstance(part, IntImm):
                constant += part.value * factor
            else:
                term = _find_equal(part, known)
                terms[term] = terms.get(term, 0) + factor
        left = {term: factor for term, factor in terms.items() if factor}
        made.append(LinearForm(left, imm64(constant)))
    return made


def _find_equal(term: PrimExpr, known: list[PrimExpr]) -> PrimExpr:
    """Return the first of the known terms that equals this one, which becomes known otherwise."""
    if not isinstance(term, Var):
        for other in known:
            if other is term or structural_equal(other, term):
                return other
        known.append(term)
    return term


def split_sum(expr: PrimExpr, *, through_casts: bool = False) -> Iterator[tuple[PrimExpr, int]]:
    """List the addends of a sum of products with constants from left to right, with their factors.

    Constants are addends too. A conversion is one, or with ``through_casts`` what it converts.
    """
    stack = [(expr, 1)]
    while stack:
        part, factor = stack.pop()
        if isinstance(part, Add):
            stack += ((part.b, factor), (part.a, factor))
        elif isinstance(part, Sub):
            stack += ((part.b, -factor), (part.a, factor))
        elif isinstance(part, Mul) and isinstance(part.b, IntImm):
            stack.append((part.a, factor * part.b.value))
        elif isinstance(part, Mul) and isinstance(part.a, IntImm):
            stack.append((part.b, factor * part.a.value))
        elif isinstance(part, Cast) and through_casts:
            stack.append((part.value, factor))
        else:
            yield part, factor
