"""Short last axes are filled by mixing vectors along the one before."""

from __future__ import annotations

import pytest

from loomir import te
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.equivalence import assert_same_results, kinds, schedule_for


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "float16"])
@pytest.mark.parametrize("places", [2, 3, 7, 8])
def test_planes_become_pixels(places: int, dtype: str):
    shape = (2, places, 3, 71) if dtype == "float32" else (places, 211)
    axes = (0, 2, 3, 1) if dtype == "float32" else (1, 0)
    x = te.placeholder(shape, dtype, name="x")
    func = te.create_prim_func([x, topi.transpose(x, axes)])
    out = tuple(shape[a] for a in axes)
    assert_same_results(
        func, shape, out, dtype=dtype, targets=("haswell",) if places == 3 else ("native",)
    )
    if places < 8:
        target = "haswell" if places == 3 else "znver5"
        assert "mixed" in schedule_for(func, target, tasks=False).plans[0].choices[0]


def test_what_is_computed_rides_along():
    x, y = te.placeholder((3, 70), name="x"), te.placeholder((3,), name="y")
    out = te.compute((70, 3), lambda i, c: te.abs(x[c, i]) * y[c] + 1.0)
    made = assert_same_results(te.create_prim_func([x, y, out]), (3, 70), (3,), (70, 3))
    assert "3 vectors of" in made.plans[0].choices[0]


def test_arrays_are_put_side_by_side():
    x, y = te.placeholder((5, 37), name="x"), te.placeholder((5, 37), name="y")
    func = te.create_prim_func([x, y, topi.stack((x, y), 2)])
    made = assert_same_results(func, (5, 37), (5, 37), (5, 37, 2))
    assert "mixed" in made.plans[0].choices[0]


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    m, n = T.int64(), T.int64()
    A = T.match_buffer(a, (m, 3, n), "float32")
    B = T.match_buffer(b, (m, n, 3), "float32")
    for i, j, k in T.grid(m, n, 3):
        with T.sblock("pixels"):
            z, y, x = T.axis.remap("SSS", [i, j, k])
            B[z, y, x] = A[z, x, y] * T.float32(2)


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 40), (2, 0), (7, 133)])
def test_sizes_that_are_known_at_the_call_only(shape: tuple[int, int]):
    m, n = shape
    made = assert_same_results(symbolic, (m, 3, n), (m, n, 3))
    assert "mixed" in made.plans[0].choices[0]


@T.prim_func
def part_of_rows(A: T.Buffer((3, 64), "float32"), B: T.Buffer((64, 4), "float32")):
    for i, j in T.grid(64, 3):
        B[i, j] = A[j, i]


@T.prim_func
def chosen(A: T.Buffer((3, 64), "float32"), B: T.Buffer((64, 3), "float32")):
    for i, j in T.grid(64, 3):
        B[i, j] = T.if_then_else(i < 60, A[j, i + 4], T.float32(0))


@T.prim_func
def looked_up(
    A: T.Buffer((3, 64), "float32"), N: T.Buffer((64,), "int32"), B: T.Buffer((64, 3), "float32")
):
    for i, j in T.grid(64, 3):
        B[i, j] = A[j, i] + A[j, T.Cast("int64", N[i]) % T.int64(64)]


@pytest.mark.parametrize(("func", "width"), [(part_of_rows, 4), (chosen, 3)], ids=["gap", "end"])
def test_what_may_not_be_mixed(func: PrimFunc, width: int):
    """Rows with a gap have no vector behind each other, nor is memory read that is not there."""
    made = schedule_for(func, "native", tasks=False)
    assert not any("mixed" in text for plan in made.plans for text in plan.choices)
    assert_same_results(func, (3, 64), (64, width))


def test_lookups_are_left():
    made = schedule_for(looked_up, "native", tasks=False)
    assert "mixed" not in str(kinds(made)) + str([p.choices for p in made.plans])
