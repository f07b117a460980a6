"""Stages that read across the order in which they write are transposed in blocks."""

from __future__ import annotations

import pytest

from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.script import tir as T
from loomir.target import Target
from loomir.te import topi
from tests.autoschedule.agreement import draw, interpret_kinds, read_function
from tests.autoschedule.equivalence import assert_same_results, kinds, schedule_for


@pytest.mark.parametrize("axes", [(2, 1, 0), (0, 2, 1), (2, 0, 1)])
def test_blocks_are_transposed_and_ends_are_taken_one_by_one(axes: tuple[int, ...]):
    x = te.placeholder((19, 5, 37), name="x")
    out = tuple((19, 5, 37)[a] for a in axes)
    func = te.create_prim_func([x, topi.transpose(x, axes)])
    assert kinds(assert_same_results(func, (19, 5, 37), out)) == ["transpose"]


def test_rows_that_stay_in_order_are_copied():
    x = te.placeholder((6, 5, 37), name="x")
    func = te.create_prim_func([x, topi.transpose(x, (1, 0, 2))])
    assert kinds(assert_same_results(func, (6, 5, 37), (5, 6, 37))) == ["element-wise"]


@pytest.mark.parametrize("dtype", ["int8", "float16", "float64"])
def test_other_elements(dtype: str):
    x = te.placeholder((35, 21), dtype, name="x")
    func = te.create_prim_func([x, topi.transpose(x)])
    assert kinds(assert_same_results(func, (35, 21), (21, 35), dtype=dtype)) == ["transpose"]


def test_what_is_done_with_the_elements_rides_along():
    x, y = te.placeholder((20, 33), name="x"), te.placeholder((33, 20), name="y")
    out = topi.add(topi.relu(topi.transpose(x)), topi.multiply(y, topi.transpose(x)))
    made = assert_same_results(te.create_prim_func([x, y, out]), (20, 33), (33, 20), (33, 20))
    assert kinds(made) == ["transpose"]


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    m, n = T.int64(), T.int64()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.sblock("transpose"):
            y, x = T.axis.remap("SS", [i, j])
            B[y, x] = B[y, x] + A[x, y]


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 40), (70, 33)])
def test_sizes_that_are_known_at_the_call_only(shape: tuple[int, int]):
    target = "haswell" if shape[0] == 70 else "native"
    assert kinds(assert_same_results(symbolic, shape, shape[::-1], targets=(target,))) == [
        "transpose"
    ]


@T.prim_func
def diagonal(A: T.Buffer((40, 40, 40), "float32"), B: T.Buffer((40, 40), "float32")):
    for i, j in T.grid(40, 40):
        B[i, j] = T.if_then_else(i < 20, A[j, j, i], A[j, i, i])


def test_reads_that_may_not_be_made_in_blocks_are_left():
    made = schedule_for(diagonal, "native", tasks=False)
    assert kinds(made) == ["element-wise"]
    assert_same_results(diagonal, (40, 40, 40), (40, 40))


def test_the_plan_says_what_lies_where():
    x = te.placeholder((64, 64), name="x")
    func = te.create_prim_func([x, topi.transpose(x)])
    (plan,) = schedule_function(func, Target("haswell")).plans
    assert "blocks of 8 x 8 are transposed in registers: x lies along v_i0" in plan.choices[0]


def test_places_that_move_along_both_axes_are_read_one_by_one():
    func = read_function(
        'x: T.Buffer((60, 20), "float32"), o: T.Buffer((20, 40), "float32")',
        "for i, j in T.grid(20, 40):\n    o[i, j] = x[j + i, i]",
    )
    assert interpret_kinds(func, draw(func)) == ["element-wise"]
