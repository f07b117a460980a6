"""Split the conditions around statements into conjuncts and inequalities, for proofs.

Unlike ``loops/conditions.py``, which rewrites conditions, this looks through negations and hints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from loomir.tir.builtins.table import LIKELY
from loomir.tir.expr import GE, GT, LE, LT, And, Call, Not, Or, PrimExpr

__all__ = ["Guard", "conjuncts", "read_less_equal"]


class Guard(NamedTuple):
    """A condition around statements, which run only if it holds (``negated``: only if it fails)."""

    condition: PrimExpr
    negated: bool


def conjuncts(guard: Guard) -> Iterator[tuple[PrimExpr, bool]]:
    """List the conditions that must all hold, with whether each is negated."""
    stack: list[tuple[PrimExpr, bool]] = [guard]
    while stack:
        condition, negated = stack.pop()
        if isinstance(condition, Not):
            stack.append((condition.a, not negated))
        elif isinstance(condition, Or if negated else And):
            parts: Any = condition
            stack += ((parts.b, negated), (parts.a, negated))
        elif isinstance(condition, Call) and condition.op is LIKELY:
            stack.append((condition.args[0], negated))
        else:
            yield condition, negated


def read_less_equal(condition: PrimExpr, negated: bool) -> tuple[PrimExpr, PrimExpr, int] | None:
    """Read an integer comparison as ``small + slack <= large``."""
    if not isinstance(condition, (LT, LE, GT, GE)) or not condition.a.dtype.is_integer:
        return None
    a, b = condition.a, condition.b
    strict = isinstance(condition, (LT, GT))
    if isinstance(condition, (GT, GE)):
        a, b = b, a
    if negated:
        a, b, strict = b, a, not strict
    return a, b, int(strict)
