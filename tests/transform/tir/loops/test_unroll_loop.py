"""Unrolled loops are written out where that is of use, and mean what serial ones mean."""

from __future__ import annotations

import pytest

from loomir.ir.visit import pre_order
from loomir.tir import AttrStmt, For, ForKind
from loomir.transform.tir.loops.unroll_loop import UnrollOptions, unroll_loop
from tests.clause import clauses
from tests.transform.meaning import assert_becomes, assert_stays, check, only

HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), n: T.int32):
"""


@clauses("TIR-STMT-15")
def test_iterations_in_their_order_with_variables_of_their_own():
    assert_becomes(
        unroll_loop,
        HEAD
        + """
    for i in T.unroll(2, 5):
        x: T.int32 = A[i]
        t = T.alloc_buffer((2,), "int32")
        for j in range(2):
            t[j] = x + i
        A[i] = t[0]
""",
        HEAD
        + "".join(
            f"""
    with T.LetStmt(A[{i}]) as x{i}:
        with T.allocate([2], "int32", "global") as d{i}:
            with T.decl_buffer((2,), "int32", data=d{i}) as t{i}:
                for j in range(2):
                    t{i}[j] = x{i} + {i}
                A[{i}] = t{i}[0]
"""
            for i in (2, 3, 4)
        ),
    )


def test_nested_loops_innermost_first():
    made = check(
        HEAD
        + """
    for i in T.unroll(3):
        for j in T.unroll(2):
            A[i * 2 + j] = n + i
"""
    )
    assert not [p for p in pre_order(only(made).body) if isinstance(p, For)]
    assert "A[T.int64(5)] = n + 2" in made.script()


@pytest.mark.parametrize(
    "loop",
    [
        "T.unroll(n)",
        "T.unroll(n, 8)",
    ],
)
def test_bounds_that_are_not_constant(loop: str):
    made = check(HEAD + f"\n    for i in {loop}:\n        A[i] = i\n", {"n": 5})
    kinds = [p.kind for p in pre_order(only(made).body) if isinstance(p, For)]
    assert kinds == [ForKind.SERIAL]


@pytest.mark.parametrize("jump", ["break", "continue"])
def test_a_loop_that_is_left_early_stays_a_loop(jump: str):
    text = (
        HEAD
        + f"\n    for i in T.unroll(8):\n        if A[i] > n:\n            {jump}\n        A[i] = 9\n"
    )
    made = check(text)
    assert [p.kind for p in pre_order(only(made).body) if isinstance(p, For)] == [ForKind.SERIAL]


def test_a_loop_too_large_stays_a_loop():
    text = HEAD + "\n    for i in T.unroll(64):\n        A[i] = A[i] + 1\n"
    small = UnrollOptions(max_nodes=200)
    made = check(text, unroll=small)
    assert [p.kind for p in pre_order(only(made).body) if isinstance(p, For)] == [ForKind.SERIAL]
    made = check(text)
    assert not [p for p in pre_order(only(made).body) if isinstance(p, For)]


def test_no_iterations():
    check(HEAD + "\n    for i in T.unroll(0):\n        A[i] = 1\n")
    check(HEAD + "\n    for i in T.unroll(4, 2):\n        A[i] = 1\n")


def test_wrapping_of_narrow_variables():
    check(
        HEAD
        + "\n    for i in T.unroll(T.int8(120), T.int8(127)):\n        A[(i + i) % T.int8(64)] = 1\n"
    )


def test_serial_loops_stay():
    assert_stays(unroll_loop, HEAD + "\n    for i in range(8):\n        A[i] = 1\n")


def test_a_note_about_a_buffer_binds_nothing():
    made = check(
        HEAD
        + """
    for i in T.unroll(3):
        with T.attr(A.data, "volatile_scope", 1):
            A[i] = i
"""
    )
    notes = [p for p in pre_order(only(made).body) if isinstance(p, AttrStmt)]
    assert len({id(p.node) for p in notes}) == 1


def test_a_buffer_declared_inside_stays_in_the_memory_around():
    made = check(
        HEAD
        + """
    for i in T.unroll(3):
        D = T.decl_buffer((8,), "int32", data=A.data, elem_offset=i)
        D[i] = D[0] + n
"""
    )
    assert not [p for p in pre_order(only(made).body) if isinstance(p, For)]
