"""Scans keep their order along their axis, and are shared along the others."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.lift.lift_loops import Reader
from loomir.autoschedule.rules.reduction.scan import plan_scan
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.stmt import DeclBuffer
from tests.autoschedule.agreement import draw, interpret_kinds, read_function
from tests.autoschedule.equivalence import assert_same_results, kinds, schedule_for


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_are_equal_bit_for_bit(axis: int, reverse: bool):
    x = te.placeholder((3, 7, 270), name="x")
    func = te.create_prim_func([x, topi.cumsum(x, axis, reverse=reverse, exclusive=reverse)])
    made = assert_same_results(func, (3, 7, 270), (3, 7, 270), targets=("native", "native"))
    assert kinds(made) == ["scan"]


def test_a_scan_over_all_has_nothing_to_share():
    x = te.placeholder((300,), name="x")
    func = te.create_prim_func([x, topi.cumsum(x, 0)])
    assert not schedule_for(func, "native", tasks=True).plans


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    m, n = T.int64(), T.int64()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    for j, i in T.grid(m, n):
        if i < 2:
            B[j, i] = A[j, i]
        else:
            B[j, i] = B[j, i - 1] - B[j, i - 2] * A[j, i]


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (5, 300)])
def test_sizes_that_are_known_at_the_call_only(shape: tuple[int, int]):
    assert kinds(assert_same_results(symbolic, shape, shape, targets=("native",))) == ["scan"]


@T.prim_func
def crossing(A: T.Buffer((9, 300), "float32")):
    for i, j in T.grid(8, 299):
        A[i + 1, j] = A[i, j] + A[i, j + 1]


def test_what_reads_other_columns_of_the_row_before_is_shared_within_a_row():
    (plan,) = schedule_for(crossing, "native", tasks=True).plans
    assert plan.choices == ("threads share the iterations of j",)
    assert_same_results(crossing, (9, 300))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((64, 300), 0), ((64, 300), 1), ((5000,), 0)])
@pytest.mark.parametrize("name", ["cumprod", "cumsum"])
def test_infinities_and_zeros_reach_what_they_reach_step_by_step(
    name: str, shape: tuple[int, ...], axis: int, exclusive: bool
) -> None:
    mod = loomir.script.from_source(f"""
from loomir.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({shape}, "float32")):
        y = R.{name}(x, axis={axis}, exclusive={exclusive})
        return y
""")
    random = np.random.default_rng(0)
    odd = random.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30], shape)
    plain = random.choice([1.0, -1.0, 2.0, 0.5], shape)
    compiled = loomir.compile(mod, opt_level=1)["main"]
    for share in (0.0, 0.001, 0.05):
        x = np.where(random.random(shape) < share, odd, plain).astype("float32")
        with np.errstate(all="ignore"):
            wanted = getattr(np, name)(x, axis, dtype="float32")
        if exclusive:
            wanted = np.delete(np.insert(wanted, 0, float(name == "cumprod"), axis), -1, axis)
        np.testing.assert_array_equal(compiled(x), wanted)


@T.prim_func
def inner_rows(n: T.int64, m: T.int64, A: T.Buffer((4, 4, 9), "float32")):
    for i, j, k in T.grid(n - 5, m - 5, 8):
        A[i, j, k + 1] = A[i, j, k] + A[i, j, k + 1]


def test_two_loops_that_end_before_they_begin_do_not_make_iterations_together():
    grid = np.arange(4 * 4 * 9, dtype="float32").reshape(4, 4, 9)
    run = loomir.compile(schedule_for(inner_rows, "native", tasks=True).func)
    for n, m, rows in ((2, 2, (0, 0)), (2, 8, (0, 3)), (7, 8, (2, 3))):
        made, wanted = grid.copy(), grid.copy()
        run(n, m, made)
        part = wanted[: rows[0], : rows[1]]
        part[...] = np.cumsum(part, axis=2)
        np.testing.assert_array_equal(made, wanted)


def test_two_buffers_of_one_memory_keep_the_order_of_both():
    func = read_function(
        'x: T.Buffer((40,), "float32")',
        """
rows = T.decl_buffer((4, 10), "float32", data=x.data)
for i, j in T.grid(4, 10):
    rows[i, j] = x[39 - i * 10 - j] + rows[i, j]
""",
    )
    assert isinstance(func.body, DeclBuffer)
    assert plan_scan(func.body.body, Reader(func)) is None
    assert interpret_kinds(func, draw(func)) == []
