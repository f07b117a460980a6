"""Monomials: a number times sizes that are known only at run time."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from loomir.arith.fold import imm64, int64, mul
from loomir.ir.visit import fold
from loomir.tir.expr import Cast, IntImm, Mul, PrimExpr, Var

__all__ = ["ONE", "Monomial"]


class Monomial(NamedTuple):
    """``number`` times variables, each as often as it is a factor, in an order that is fixed."""

    number: int
    names: tuple[Var, ...] = ()

    @staticmethod
    def of(expr: PrimExpr) -> Monomial | None:
        """Read an integer expression; None if it is something else."""

        def node(e: Any, parts: list[Monomial | None]) -> Monomial | None:
            if isinstance(e, IntImm):
                return Monomial(e.value)
            if isinstance(e, Var):
                return Monomial(1, (e,)) if e.dtype.is_int else None
            if isinstance(e, Cast) and e.dtype.is_int and isinstance(e.value, Var):
                return parts[0] if e.dtype.bits >= e.value.dtype.bits else None
            if isinstance(e, Mul) and e.dtype.bits == 64 and parts[0] and parts[1]:
                return parts[0].times(parts[1])
            return None

        return fold(expr, node)

    def times(self, other: Monomial) -> Monomial:
        """Multiply."""
        names = sorted((*self.names, *other.names), key=_order)
        return Monomial(self.number * other.number, tuple(names))

    def divide(self, other: Monomial) -> Monomial | None:
        """Divide; None if something is left, or by 0."""
        left = Counter(self.names)
        left.subtract(Counter(other.names))
        if not other.number or self.number % other.number or any(n < 0 for n in left.values()):
            return None
        return Monomial(self.number // other.number, tuple(sorted(left.elements(), key=_order)))

    @property
    def known(self) -> int | None:
        """The value, where it is a number."""
        return None if self.names else self.number

    def expr(self) -> PrimExpr:
        """Write it as an int64."""
        made: PrimExpr = imm64(self.number)
        for name in self.names:
            made = mul(int64(name), made)
        return made


def _order(name: Var) -> tuple[str, int]:
    return name.name_hint, id(name)


ONE: Final = Monomial(1)
