"""Split conditions into conjuncts, and join them again."""

from __future__ import annotations

from collections.abc import Iterable

from loomir.tir.expr import And, IntImm, PrimExpr
from loomir.tir.stmt import TRUE

__all__ = ["conjunction", "conjuncts"]


def conjunction(conditions: Iterable[PrimExpr]) -> PrimExpr:
    """Return the conjunction of conditions."""
    made: PrimExpr = TRUE
    for part in conditions:
        made = part if made is TRUE else And(made, part)
    return made


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """List the conditions whose conjunction a condition is, from left to right; none for true."""
    found: list[PrimExpr] = []
    stack = [condition]
    while stack:
        part = stack.pop()
        if isinstance(part, And):
            stack += (part.b, part.a)
        elif not (isinstance(part, IntImm) and part.value):
            found.append(part)
    return found
