"""Scalar expressions of graphs, compiled: the values and the mistakes of the interpreter."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import loomir
from loomir.ir import GlobalVar, IRModule
from loomir.relax import Function, PrimValue, SeqExpr, Var
from loomir.relax.struct_info import PrimStructInfo
from loomir.script import tir as T
from loomir.support.diagnostics import RunError
from loomir.support.dtype import DataType
from loomir.tir import expr as e
from loomir.tir.expr import const
from tests.clause import clauses

EXTREMES = (0, 1, -1, 2, -2, 3, 7, 62, 63, 64, 2**31 - 1, 2**31, -(2**31), 2**32, 2**61, -(2**61))
EXTREMES += (2**62, 2**63 - 1, -(2**63 - 1), -(2**63))
INT64 = DataType("int64")
N, M = e.Var("n", "int64"), e.Var("m", "int64")
FUNCTIONS = 40
RUNS = 15


def _narrowed(dtype: str) -> Callable[[Any, Any], Any]:
    to = DataType(dtype)
    return lambda a, b: e.Cast(e.Add(e.Cast(a, to), e.Cast(b, to)), INT64)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **{kind.__name__: kind for kind in (e.Add, e.Sub, e.Mul, e.Min, e.Max)},
    **{kind.__name__: kind for kind in (e.Div, e.Mod, e.FloorDiv, e.FloorMod)},
    "shift_left": T.shift_left,
    "shift_right": T.shift_right,
    "bitwise_and": T.bitwise_and,
    "bitwise_or": T.bitwise_or,
    "bitwise_xor": T.bitwise_xor,
    "bitwise_not": lambda a, b: T.bitwise_not(a),
    "abs": lambda a, b: T.abs(a),
    "Select": lambda a, b: e.Select(e.LT(a, b), a, e.Add(a, b)),
    "if_then_else": lambda a, b: T.if_then_else(e.LT(a, b), a, e.Add(a, b)),
    "And": lambda a, b: e.Select(e.And(e.NE(a, b), e.GT(e.FloorDiv(a, b), b)), a, b),
    "Or": lambda a, b: e.Select(e.Or(e.Eq(b, const(0, "int64")), e.GT(e.Mul(a, b), b)), a, b),
    "Not": lambda a, b: e.Select(e.Not(e.GE(a, b)), a, b),
    **{f"by way of {d}": _narrowed(d) for d in ("int32", "uint64", "int8", "uint16", "float32")},
}


def _module(exprs: list[Any]) -> IRModule:
    functions = {}
    for number, expr in enumerate(exprs):
        params = tuple([Var(v.name_hint, PrimStructInfo(INT64, v)) for v in (N, M)])
        name = f"f{number}"
        attrs = {"global_symbol": name}
        functions[GlobalVar(name)] = Function(
            params, SeqExpr((), PrimValue(expr)), PrimStructInfo("int64"), attrs=attrs
        )
    return IRModule(functions)


def _outcome(run: Callable[..., Any], *args: int) -> Any:
    try:
        value = run(*args)
    except RunError as error:
        return [d.code for d in error.diagnostics]
    return type(value).__name__, int(value)


def _agree(exprs: list[Any], pairs: Callable[[Any], list[tuple[int, int]]]) -> None:
    module = _module(exprs)
    made = loomir.compile(module, opt_level=1)
    for number, expr in enumerate(exprs):
        name = f"f{number}"
        for pair in pairs(expr):
            wanted = _outcome(lambda *a, name=name: loomir.interpret(module, name, *a), *pair)
            given = _outcome(made[name], *pair)
            assert given == wanted, f"{expr} with n, m = {pair}"


@clauses("RX-DIM-07")
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_on_extreme_values(name: str) -> None:
    """Decision R40."""
    make = OPERATORS[name]
    exprs = [make(N, M), *[make(N, const(v, "int64")) for v in (0, 3, -1, 63)]]
    _agree(
        exprs,
        lambda expr: [(a, b) for a in EXTREMES for b in (EXTREMES if expr is exprs[0] else (0,))],
    )


@clauses("RX-DIM-07")
def test_expressions_of_several_operators() -> None:
    """Decision R40."""
    chance = random.Random(40)

    def grown(depth: int) -> Any:
        if depth == 0 or chance.random() < 0.15:
            return chance.choice((N, M, const(chance.choice(EXTREMES), "int64")))
        make = OPERATORS[chance.choice(list(OPERATORS))]
        return make(grown(depth - 1), grown(depth - 1))

    pairs = [(a, b) for a in EXTREMES for b in EXTREMES]
    _agree([grown(3) for _ in range(FUNCTIONS)], lambda expr: chance.sample(pairs, RUNS))
