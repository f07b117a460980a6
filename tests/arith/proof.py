"""Rules as formulas for z3.

z3's division of integers is Euclidean, and that of bit-vectors truncates; rounding down is built
from them here.
"""

from __future__ import annotations

import ast
from typing import Any

import z3

from loomir.arith.simplify.rule import Pattern, Rule
from loomir.tir import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)

DIVISIONS = (FloorDiv, FloorMod, Div, Mod)


class Sort:
    """How the operators on one kind of number are written as terms."""

    def number(self, value: int) -> Any:
        raise AssertionError

    def name(self, name: str) -> Any:
        raise AssertionError

    def less(self, a: Any, b: Any) -> Any:
        return a < b

    def floor(self, a: Any, b: Any) -> Any:
        raise AssertionError

    def trunc(self, a: Any, b: Any) -> Any:
        raise AssertionError


class Integers(Sort):
    """Integers without end."""

    def number(self, value: int) -> Any:
        return z3.IntVal(value)

    def name(self, name: str) -> Any:
        return z3.Int(name)

    def floor(self, a: Any, b: Any) -> Any:
        return z3.If(b > 0, a / b, -a / -b)

    def trunc(self, a: Any, b: Any) -> Any:
        size = z3.If(a < 0, -a, a) / z3.If(b < 0, -b, b)
        return z3.If((a < 0) == (b < 0), size, -size)


class Bits(Sort):
    """Integers that wrap."""

    def __init__(self, bits: int, signed: bool, fixed: dict[str, int] | None = None) -> None:
        self.bits, self.signed, self.fixed = bits, signed, fixed or {}

    def number(self, value: int) -> Any:
        return z3.BitVecVal(value, self.bits)

    def name(self, name: str) -> Any:
        if name in self.fixed:
            return self.number(self.fixed[name])
        return z3.BitVec(name, self.bits)

    def less(self, a: Any, b: Any) -> Any:
        return a < b if self.signed else z3.ULT(a, b)

    def trunc(self, a: Any, b: Any) -> Any:
        return a / b if self.signed else z3.UDiv(a, b)

    def floor(self, a: Any, b: Any) -> Any:
        if not self.signed:
            return z3.UDiv(a, b)
        inexact = z3.And(z3.SRem(a, b) != 0, (a < 0) != (b < 0))
        return z3.If(inexact, a / b - 1, a / b)


class Floats(Sort):
    """IEEE 754 of 16 bits; any NaN is as good as another."""

    def number(self, value: float) -> Any:
        return z3.FPVal(value, z3.Float16())

    def name(self, name: str) -> Any:
        return z3.FP(name, z3.Float16())


def leaf(pattern: Pattern, sort: Sort) -> Any:
    if pattern.kind == "truth":
        return z3.BoolVal(bool(pattern.value))
    if pattern.kind in ("number", "real"):
        return sort.number(pattern.value)  # type: ignore[arg-type]
    return z3.Bool(pattern.name) if pattern.kind == "bool" else sort.name(pattern.name)


def term(pattern: Pattern, sort: Sort, divisors: list[Any]) -> Any:
    """Write a pattern; ``divisors`` collects what it divides by."""
    if pattern.is_leaf:
        return leaf(pattern, sort)
    kind = pattern.kind
    parts = [term(part, sort, divisors) for part in pattern.args]
    if kind in DIVISIONS and not isinstance(sort, Floats):
        divisors.append(parts[1])
    if kind is Select:
        return z3.If(*parts)
    if kind is Not:
        return z3.Not(parts[0])
    a, b = parts
    table: dict[type, Any] = {
        Add: lambda: a + b,
        Sub: lambda: a - b,
        Mul: lambda: a * b,
        Div: lambda: sort.trunc(a, b) if not isinstance(sort, Floats) else a / b,
        Mod: lambda: a - sort.trunc(a, b) * b,
        FloorDiv: lambda: sort.floor(a, b),
        FloorMod: lambda: a - sort.floor(a, b) * b,
        Min: lambda: z3.If(sort.less(a, b), a, b),
        Max: lambda: z3.If(sort.less(a, b), b, a),
        Eq: lambda: a == b,
        NE: lambda: a != b,
        LT: lambda: sort.less(a, b),
        GT: lambda: sort.less(b, a),
        LE: lambda: a <= b if isinstance(sort, Floats) else z3.Not(sort.less(b, a)),
        GE: lambda: a >= b if isinstance(sort, Floats) else z3.Not(sort.less(a, b)),
        And: lambda: z3.And(a, b),
        Or: lambda: z3.Or(a, b),
    }
    return table[kind]()


def condition(e: Any, sort: Sort) -> Any:
    """Write the condition of a rule."""
    if e is None:
        return z3.BoolVal(True)
    if isinstance(e, ast.BoolOp):
        return z3.And(*[condition(part, sort) for part in e.values])
    if isinstance(e, ast.Compare):
        a, b = condition(e.left, sort), condition(e.comparators[0], sort)
        kind = type(e.ops[0])
        return {
            ast.Lt: lambda: sort.less(a, b),
            ast.LtE: lambda: z3.Not(sort.less(b, a)),
            ast.Gt: lambda: sort.less(b, a),
            ast.GtE: lambda: z3.Not(sort.less(a, b)),
            ast.Eq: lambda: a == b,
            ast.NotEq: lambda: a != b,
        }[kind]()
    if isinstance(e, ast.BinOp):
        a, b = condition(e.left, sort), condition(e.right, sort)
        return a - sort.floor(a, b) * b
    if isinstance(e, ast.Constant):
        return sort.number(e.value)  # type: ignore[arg-type]
    assert isinstance(e, ast.Name)
    return sort.name(e.id)


def claim(rule: Rule, sort: Sort) -> Any:
    """Write that both sides are equal where the left one has a value."""
    divisors: list[Any] = []
    left = term(rule.left, sort, divisors)
    zero = None if isinstance(sort, Floats) else sort.number(0)
    given = [condition(rule.condition, sort), *[d != zero for d in divisors]]
    right = term(rule.right, sort, [])
    return z3.Implies(z3.And(*given), left == right)


def divides_safely(rule: Rule) -> Any:
    """Write that no divisor is 0, on either side, where a rule applies."""
    sort = Integers()
    divisors: list[Any] = []
    term(rule.left, sort, divisors)
    term(rule.right, sort, divisors)
    return z3.Implies(condition(rule.condition, sort), z3.And(*[d != 0 for d in divisors]))


def prove(formula: Any, milliseconds: int) -> Any:
    """Return ``unsat`` where a formula always holds."""
    solver = z3.Solver()
    solver.set("timeout", milliseconds)
    solver.add(z3.Not(formula))
    return solver.check()
