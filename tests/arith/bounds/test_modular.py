"""No result of an operator lies outside the residue class that its transfer function gives."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import z3

from loomir.arith.bounds import modular
from loomir.arith.bounds.modular import ANY, TRANSFER, ModularSet, constant, join, residue, wrap
from loomir.support.dtype import DataType
from tests.arith.bounds.test_interval import EXACT
from tests.arith.symbols import Paths, Symbol, term

CLASSES = [residue(c, b) for c in range(9) for b in (range(c) if c else range(-8, 9))]


def members(a: ModularSet) -> list[int]:
    return [v for v in range(-30, 31) if a.holds(v)]


PYTHON: dict[str, Any] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Min": min,
    "Max": max,
}


@pytest.mark.parametrize("kind", list(TRANSFER), ids=lambda k: k.__name__)
def test_every_small_class(kind: type):
    operator = PYTHON[kind.__name__]
    divides = kind.__name__ in ("FloorDiv", "FloorMod")
    for a, b in itertools.product(CLASSES[::2], CLASSES[1::2]):
        made = TRANSFER[kind](a, b)
        for x, y in itertools.product(members(a)[::3], members(b)):
            if not divides or y:
                assert made.holds(operator(x, y)), (a, b, x, y, made)


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul"])
def test_sums_and_products_of_all_classes(name: str, monkeypatch: pytest.MonkeyPatch):
    """The transfer function runs on symbols; of the common divisor only that it divides is known.

    With ``x = c*s + b`` and ``y = d*t + e``, the result is the base plus multiples of what the
    divisor is taken of: z3 finds the difference to be zero for the multipliers given here.
    """
    kind = next(k for k in TRANSFER if k.__name__ == name)
    c, d, b, e, s, t = z3.Ints("c d b e s t")
    seen: list[Any] = []

    def divisor(*of: Any) -> Any:
        seen[:] = of
        return z3.Int("g")

    monkeypatch.setattr(modular, "gcd", divisor)
    monkeypatch.setattr(modular, "residue", lambda coeff, base: (coeff, base))
    _, base = TRANSFER[kind](ModularSet(c, b), ModularSet(d, e))
    value = PYTHON[name](c * s + b, d * t + e)
    times = {"Add": (s, t), "Sub": (s, -t), "Mul": (s * t, s, t)}[name]
    assert len(times) == len(seen)
    multiples = sum(part * factor for part, factor in zip(seen, times, strict=True))
    assert z3.simplify(value - base - multiples, som=True).eq(z3.IntVal(0))


@pytest.mark.parametrize("name", ["FloorDiv", "FloorMod"])
@pytest.mark.parametrize("divisor", [-4, -1, 1, 2, 3, 6, 8])
def test_division_by_constants(name: str, divisor: int):
    kind = next(k for k in TRANSFER if k.__name__ == name)
    for c in range(17):
        base, s = z3.Ints("base s")
        paths = Paths([])
        a = ModularSet(c, Symbol(base, paths))  # type: ignore[arg-type]
        value = EXACT[name](base + c * s, z3.IntVal(divisor))
        for made in paths.run(lambda a=a: TRANSFER[kind](a, constant(divisor))):
            rest = value - term(made.base, base)
            claim = rest == 0 if made.coeff == 0 else rest % made.coeff == 0
            assert paths.solver.check(z3.Not(claim)) == z3.unsat, (c, divisor, made)


@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_wrapping(name: str):
    dtype = DataType(name)
    mask, half = 255, 128 if dtype.is_int else 0
    for a in CLASSES:
        made = wrap(a, dtype)
        for value in range(-700, 700):
            if a.holds(value):
                assert made.holds(((value + half) & mask) - half)


def test_joining():
    assert join(constant(3), constant(11)) == residue(8, 3)
    assert join(constant(3), constant(3)) == constant(3)
    assert join(residue(4, 1), residue(6, 3)) == residue(2, 1)
    assert join(ANY, constant(5)) == ANY
    for a, b in itertools.product(CLASSES, CLASSES):
        made = join(a, b)
        assert all(made.holds(v) for v in members(a) + members(b))
