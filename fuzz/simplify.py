"""Random integer expressions: simplified ones have equal values, bounds are right, nothing hangs.

Run ``python -m fuzz.simplify --count N``. An expression is a function of its seed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import loomir.script  # noqa: F401 - prints expressions  # pyright: ignore[reportUnusedImport]
from loomir.arith import Analyzer
from loomir.interp.machine import evaluate
from loomir.interp.scope import Scope
from loomir.interp.tir.expr import compile_expr
from loomir.ir import structural_equal
from loomir.runtime.errors import RunError
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    Select,
    Sub,
    Var,
    call_builtin,
    const,
)

__all__ = ["Case", "check", "main"]

DTYPES: Final = [DataType(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
ARITHMETIC: Final = [Add, Sub, Mul, Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max]
TESTS: Final = [LT, LE, GT, GE, Eq, NE]
BUILTINS: Final = ["bitwise_and", "shift_right", "bitwise_or", "shift_left", "bitwise_xor"]
POINTS: Final = 5


class Case:
    """An expression, what its variables may be, and what an analyzer was told about them."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.analyzer = Analyzer()
        self.variables: list[Var] = []
        self.ranges: dict[Var, tuple[int, int]] = {}
        main = draw.choice(DTYPES)
        for k in range(3):
            dtype = main if draw.random() < 0.8 else draw.choice(DTYPES)
            self._variable(Var(f"v{k}", dtype))
        wanted = main if draw.random() < 0.7 else BOOL
        self.expr = self.draw_expr(wanted, draw.randint(2, 5))

    def _variable(self, var: Var) -> None:
        draw, dtype = self.draw, var.dtype
        self.variables.append(var)
        low, high = dtype.min_value, dtype.max_value
        if draw.random() < 0.6:
            low = max(draw.choice([0, 0, 0, 0, 1, -3, 2]), low)
            extent = min(draw.choice([1, 2, 4, 8, 16, 64, 100]), high - low)
            high = low + extent - 1
            self.analyzer.bind(var, Range(const(low, dtype), const(extent, dtype)))
        self.ranges[var] = (low, high)

    def constant(self, dtype: DataType) -> PrimExpr:
        """Draw a constant: small ones, powers of two, and the ends."""
        low, high = dtype.min_value, dtype.max_value
        value = self.draw.choice([0, 1, 2, 3, 4, 5, 7, 8, 12, 16, -1, -2, -4, low, high, high // 2])
        return const(value if low <= value <= high else self.draw.randint(0, 10), dtype)

    def draw_expr(self, dtype: DataType, depth: int) -> PrimExpr:
        """Draw an expression of a dtype."""
        draw = self.draw
        if depth <= 0 or draw.random() < 0.12:
            own = [v for v in self.variables if v.dtype is dtype]
            if own and draw.random() < 0.7:
                return draw.choice(own)
            return const(draw.random() < 0.5, dtype) if dtype.is_bool else self.constant(dtype)
        if dtype.is_bool:
            return self._condition(depth - 1)
        way = draw.random()
        if way < 0.75:
            a = self.draw_expr(dtype, depth - 1)
            b = self.constant(dtype) if draw.random() < 0.45 else self.draw_expr(dtype, depth - 1)
            return draw.choice(ARITHMETIC)(a, b)
        if way < 0.84:
            sources = [*(v.dtype for v in self.variables), BOOL]
            return Cast(self.draw_expr(draw.choice(sources), depth - 1), dtype)
        if way < 0.94:
            test = self.draw_expr(BOOL, depth - 1)
            a, b = self.draw_expr(dtype, depth - 1), self.draw_expr(dtype, depth - 1)
            if draw.random() < 0.5:
                return Select(test, a, b)
            return call_builtin("if_then_else", test, a, b)
        if way < 0.96:
            var = Var("t", dtype)
            value = self.draw_expr(dtype, depth - 1)
            self.variables.append(var)
            body = self.draw_expr(dtype, depth - 1)
            self.variables.pop()
            return Let(var, value, body)
        a, b = self.draw_expr(dtype, depth - 1), self.draw_expr(dtype, depth - 1)
        return call_builtin(draw.choice(BUILTINS), a, b)

    def _condition(self, depth: int) -> PrimExpr:
        draw = self.draw
        way = draw.random()
        if way < 0.6:
            near = [v.dtype for v in self.variables]
            dtype = draw.choice(near if draw.random() < 0.8 else DTYPES)
            return draw.choice(TESTS)(self.draw_expr(dtype, depth), self.draw_expr(dtype, depth))
        if way < 0.9:
            a, b = self.draw_expr(BOOL, depth), self.draw_expr(BOOL, depth)
            return And(a, b) if way < 0.75 else Or(a, b)
        return Not(self.draw_expr(BOOL, depth))

    def point(self) -> dict[Var, int]:
        """Draw values of the variables: ends, and any in between."""
        draw = self.draw
        values: dict[Var, int] = {}
        for var, (low, high) in self.ranges.items():
            near = [v for v in (0, 1, 2, -1, high - 1, draw.randint(0, 20)) if low <= v <= high]
            values[var] = draw.choice([low, high, draw.randint(low, high), *near])
        return values


def evaluator(e: PrimExpr, variables: list[Var]) -> Callable[[Mapping[Var, int]], Any]:
    """Compile an expression for the interpreter; a failure is a value as well."""
    scope = Scope()
    slots = [(scope.bind(var), var) for var in variables]
    code = compile_expr(e, scope)

    def at(values: Mapping[Var, int]) -> Any:
        env: list[Any] = [None] * scope.size
        for slot, var in slots:
            env[slot] = values[var]
        try:
            next(evaluate(code, env))
        except StopIteration as stop:
            return stop.value
        except RunError:
            return "fails"
        raise AssertionError("a scalar expression waits for nothing")

    return at


def check(seed: int) -> None:
    """Check all that the analyzer says about one random expression."""
    case = Case(seed)
    analyzer, expr = case.analyzer, case.expr
    simple = analyzer.simplify(expr)
    made = {"simplify": simple}
    if seed % 3 == 0:
        made["rewrite_simplify"] = analyzer.rewrite_simplify(expr)
    elif seed % 3 == 1:
        made["canonical_simplify"] = analyzer.canonical_simplify(expr)
    again = analyzer.simplify(simple)
    assert again is simple or structural_equal(again, simple), (seed, str(expr), str(simple))
    bound = analyzer.const_int_bound(expr)
    residue = None if expr.dtype.is_bool else analyzer.modular_set(expr)
    proved = expr.dtype.is_bool and analyzer.can_prove(expr)
    wanted = evaluator(expr, case.variables)
    others = {name: evaluator(e, case.variables) for name, e in made.items() if e is not expr}
    for _ in range(POINTS):
        values = case.point()
        value = wanted(values)
        shown = {v.name_hint: x for v, x in values.items()}
        for name, at in others.items():
            found = at(values)
            assert found == value, (seed, name, str(expr), str(made[name]), value, found, shown)
        if value != "fails":
            assert bound.min_value <= value <= bound.max_value, (seed, str(expr), bound, shown)
            assert residue is None or residue.holds(value), (seed, str(expr), residue, shown)
            assert not proved or value, (seed, str(expr), shown)


def main(arguments: list[str] | None = None) -> int:
    """Try as many expressions as asked for; return 1 where one is wrong."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.simplify", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options = parser.parse_args(arguments)
    start, wrong = time.perf_counter(), 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            check(seed)
        except Exception as error:  # noqa: BLE001 - counted and shown
            wrong += 1
            sys.stderr.write(f"seed {seed}: {type(error).__name__}: {error}\n")
    seconds = time.perf_counter() - start
    sys.stdout.write(f"{options.count} expressions, {wrong} wrong, {seconds:.0f} s\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
