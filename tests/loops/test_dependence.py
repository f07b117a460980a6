"""Dependences between the iterations of loops."""

from __future__ import annotations

import pytest

from loomir.ir.visit import pre_order
from loomir.loops.dependence import (
    explain_dependence,
    find_carrying_loops,
    find_unsafe_loop,
    has_own_axis,
)
from loomir.loops.ranges import loop_range
from loomir.script import from_source
from loomir.script import tir as T
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For


def loops_of(func: PrimFunc) -> list[For]:
    return [part for part in pre_order(func.body) if isinstance(part, For)]


def test_vectors_of_neighbouring_iterations_overlap():
    @T.prim_func
    def main(a: T.Buffer((20,), "int32")):
        for i in range(4):
            a[T.Ramp(i * 2, 1, 4)] = T.Broadcast(i, 4)

    assert "share elements of 'a'" in explain_dependence(loops_of(main)[0], {})


@pytest.mark.parametrize(
    ("body", "carrying"),
    [
        ("A[i, j] = A[i, j] + 1", []),
        ("A[i + 1, j] = A[i, j]", ["i"]),
        ("A[i, j + 1] = A[i, j]", ["j"]),
        ("A[i, 0] = A[i, 0] + j", ["j"]),
        ("A[i, j] = A[j, i]", ["i", "j"]),
        ("A[i + 8, j] = A[i, j]", []),  # what is read lies before all that is written
        ("A[i, j] = T.call_extern('int32', 'f', i)", ["i", "j"]),
    ],
)
def test_the_loops_of_a_nest_that_carry_a_dependence(body: str, carrying: list[str]):
    text = f"""
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((16, 16), "int32")):
    for i, j in T.grid(8, 8):
        {body}
"""
    func = from_source(text)
    assert isinstance(func, PrimFunc)
    found = find_carrying_loops(loops_of(func), {})
    assert [loop.loop_var.name_hint for loop, _ in found] == carrying


def test_the_outermost_loop_that_may_not_run_at_once():
    @T.prim_func
    def main(a: T.Buffer((9, 8), "int32")):
        for i in T.parallel(8):
            for j in T.vectorized(8):
                a[i + 1, j] = a[i, j]

    outer, inner = loops_of(main)
    assert explain_dependence(inner, {outer.loop_var: loop_range(outer)}) == ""
    found = find_unsafe_loop([outer, inner], {})
    assert found is not None
    loop, why = found
    assert loop is outer
    assert "iterations of 'i' share elements of 'a'" in why
    assert find_unsafe_loop([inner], {}) is None


def test_a_variable_that_is_an_index_of_all_accesses_by_itself():
    i, j = Var("i", "int32"), Var("j", "int32")
    assert has_own_axis(i, [(i, j), (i, i)])
    assert not has_own_axis(i, [(i, j), (j, i)])
    assert not has_own_axis(i, [(i + 1,)])
