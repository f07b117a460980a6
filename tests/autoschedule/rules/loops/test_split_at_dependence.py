"""Loops of which one iteration depends on others are vectors but for that one."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.check.tir.verify import verify
from loomir.driver import as_module
from loomir.script import from_source
from loomir.script import tir as T
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.transform import ScheduleOptions, schedule
from tests.autoschedule.agreement import draw, interpret_kinds, read_function
from tests.autoschedule.equivalence import schedule_for
from tests.autoschedule.rules.reduction.test_ordered_sums import (
    arrays_for,
    drawn,
    exactly,
    interpreted,
)


def has_vectors(func: PrimFunc) -> bool:
    return "T.vectorized" in schedule_for(func, "native", tasks=False).func.script()


@T.prim_func
def paths(d: T.Buffer((37, 37), "float32")):
    for k in range(37):
        for i in range(37):
            for j in range(37):
                d[i, j] = T.min(d[i, j], d[i, k] + d[k, j])


@T.prim_func
def paths_under_a_condition(d: T.Buffer((37, 37), "float32")):
    for k, i, j in T.grid(37, 37, 37):
        if d[i, k] + d[k, j] < d[i, j]:
            d[i, j] = d[i, k] + d[k, j]


@T.prim_func
def shifted(d: T.Buffer((40, 50), "float64")):
    for i in range(2, 40):
        for j in range(3, 47):
            d[i, j + 2] = d[i, j + 2] * d[i, i + 5] + d[i - 1, j + 2]


@T.prim_func
def one_row(d: T.Buffer((50,), "float32")):
    for k in range(50):
        for j in range(50):
            d[j] = d[j] - d[k] * T.float32(0.5)


@pytest.mark.parametrize("func", [paths, paths_under_a_condition, shifted, one_row])
def test_the_others_are_vectors(func: PrimFunc) -> None:
    assert has_vectors(func)
    (array,) = arrays_for(func)
    exactly(func, array)
    exactly(func, *arrays_for(func, special=True))
    if func is shifted:
        interpreted(func, array)


@T.prim_func
def of_any_size(d_: T.handle):
    n = T.int64()
    d = T.match_buffer(d_, (n, n))
    for k, i, j in T.grid(n, n, n):
        d[i, j] = T.min(d[i, j], d[i, k] + d[k, j])


def test_sizes_are_known_at_run_time() -> None:
    run = loomir.compile(of_any_size)
    written = loomir.compile(of_any_size, schedule=False, opt_level=0)
    for n in (0, 1, 20):
        d = drawn(n, n)
        wanted = d.copy()
        run(d)
        written(wanted)
        np.testing.assert_array_equal(d, wanted)


# -- what is left as it is ---------------------------------------------------------------------
@T.prim_func
def two_are_shared(d: T.Buffer((40, 40), "float32")):
    for k in range(39):
        for i, j in T.grid(40, 40):
            d[i, j] = T.min(d[i, j], d[i, k] + d[i, k + 1])


@T.prim_func
def a_neighbour(d: T.Buffer((40, 41), "float32")):
    for k in range(40):
        for i, j in T.grid(40, 40):
            d[i, j + 1] = T.min(d[i, j + 1], d[i, k] + d[k, j])


@T.prim_func
def outside_of_the_loop(d: T.Buffer((40, 60), "float32")):
    for k in range(60):
        for i, j in T.grid(40, 40):
            d[i, j] = T.min(d[i, j], d[i, k] + T.float32(1))


@T.prim_func
def found_by_reading(d: T.Buffer((40, 40), "float32"), p: T.Buffer((40,), "int32")):
    for i in range(1, 40):
        for j in range(40):
            d[i, j] = d[i, j] + d[i, p[i]] + d[i - 1, j]


@T.prim_func
def read_where_it_holds(d: T.Buffer((40, 40), "float32"), e: T.Buffer((20, 40), "float32")):
    for k, i, j in T.grid(40, 40, 40):
        if d[i, k] < d[i, j] + T.Cast("float32", i) * T.float32(1e9) - T.float32(20e9):
            d[i, j] = d[i, j] + e[19 - T.min(i, 39 - i), j]


@pytest.mark.parametrize(
    "func",
    [two_are_shared, a_neighbour, outside_of_the_loop, found_by_reading, read_where_it_holds],
)
def test_loops_that_share_more_are_as_written(func: PrimFunc) -> None:
    assert not has_vectors(func)
    arrays = arrays_for(func)
    if func is found_by_reading:
        arrays[1] = np.arange(40, dtype="int32")[::-1].copy()
    exactly(func, *arrays)


def test_indices_of_several_dtypes_stay_as_they_are():
    @T.prim_func
    def mixed(a: T.Buffer((7,), "int32"), x: T.int32):
        for i in range(T.uint8(4)):
            a[i] = T.max(T.Cast("int32", i), a[T.min(T.max(7 & x, 0), 6)])

    for given in (0, 3, 9):
        wanted, got = (
            np.arange(7, dtype="int32")[::-1].copy(),
            np.arange(7, dtype="int32")[::-1].copy(),
        )
        loomir.compile(mixed, cache=False)(got, given)
        loomir.compile(mixed, schedule=False, cache=False)(wanted, given)
        assert (wanted == got).all()


def test_every_copy_binds_names_of_its_own():
    func = from_source("""
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((600,), "int32"), B: T.Buffer((600,), "int32")):
    for i in range(600):
        t = T.int32()
        A[i] = T.Let(t + t, where={t: A[70]}) + B[i]
""")
    made = schedule(as_module(func), ScheduleOptions(Target("x86-64-v4")))
    assert made.script().count("T.vectorized") > 1
    assert not verify(made)


@pytest.mark.parametrize(("steps", "kinds"), [(20, ["loops as written"]), (30, [])])
def test_the_iteration_must_be_one_of_the_loop(steps: int, kinds: list[str]) -> None:
    func = read_function(
        'd: T.Buffer((30, 30), "int32")',
        f"""
for k in range({steps}):
    for i, j in T.grid(30, 20):
        d[i, j] = T.min(d[i, j], d[i, k] + d[k, j])
""",
    )
    assert interpret_kinds(func, draw(func)) == kinds
