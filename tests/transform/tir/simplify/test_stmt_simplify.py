"""Constants are folded as the program computes them; floats and failures stay as they are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from loomir.arith.fold import fold_node
from loomir.support.dtype import DataType
from loomir.tir import (
    LT,
    Add,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Sub,
)
from loomir.transform.tir.simplify.stmt_simplify import stmt_simplify
from tests.transform.meaning import assert_becomes, assert_stays, check

HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), F: T.Buffer((8,), "float32"), n: T.int32):
"""


def becomes(before: str, after: str) -> None:
    lines = ["\n".join("    " + x for x in t.strip().splitlines()) + "\n" for t in (before, after)]
    assert_becomes(stmt_simplify, HEAD + lines[0], HEAD + lines[1], sizes={"n": 3})


def stays(text: str) -> None:
    assert_stays(
        stmt_simplify, HEAD + "\n".join("    " + x for x in text.strip().splitlines()) + "\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("n + 0", "n"),
        ("0 + n", "n"),
        ("n - 0", "n"),
        ("n * 1", "n"),
        ("1 * n", "n"),
        ("n * 0", "0"),
        ("n + 2 + 3", "n + 5"),
        ("n * 2 * 3", "n * 6"),
        ("n // 1", "n"),
        ("n % 1", "0"),
        ("T.truncdiv(n, 1)", "n"),
        ("T.int32(2147483647) + T.int32(1)", "T.int32(-2147483648)"),
        ("T.truncdiv(T.int32(-2147483648), T.int32(-1))", "T.int32(-2147483648)"),
        ("T.int32(-7) // T.int32(2)", "T.int32(-4)"),
        ("T.truncdiv(T.int32(-7), T.int32(2))", "T.int32(-3)"),
        ("T.truncmod(T.int32(-7), T.int32(2))", "T.int32(-1)"),
        ("T.int32(-7) % T.int32(2)", "T.int32(1)"),
        ("T.if_then_else(T.int32(1) < T.int32(2), n, A[0])", "n"),
        ("T.Select(T.int32(1) < T.int32(2), n, n * 2)", "n"),
        ("T.Cast('int32', T.Cast('int8', T.int32(300)))", "44"),
        ("T.min(T.int32(3), T.int32(-2)) + n", "n + -2"),
    ],
)
def test_integers(before: str, after: str):
    becomes(f"A[0] = {before}", f"A[0] = {after}")


@pytest.mark.parametrize(
    "text",
    [
        "A[0] = n // 0",
        "A[0] = T.int32(5) // T.int32(0)",
        "A[0] = n // n * 0",  # it may fail
        "A[0] = T.Select(T.bool(True), n, n // n)",
        "F[0] = F[1] + T.float32(0)",
        "F[0] = F[1] * T.float32(1)",
        "F[0] = F[1] * T.float32(0)",
        "F[0] = F[1] - F[1]",
        "A[0] = T.Cast('int32', F[1] == F[1])",
        "assert n > 5, 'small'\nA[0] = 1",
        "x: T.int32 = A[0]\nA[0] = 1\nA[1] = x",
    ],
)
def test_what_stays_as_it_is(text: str):
    stays(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if T.int32(1) < T.int32(2):\n    A[0] = 1\nelse:\n    A[0] = A[0] // 0", "A[0] = 1"),
        ("for i in range(1):\n    A[i] = i", "A[0] = 0"),
        ("x: T.int32 = 4\nA[x] = x + 1", "A[4] = 5"),
        ("x: T.int32 = n\ny: T.int32 = x\nA[0] = x + y", "A[0] = n + n"),
        ("assert T.int32(1) < T.int32(2), 'no'\nA[0] = 1", "A[0] = 1"),
        ("if n > 2 and T.bool(True):\n    A[0] = 1", "if n > 2:\n    A[0] = 1"),
        ("if n > 2 or T.bool(False):\n    A[0] = 1", "if n > 2:\n    A[0] = 1"),
        ("if n > 2 or not T.bool(True):\n    A[0] = 1", "if n > 2:\n    A[0] = 1"),
    ],
)
def test_statements(before: str, after: str):
    becomes(before, after)


def test_a_loop_that_runs_once_from_anywhere():
    becomes(
        "for i in T.serial(n * 2, extent=1):\n    A[i] = i",
        "with T.LetStmt(n * 2) as i:\n    A[i] = i",
    )
    becomes(
        "for i in T.serial(n, extent=1):\n    A[i] = i",
        "A[n] = n",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A[(i * 4 + j) // 4] = i", "A[i] = i"),
        ("A[(i * 4 + j) % 4] = i", "A[j] = i"),
        ("A[i // 4 * 4 + i % 4] = i // 16", "A[i // 4 * 4 + i % 4] = 0"),
        ("A[T.min(i, 40)] = T.max(j, 0)", "A[i] = j"),
        ("if i * 4 + j < 64:\n    A[i] = j", "A[i] = j"),
        ("if i * 4 + j >= 64:\n    A[i] = j", ""),
        ("A[i] = T.min(i + n, i + n + 1)", "A[i] = T.min(i + n, i + n + 1)"),  # it may wrap
    ],
)
def test_what_loops_tell(before: str, after: str):
    def nest(text: str) -> str:
        inside = "\n".join("        " + line for line in text.splitlines())
        return f"for i in range(16):\n    for j in range(4):\n{inside}"

    if after:
        becomes(nest(before), nest(after))
    else:
        check(HEAD + "\n".join("    " + line for line in nest(before).splitlines()) + "\n")


def test_a_loop_that_is_left_stays_a_loop():
    check(HEAD + "    for i in range(1):\n        if n > 2:\n            break\n        A[i] = 5\n")


KINDS: list[Any] = [Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, Eq, LT]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_folding_agrees_with_the_interpreter(kind: Any, name: str):
    """For all pairs of interesting values of a dtype; the interpreter is the definition."""
    dtype = DataType(name)
    from loomir.interp import interpret
    from loomir.tir import Evaluate, PrimFunc, call_builtin

    values = [
        dtype.min_value,
        dtype.min_value + 1,
        0,
        1,
        2,
        3,
        7,
        dtype.max_value - 1,
        dtype.max_value,
    ]
    if dtype.is_int:
        values += [-1, -2, -3, -7]
    for a, b in itertools.product(values, values):
        e = kind(IntImm(a, dtype), IntImm(b, dtype))
        made = fold_node(e)
        if b == 0 and kind in (Div, Mod, FloorDiv, FloorMod):
            assert made is e
            continue
        assert isinstance(made, IntImm)
        func = PrimFunc((), Evaluate(call_builtin("ret", e)))
        assert made.value == interpret(func, "main"), (a, b)


def test_what_is_asked_again_has_the_same_answer_where_the_variables_are_the_same():
    becomes(
        """
for i in range(8):
    for j in range(8):
        A[i * 8 + j] = T.min(i, 7) + T.min(i, 7) + T.min(n, 7) + T.min(n, 7)
for i in range(9):
    A[i] = T.min(i, 7) + T.min(T.min(i, 8), n)
""",
        """
for i in range(8):
    for j in range(8):
        A[i * 8 + j] = i + i + T.min(n, 7) + T.min(n, 7)
for i in range(9):
    A[i] = T.min(i, 7) + T.min(i, n)
""",
    )
