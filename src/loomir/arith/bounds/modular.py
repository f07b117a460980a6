"""Residue classes of integers: ``coeff * t + base`` for some integer ``t``.

A ``coeff`` of 0 means that the value is ``base``. Transfer functions treat exact results; ``wrap``
then keeps what is still true after wrapping to a dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Final, NamedTuple

from loomir.support.dtype import DataType
from loomir.tir.expr import Add, FloorDiv, FloorMod, Max, Min, Mul, Sub

__all__ = ["ANY", "TRANSFER", "ModularSet", "constant", "join", "residue", "wrap"]


class ModularSet(NamedTuple):
    """The integers ``coeff * t + base`` with ``0 <= base < coeff``; one value if coeff is 0."""

    coeff: int
    base: int

    def holds(self, value: int) -> bool:
        """Tell whether a value is in the set."""
        return value == self.base if self.coeff == 0 else (value - self.base) % self.coeff == 0


ANY: Final = ModularSet(1, 0)


def residue(coeff: int, base: int) -> ModularSet:
    """Make a residue class, with its base reduced to the range."""
    return ModularSet(coeff, base % coeff) if coeff else ModularSet(0, base)


def constant(value: int) -> ModularSet:
    """Make the class of one value."""
    return ModularSet(0, value)


def join(a: ModularSet, b: ModularSet) -> ModularSet:
    """Return the smallest class that contains both."""
    return residue(gcd(a.coeff, b.coeff, a.base - b.base), a.base)


def wrap(a: ModularSet, dtype: DataType) -> ModularSet:
    """Return the class of exact results after wrapping to a dtype."""
    return residue(gcd(a.coeff, 1 << dtype.bits), a.base)


def _add(a: ModularSet, b: ModularSet) -> ModularSet:
    return residue(gcd(a.coeff, b.coeff), a.base + b.base)


def _sub(a: ModularSet, b: ModularSet) -> ModularSet:
    return residue(gcd(a.coeff, b.coeff), a.base - b.base)


def _mul(a: ModularSet, b: ModularSet) -> ModularSet:
    grain = gcd(a.coeff * b.coeff, a.coeff * b.base, b.coeff * a.base)
    return residue(grain, a.base * b.base)


def _floordiv(a: ModularSet, b: ModularSet) -> ModularSet:
    if b.coeff == 0 and b.base != 0 and a.coeff % b.base == 0:
        return residue(abs(a.coeff // b.base), a.base // b.base)
    return ANY


def _floormod(a: ModularSet, b: ModularSet) -> ModularSet:
    if b.coeff == 0 and b.base != 0:
        if a.coeff % b.base == 0:
            return constant(a.base % b.base)
        return residue(gcd(a.coeff, b.base), a.base)
    # Multiples of the divisor vanish.
    return residue(gcd(a.coeff, b.coeff, b.base), a.base)


TRANSFER: Final[dict[type, Callable[[ModularSet, ModularSet], ModularSet]]] = {
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Min: join,
    Max: join,
}
"""The class of exact results for each operator; ``ANY`` for other operators."""
