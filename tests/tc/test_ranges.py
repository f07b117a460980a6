"""Inferred ranges against a search over small sizes, by the rules of the specification."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import pytest

from loomir.arith.analyzer import Analyzer
from loomir.tc.define import _value
from loomir.tc.ranges import AxisAccess, Interval, infer, linear_of
from loomir.tc.types import INDEX
from loomir.tir.expr import IntImm, PrimExpr, Var

SIZES = tuple(Var(n, INDEX) for n in ("N", "M"))
INDICES = tuple(Var(n, INDEX) for n in ("i", "j", "k"))


class Case(NamedTuple):
    """Accesses of axes of sizes N and M, and ranges that are given."""

    accesses: list[tuple[Var, dict[Var, int], int]]
    fixed: dict[Var, tuple[int, int]]
    variables: tuple[Var, ...]


def case(seed: int) -> Case:
    rng = random.Random(seed)
    variables = INDICES[: rng.randint(1, 3)]
    accesses: list[tuple[Var, dict[Var, int], int]] = []
    for _ in range(rng.randint(1, 4)):
        chosen = rng.sample(variables, rng.randint(1, len(variables)))
        factors = {v: rng.choice((1, 1, 1, 2, 3, -1, -2)) for v in chosen}
        accesses.append((rng.choice(SIZES), factors, rng.randint(-3, 3)))
    fixed = {v: (rng.randint(0, 1), rng.randint(2, 4)) for v in variables if rng.random() < 0.2}
    return Case(accesses, fixed, variables)


def as_expr(factors: dict[Var, int], const: int) -> PrimExpr:
    made: PrimExpr = IntImm(const, INDEX)
    for var, factor in factors.items():
        made = made + var * IntImm(factor, INDEX)
    return made


def searched(made: Case, sizes: dict[Var, int]) -> dict[Var, tuple[int, int]] | None:
    """Follow the rounds by trying all values; None where a range with no values is met."""
    ranges = dict(made.fixed)
    left = list(made.accesses)
    while True:
        found: dict[Var, set[int]] = {}
        unused: list[tuple[Var, dict[Var, int], int]] = []
        for access in left:
            size, factors, const = access
            open_ = [v for v in factors if v not in ranges]
            if len(open_) != 1:
                unused.append(access)
                continue
            (var,) = open_
            others = [v for v in factors if v is not var]
            boxes = list(itertools.product(*(range(*ranges[v]) for v in others)))
            if not boxes:
                return None
            good = {
                x
                for x in range(-60, 60)
                if all(
                    0
                    <= const
                    + factors[var] * x
                    + sum(factors[v] * y for v, y in zip(others, point, strict=True))
                    < sizes[size]
                    for point in boxes
                )
            }
            found[var] = found.get(var, good) & good
        if not found:
            return ranges
        for var, good in found.items():
            if not good:
                return None
            ranges[var] = (min(good), max(good) + 1)
            assert good == set(range(*ranges[var]))
        left = unused


@pytest.mark.parametrize("share", range(4))
def test_ranges_are_those_that_a_search_finds(share: int):
    compared = 0
    for seed in range(share * 100, share * 100 + 100):
        made = case(seed)
        analyzer = Analyzer()
        for size in SIZES:
            analyzer.assume_size(size)
        accesses = [
            AxisAccess("A", 0, size, as_expr(factors, const), None, None)
            for size, factors, const in made.accesses
        ]
        fixed = {
            v: Interval(IntImm(a, INDEX), IntImm(b, INDEX)) for v, (a, b) in made.fixed.items()
        }
        ranges, _, missing = infer(made.variables, fixed, accesses, analyzer)
        for n, m in itertools.product((1, 4, 9), (2, 7)):
            sizes = dict(zip(SIZES, (n, m), strict=True))
            wanted = searched(made, sizes)
            if wanted is None:
                continue
            assert {v for v in made.variables if v not in wanted} == set(missing)
            got = {v: (_value(r.start, sizes), _value(r.stop, sizes)) for v, r in ranges.items()}
            assert got == wanted, (seed, n, m)
            compared += 1
    assert compared > 150


@pytest.mark.parametrize(
    ("text", "factors"),
    [
        ("i", {"i": 1}),
        ("2 * i - 3 * j + N", {"i": 2, "j": -3}),
        ("-(i - j) * 2", {"i": -2, "j": 2}),
        ("i - i", {}),
        ("i * 0 + j", {"j": 1}),
        ("i * j", None),
        ("i / 2", None),
        ("N * i", None),
        ("i % 2", None),
        ("i < 2 ? i : j", None),
    ],
)
def test_linear_forms(text: str, factors: dict[str, int] | None):
    from loomir.support.span import Source, Span
    from loomir.tc.expressions import Expressions
    from loomir.tc.mistakes import Mistakes
    from loomir.tc.parse import parse
    from loomir.tc.scope import Indices, Size
    from loomir.tc.syntax import Assignment

    statement = parse(f"def f() -> () {{ B() = {text} }}").functions[0].body[0]
    assert isinstance(statement, Assignment)
    indices = Indices()
    names = {"N": Size(SIZES[0], Span(Source("", ""), 1, 1, 1, 1))}
    made = Expressions(dict(names), indices, Mistakes()).make(statement.value)
    assert made is not None
    form = linear_of(made, indices.vars.values())
    found = None if form is None else {v.name_hint: f for v, f in form.terms.items()}
    assert found == factors
