"""Memory moves into loops where iterations provably share nothing through it."""

from __future__ import annotations

from typing import Any

import pytest

from loomir.ir.node import Node
from loomir.ir.visit import fold
from loomir.script import from_source
from loomir.tir.function import PrimFunc
from loomir.transform.tir.memory import plan_and_update_buffer_allocation_location as planning
from loomir.transform.tir.memory.plan_and_update_buffer_allocation_location import (
    plan_and_update_buffer_allocation_location,
)
from tests.transform.meaning import assert_becomes, assert_stays, check

HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), n: T.int32):
"""
OUTSIDE = """
    d = T.allocate([2], "int32", "local")
    t = T.decl_buffer((2,), "int32", data=d)
"""


def read(text: str) -> PrimFunc:
    """Read a function."""
    made = from_source(text)
    assert isinstance(made, PrimFunc)
    return made


def test_expressions_that_read_no_such_memory_are_passed_over(monkeypatch: pytest.MonkeyPatch):
    looked: list[str] = []

    def noted(root: Node, fn: Any) -> Any:
        looked.append(str(root))
        return fold(root, fn)

    monkeypatch.setattr(planning, "fold", noted)
    text = """
    for i in range(T.int64(8)):
        t[T.int64(0)] = A[i] + A[i * T.int64(2)]
        A[i] = t[T.int64(0)] * A[i + T.int64(8)]
"""
    func = read("from loomir.script import tir as T\n" + HEAD + OUTSIDE + text)
    assert plan_and_update_buffer_allocation_location(func) is not func
    assert looked == ["t[T.int64(0)] * A[i + T.int64(8)]"]


def test_into_the_loop_that_uses_it():
    assert_becomes(
        plan_and_update_buffer_allocation_location,
        HEAD
        + OUTSIDE
        + """
    for i in range(T.int64(8)):
        t[T.int64(0)] = A[i]
        A[i] = t[T.int64(0)] * t[T.int64(0)]
""",
        HEAD
        + """
    for i in range(T.int64(8)):
        d = T.allocate([2], "int32", "local")
        t = T.decl_buffer((2,), "int32", data=d)
        t[T.int64(0)] = A[i]
        A[i] = t[T.int64(0)] * t[T.int64(0)]
""",
    )


@pytest.mark.parametrize(
    "loop",
    [
        # carried from one iteration to the next
        "t[T.int64(0)] = 0\nfor i in range(T.int64(8)):\n    t[T.int64(0)] = t[T.int64(0)] + A[i]",
        (
            "for i in range(T.int64(8)):\n    if i == T.int64(0):\n        t[T.int64(0)] = 5\n"
            "    A[i] = t[T.int64(0)]"
        ),
        # stored by an inner loop that may not run
        (
            "for i in range(T.int64(8)):\n    for j in range(T.Cast('int64', n)):\n"
            "        t[T.int64(0)] = 5\n    A[i] = t[T.int64(0)]"
        ),
        # stored at an element that is not known
        "for i in range(T.int64(8)):\n    t[i % T.int64(2)] = 5\n    A[i] = t[T.int64(0)]",
    ],
)
def test_what_may_be_carried_stays_outside(loop: str):
    text = HEAD + OUTSIDE + "\n".join("    " + line for line in loop.splitlines()) + "\n"
    assert_stays(plan_and_update_buffer_allocation_location, text)


def test_both_branches_store():
    made = check(
        HEAD
        + OUTSIDE
        + """
    for i in T.parallel(8):
        if i < 3:
            t[0] = 5
        else:
            t[0] = 6
        A[i] = t[0]
"""
    )
    text = made.script()
    assert text.index("T.parallel") < text.index("alloc")


def test_a_local_of_a_vector_loop_becomes_lanes():
    made = check(
        HEAD
        + """
    t = T.alloc_buffer((1,), "int32", scope="local")
    for i in T.vectorized(16):
        t[0] = A[i] * 2
        A[i] = t[0] + n
"""
    )
    assert "T.Broadcast(n, 16)" in made.script()
