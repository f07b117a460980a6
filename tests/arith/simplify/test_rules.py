"""Every rule is proved, makes expressions smaller, and does what it says to random operands."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import z3

from loomir.arith import Analyzer
from loomir.arith.simplify.rewrite import apply_rule
from loomir.arith.simplify.rule import Pattern, Rule, measure, occurrences
from loomir.arith.simplify.rules import RULES
from loomir.interp.tir.scalar import value_of
from loomir.runtime.errors import RunError
from loomir.support.dtype import BOOL, DataType
from loomir.tir import FloatImm, FloorDiv, FloorMod, IntImm, Mod, Mul, PrimExpr, Var, const
from loomir.tir.expr import Div
from tests.arith.proof import Bits, Floats, Integers, claim, divides_safely, prove

WRAPPING = [r for r in RULES if r.cls == "W"]
SIGNED_ONLY = {"x % -1", "mod(x, -1)"}
"""No unsigned constant is -1."""


def sorts_of(rule: Rule) -> list[Any]:
    if rule.cls == "N":
        return [Integers()]
    if rule.cls == "F":
        return [Floats()]
    return [Bits(8, True)] if rule.lhs in SIGNED_ONLY else [Bits(8, True), Bits(8, False)]


def with_constants(rule: Rule, most: int) -> int:
    """Prove a rule for each choice of its constants; return how many there are."""
    names = sorted(n for n in occurrences(rule.left) if n[0] == "c")
    count = 0
    for values in itertools.product(range(-4, most + 1), repeat=len(names)):
        fixed = dict(zip(names, values, strict=True))
        code = compile(rule.when, "when", "eval")
        if 0 in values or not eval(code, {}, dict(fixed)):  # noqa: S307 - a row of the table
            continue
        formula = claim(rule, Integers())
        terms = [(z3.Int(n), z3.IntVal(v)) for n, v in fixed.items()]
        assert prove(z3.simplify(z3.substitute(formula, *terms)), 5_000) == z3.unsat, fixed
        count += 1
    return count


MULTIPLES = {
    # A constant that is a multiple of another one, times a symbol, is too much for z3.
    "(x % c1) % c2": 48,
    "(x * c1) % c2": 24,
    "(x * c1 + y) % c2": 24,
    "(x + c1) % c2": 48,
}


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rule_is_proved(rule: Rule):
    """W over all bit-vectors of 8 bits of both signs, N over the integers, F over all float16."""
    assert prove(divides_safely(rule), 10_000) == z3.unsat, "a divisor may be 0"
    if rule.lhs in MULTIPLES and "%" in rule.when:
        # No part of these leaves the range of its operands, so that integers decide for W as well.
        assert rule.cls == "N" or rule.lhs == "(x % c1) % c2"
        assert with_constants(rule, MULTIPLES[rule.lhs]) > 20
        return
    for sort in sorts_of(rule):
        assert prove(claim(rule, sort), 60_000) == z3.unsat


def kinds(pattern: Pattern) -> set[Any]:
    found = {pattern.kind}
    for part in pattern.args:
        found |= kinds(part)
    return found


@pytest.mark.parametrize("bits", [32, 64])
def test_wrapping_rules_hold_for_wide_integers(bits: int):
    """Rules without products and quotients for all constants, others for some."""
    draw = random.Random(bits)
    hard = {Mul, FloorDiv, FloorMod, Div, Mod}
    shown = 0
    for rule in WRAPPING:
        named = sorted(n for n in occurrences(rule.left) if n[0] == "c")
        choices: list[dict[str, int]] = [{}]
        if hard & (kinds(rule.left) | kinds(rule.right)):
            if not named or rule.lhs in MULTIPLES:
                continue  # two symbols: 8 bits decide
            corners = [1, 2, 3, 7, 8, 1 << (bits - 2), (1 << (bits - 1)) - 1]
            choices = [{n: draw.choice(corners) for n in named} for _ in range(3)]
        for fixed in choices:
            for signed in (True, False):
                found = prove(claim(rule, Bits(bits, signed, fixed)), 2_000)
                assert found != z3.sat, (rule, fixed)
                shown += found == z3.unsat
    assert shown > 250


def test_a_wrong_rule_is_refused():
    assert prove(claim(Rule("x + 1 > x", "true"), Bits(8, True)), 5_000) == z3.sat
    assert prove(claim(Rule("f + 0.0", "f", "", "F"), Floats()), 20_000) == z3.sat
    assert prove(claim(Rule("f - f", "0.0", "", "F"), Floats()), 20_000) == z3.sat
    assert prove(claim(Rule("x // c1 * c1", "x", "c1 > 0", "N"), Integers()), 5_000) == z3.sat
    assert prove(divides_safely(Rule("x % x", "0")), 5_000) == z3.sat


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rule_makes_smaller(rule: Rule):
    """A strict order on what rules make, and no name more often: rewriting ends."""
    assert measure(rule.right) < measure(rule.left)
    left, right = occurrences(rule.left), occurrences(rule.right)
    assert all(left.get(n, 0) >= k for n, k in right.items() if n[0] != "c")


def build(pattern: Pattern, names: dict[str, Any], dtype: DataType) -> Any:
    if pattern.kind == "number":
        return const(int(pattern.value), dtype)
    if pattern.kind == "real":
        return FloatImm(pattern.value, dtype)
    if pattern.kind == "truth":
        return const(bool(pattern.value), BOOL)
    if pattern.is_leaf:
        return names[pattern.name]
    return pattern.kind(*[build(part, names, dtype) for part in pattern.args])


def draw_names(rule: Rule, dtype: DataType, draw: random.Random) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for name in occurrences(rule.left):
        if name[0] == "c":
            corners = [-128, -8, -2, -1, 0, 1, 2, 3, 4, 6, 8, 16, 127]
            names[name] = IntImm(draw.choice([c for c in corners if c >= dtype.min_value]), dtype)
        else:
            names[name] = Var(name, BOOL if name in "pqr" else dtype)
    return names


def evaluated(e: PrimExpr, values: dict[Var, Any]) -> Any:
    try:
        return value_of(e, values)
    except RunError:
        return "fails"


def try_rule(rule: Rule, dtype: DataType, draw: random.Random) -> bool:
    """Apply a rule to random operands and compare at random points; tells whether it applied."""
    names = draw_names(rule, dtype, draw)
    analyzer = Analyzer()
    ranges: dict[Var, tuple[int, int]] = {}
    for name, e in names.items():
        if isinstance(e, Var) and dtype.is_integer and name not in "pqr":
            low, high = dtype.min_value, dtype.max_value
            if draw.random() < 0.8:
                low = draw.choice([1, 0, max(low, -6)])
                high = low + draw.choice([1, 5, 11])
                analyzer.enter(e >= const(low, dtype))
                analyzer.enter(e <= const(high, dtype))
            ranges[e] = (low, high)
    if dtype.is_uint and "-1" in rule.lhs:
        return False  # it has no such constant
    before = build(rule.left, names, dtype)
    after = apply_rule(rule, before, analyzer)
    if after is None:
        return False
    for _ in range(12):
        values: dict[Var, Any] = {}
        for e in names.values():
            if not isinstance(e, Var):
                continue
            if e.dtype.is_bool:
                values[e] = draw.random() < 0.5
            elif e.dtype.is_float:
                values[e] = draw.choice([0.0, -0.0, 1.5, float("inf"), -float("inf"), -7.0])
            else:
                low, high = ranges[e]
                values[e] = draw.choice([low, high, draw.randint(low, high)])
        wanted, found = evaluated(before, values), evaluated(after, values)
        assert repr(wanted) == repr(found), (str(before), str(after), values)
    return True


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rule_applies_and_keeps_the_value(rule: Rule):
    draw = random.Random(rule.lhs)
    floats = rule.cls == "F"
    names = ("float32", "float64") if floats else ("int8", "uint8", "int64")
    applied = 0
    for attempt in range(150):
        applied += try_rule(rule, DataType(names[attempt % len(names)]), draw)
        if applied > 12:
            break
    assert applied, "no operands were found to which it applies"


def test_rows_are_unique():
    rows = [str(rule) for rule in RULES]
    assert len(rows) == len(set(rows)) >= 250


def test_the_page_lists_them():
    page = Path(__file__).parents[3] / "docs" / "reference" / "simplifier-rules.md"
    rows = [line[2:] for line in page.read_text().splitlines() if line.startswith("- `")]
    wanted = [f"`{r.lhs}` → `{r.rhs}`" + (f" where `{r.when}`" if r.when else "") for r in RULES]
    assert rows == wanted
