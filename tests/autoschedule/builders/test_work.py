"""Work of groups of stages, counted by hand beside."""

from __future__ import annotations

from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.target import Target
from loomir.te import topi
from loomir.te.tensor import Tensor


def work(*tensors: Tensor) -> tuple[int | None, int | None]:
    func = te.create_prim_func(list(tensors))
    plans = schedule_function(func, Target("haswell")).plans
    if any(p.flops is None or p.bytes is None for p in plans):
        return None, None
    return sum(p.flops or 0 for p in plans), sum(p.bytes or 0 for p in plans)


def test_a_product_counts_each_matrix_once():
    a, b = te.placeholder((32, 48)), te.placeholder((48, 64))
    wanted = 2 * 32 * 48 * 64, 4 * (32 * 48 + 48 * 64 + 32 * 64)
    assert work(a, b, topi.matmul(a, b)) == wanted


def test_an_epilogue_is_counted_and_what_lies_between_is_not_moved():
    a, b, c = te.placeholder((32, 48)), te.placeholder((48, 64)), te.placeholder((64,))
    made = topi.relu(topi.add(topi.matmul(a, b), c))
    flops, moved = work(a, b, c, made)
    assert flops == 2 * 32 * 48 * 64 + 2 * 32 * 64
    assert moved == 4 * (32 * 48 + 48 * 64 + 64 + 32 * 64)


def test_indices_are_no_work_and_a_gather_touches_what_it_takes():
    table, rows = te.placeholder((1000, 8)), te.placeholder((5,), "int32")
    made = te.compute((5, 8), lambda i, j: table[rows[i], 7 - j] + 1.0)
    flops, moved = work(table, rows, made)
    assert flops == 5 * 8
    assert moved == 4 * (5 * 8 + 5 + 5 * 8)


def test_symbolic_sizes_have_no_number():
    n = te.size_var("n")
    a = te.placeholder((n, 4))
    assert work(a, topi.exp(a)) == (None, None)


def test_the_stages_of_a_plan_are_those_it_covers():
    a, b = te.placeholder((32, 48)), te.placeholder((48, 64))
    product = topi.matmul(a, b)
    func = te.create_prim_func([a, b, topi.relu(product)])
    (plan,) = schedule_function(func, Target("haswell")).plans
    assert [stage.name for stage in plan.stages] == ["matmul", "relu"]
    assert [buffer.name for buffer in plan.inner] == ["matmul"]
