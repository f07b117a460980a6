"""Read indices as linear forms, to compare the addresses of two accesses."""

from __future__ import annotations

from typing import NamedTuple

from loomir.ir.equality import structural_equal
from loomir.tir.expr import Add, IntImm, Mul, PrimExpr, Sub, Var

__all__ = ["Linear", "linear_of"]


class Linear(NamedTuple):
    """``constant`` plus each term times its factor; no term occurs twice."""

    terms: tuple[tuple[PrimExpr, int], ...]
    constant: int

    def minus(self, other: Linear) -> Linear:
        """Subtract, and drop terms that cancel."""
        made = list(self.terms)
        for term, factor in other.terms:
            _collect(made, term, -factor)
        left = tuple((term, factor) for term, factor in made if factor)
        return Linear(left, self.constant - other.constant)


def _collect(terms: list[tuple[PrimExpr, int]], term: PrimExpr, factor: int) -> None:
    for i, (known, count) in enumerate(terms):
        if known is term or (not isinstance(term, Var) and structural_equal(known, term)):
            terms[i] = (known, count + factor)
            return
    terms.append((term, factor))


def linear_of(e: PrimExpr) -> Linear:
    """Decompose sums and products with constants; anything else is a term."""
    terms: list[tuple[PrimExpr, int]] = []
    constant = 0
    stack = [(e, 1)]
    while stack:
        part, factor = stack.pop()
        if isinstance(part, IntImm):
            constant += part.value * factor
        elif isinstance(part, Add):
            stack += ((part.b, factor), (part.a, factor))
        elif isinstance(part, Sub):
            stack += ((part.b, -factor), (part.a, factor))
        elif isinstance(part, Mul) and isinstance(part.b, IntImm):
            stack.append((part.a, factor * part.b.value))
        elif isinstance(part, Mul) and isinstance(part.a, IntImm):
            stack.append((part.b, factor * part.a.value))
        else:
            _collect(terms, part, factor)
    return Linear(tuple(terms), constant)
