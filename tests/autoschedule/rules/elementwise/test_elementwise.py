"""Runs are parted where conditions change, and short rows are counted by loops."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.driver import as_module
from loomir.ir.visit import by_class
from loomir.script import from_source
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BufferStore, For
from loomir.transform import ScheduleOptions, lower, schedule
from tests.autoschedule.agreement import agrees
from tests.autoschedule.equivalence import assert_same_results, schedule_for


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "float64"])
def test_parts_of_rows(dtype: str):
    shapes = [(3, 37), (3, 1), (3, 0), (3, 64)]
    given = [te.placeholder(s, dtype, name=f"x{k}") for k, s in enumerate(shapes)]
    func = te.create_prim_func([*given, topi.concatenate(given, 1)])
    assert_same_results(func, *shapes, (3, 102), dtype=dtype)


@pytest.mark.parametrize("width", [1, 2, 33, 130])
def test_borders(width: int):
    x = te.placeholder((2, 3, width), "int32", name="x")
    func = te.create_prim_func([x, topi.pad(x, [(0, 0), (1, 2), (2, 1)], "constant", 7)])
    assert_same_results(func, (2, 3, width), (2, 6, width + 3), dtype="int32")


def test_long_rows_are_cut_between_edges_too():
    shapes = [(2, 30000), (2, 12345)]
    given = [te.placeholder(s, "int16", name=f"x{k}") for k, s in enumerate(shapes)]
    func = te.create_prim_func([*given, topi.concatenate(given, 1)])
    assert_same_results(func, *shapes, (2, 42345), dtype="int16", targets=("native",))


@T.prim_func
def every_way(A: T.Buffer((4, 70), "float32"), B: T.Buffer((4, 70), "float32")):
    for i, j in T.grid(4, 70):
        B[i, j] = T.if_then_else(
            T.int64(60) > j * 2 + 3 and j >= 5 and i < 3,
            A[i, j],
            T.if_then_else(
                T.int64(40) - j * 3 > -77, A[0, j], T.if_then_else(i + j >= 66, A[1, j], A[2, j])
            ),
        )


@T.prim_func
def many_edges(A: T.Buffer((90,), "int32"), B: T.Buffer((90,), "int32")):
    for j in T.grid(90):
        B[j] = (
            T.if_then_else(j < 5, A[j], 1) + T.if_then_else(j < 15, A[j], 2) + T.if_then_else(j < 25, A[j], 3)
            + T.if_then_else(j < 35, A[j], 4) + T.if_then_else(j < 45, A[j], 5) + T.if_then_else(j < 55, A[j], 6)
            + T.if_then_else(j < 65, A[j], 7) + T.if_then_else(j < 75, A[j], 8) + T.if_then_else(j < 85, A[j], 9)
        )  # fmt: skip


@T.prim_func
def outside(A: T.Buffer((90,), "int32"), B: T.Buffer((90,), "int32")):
    for j in T.grid(90):
        B[j] = (
            T.if_then_else(j < -3, A[j + 3], 1)
            + T.if_then_else(j < 95, A[j], 1)
            + T.if_then_else(j >= 200, A[j], 1)
        )


@pytest.mark.parametrize("func", [many_edges, outside], ids=["many", "outside"])
def test_edges(func: PrimFunc):
    """Those outside of a run part nothing, and many would take more code than they are worth."""
    assert_same_results(func, (90,), (90,), dtype="int32")


def test_conditions_of_all_forms():
    assert_same_results(every_way, (4, 70), (4, 70))


@T.prim_func
def planes(A: T.Buffer((3, 5, 7, 2, 16), "float32"), B: T.Buffer((3, 2, 5, 7, 16), "float32")):
    for i, j, k, m, n in T.grid(3, 2, 5, 7, 16):
        B[i, j, k, m, n] = A[i, k, m, j, n] * T.float32(3)


def test_short_rows():
    made = schedule_for(planes, "native", tasks=False)
    assert "%" not in made.func.script()
    assert_same_results(planes, (3, 5, 7, 2, 16), (3, 2, 5, 7, 16))


@T.prim_func
def with_a_number(
    A: T.Buffer((3, 120), "float32"), S: T.Buffer((), "float32"), B: T.Buffer((3, 120), "float32")
):
    for i, j in T.grid(3, 120):
        B[i, j] = A[i, j // 40 * 40 + j % 40] * S[()]


def test_one_number_for_all():
    assert_same_results(with_a_number, (3, 120), (), (3, 120))


LOOKED_UP = """
@T.prim_func
def looked_up(x: T.Buffer(({rows}, {size}), "{index}"), t: T.Buffer((256,), "{dtype}"), o: T.Buffer(({rows}, {size}), "{dtype}")):
    for i, j in T.grid({rows}, {size}):
        o[i, j] = T.if_then_else(j < {size} - 1, t[x[i, j]] + t[T.Cast("int32", x[i, j]) // 2], t[0])
"""


@pytest.mark.parametrize(
    ("index", "dtype"),
    [("uint8", "uint8"), ("uint8", "float16"), ("int32", "float32"), ("int64", "float64")],
)
def test_elements_of_tables_are_looked_up_in_vectors(index: str, dtype: str):
    """Also where rows are short."""
    random = np.random.default_rng(0)
    for rows, size in ((3, 37), (2, 1), (1, 0), (1, 30000)):
        source = LOOKED_UP.format(rows=rows, size=size, index=index, dtype=dtype)
        func = from_source(source)
        assert isinstance(func, PrimFunc)
        table = random.integers(0, 255, 256).astype(dtype)
        if dtype.startswith("float"):
            table[:3] = np.nan, -0.0, np.inf
        x = random.integers(0, 255, (rows, size)).astype(index)
        targets = ("native", "haswell") if size == 37 else ("native",)
        if size:
            agrees(func, [x, table, np.zeros((rows, size), dtype)], targets=targets, always=False)
    if size > 1:
        (plan,) = schedule_function(func, loomir.Target("native")).plans
        assert plan.choices[0].startswith("vectors of")


@T.prim_func
def column(
    x: T.Buffer((37, 2), "int32"), t: T.Buffer((256,), "float32"), o: T.Buffer((37,), "float32")
):
    for i in range(37):
        o[i] = t[x[i, 1]]


def test_indices_of_a_column_are_looked_up_one_by_one_in_steps_written_out():
    x = np.random.default_rng(0).integers(0, 255, (37, 2)).astype("int32")
    agrees(column, [x, np.arange(256, dtype="float32"), np.zeros(37, "float32")], always=False)
    made = schedule_function(column, loomir.Target("native"))
    assert made.plans[0].choices[0] == "elements are looked up one by one"
    assert "for step in T.unroll(T.int64(4)):" in made.func.script()


@T.prim_func
def gray(p: T.Buffer((9, 70, 3), "uint8"), o: T.Buffer((9, 70), "uint8")):
    for y, x in T.grid(9, 70):
        r = T.cast(p[y, x, 0], "int32")
        g = T.cast(p[y, x, 1], "int32")
        b = T.cast(p[y, x, 2], "int32")
        o[y, x] = T.cast((r * 77 + g * 150 + b * 29) >> 8, "uint8")


def test_channels_are_separated_in_registers_of_256_bits_unless_bytes_are_permuted_at_once():
    pixels = np.random.default_rng(0).integers(0, 255, (9, 70, 3)).astype("uint8")
    agrees(gray, [pixels, np.zeros((9, 70), "uint8")], targets=("native", "haswell"), always=False)
    for target, width in (("haswell", 32), ("cascadelake", 32), ("icelake-server", 64)):
        (plan,) = schedule_function(gray, loomir.Target(target)).plans
        assert plan.choices[0].startswith(f"vectors of {width} elements")


def test_with_much_to_compute_elements_are_looked_up_in_vectors():
    source = LOOKED_UP.format(rows=1, size=300, index="int32", dtype="float32")
    func = from_source(source.replace("t[0])", "T.exp(t[x[i, j]]))"))
    assert isinstance(func, PrimFunc)
    (plan,) = schedule_function(func, loomir.Target("native")).plans
    assert plan.choices[0].startswith("vectors of")


def test_tables_for_any_number_of_elements():
    n = te.var("n")
    x, t = te.placeholder((n,), "uint8", name="x"), te.placeholder((256,), "uint8", name="t")
    func = te.create_prim_func([x, t, te.compute((n,), lambda i: t[x[i]], name="o")])
    run = loomir.compile(func)
    table = np.arange(255, -1, -1).astype("uint8")
    for size in (0, 1, 7, 4099):
        x, out = np.arange(size).astype("uint8"), np.zeros(size, "uint8")
        run(x, table, out)
        np.testing.assert_array_equal(out, table[x])


GUARDED = """
@T.prim_func
def guarded(x: T.Buffer((5, 7, {size}), "{dtype}"), o: T.Buffer((9, 7, {size}), "{dtype}")):
    for i, j, c in T.grid(T.int64(9), T.int64(7), T.int64({size})):
        o[i, j, c] = T.Select(
            i * T.int64(5) % (T.int64(9) * T.int64({by})) == T.int64(0),
            x[i * T.int64(5) // (T.int64(9) * T.int64({by})), j, {at}],
            x[T.min(i * T.int64(5) // (T.int64(9) * T.int64({by})) + T.int64(1), T.int64(4)), j, {at}],
        )
"""


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
@pytest.mark.parametrize("size", [1, 13, 64])
def test_divisions_by_products_of_numbers_do_not_fail(dtype: str, size: int):
    func = from_source(GUARDED.format(dtype=dtype, size=size, by=1, at="c"))
    assert isinstance(func, PrimFunc)
    x = np.random.default_rng(0).integers(-9, 9, (5, 7, size)).astype(dtype)
    agrees(func, [x, np.zeros((9, 7, size), dtype)], targets=("native", "haswell"))


def test_divisions_along_vectors_stay_as_they_are_written():
    at = "c * T.int64(5) // (T.int64(7) * T.int64(2))"
    func = from_source(GUARDED.format(dtype="float32", size=64, by=1, at=at))
    assert isinstance(func, PrimFunc)
    assert not schedule_function(func, loomir.Target("native")).plans


def test_divisions_by_products_that_are_0_fail_all_the_same():
    func = from_source(GUARDED.format(dtype="float32", size=64, by=0, at="c"))
    assert isinstance(func, PrimFunc)
    given = np.zeros((5, 7, 64), "float32"), np.zeros((9, 7, 64), "float32")
    for run in (loomir.compile(func), lambda *a: loomir.interpret(func, func.name, *a)):
        with pytest.raises(loomir.RunError, match="RUN0"):
            run(*given)


@pytest.mark.parametrize("size", [1 << 20, 508, 72])
def test_no_element_is_left_over_where_vectors_cover_all(size: int):
    x = te.placeholder((size,), "float32", name="x")
    func = te.create_prim_func([x, topi.multiply(x, x)])
    lowered = lower(
        schedule(as_module(func), ScheduleOptions(loomir.Target("haswell")))
    ).functions.values()
    loops = [loop for f in lowered for loop in by_class(f).get(For, ())]
    assert all(s.value.dtype.lanes > 1 for f in loops for s in by_class(f).get(BufferStore, ()))
    assert_same_results(func, (size,), (size,), dtype="float32")


@T.prim_func
def laplace(p: T.Buffer((9, 90), "float32"), o: T.Buffer((7, 88), "float32")):
    for y, x in T.grid(7, 88):
        o[y, x] = (
            p[y, x + 1] + p[y + 2, x + 1] + p[y + 1, x] + p[y + 1, x + 2] - 4.0 * p[y + 1, x + 1]
        )


@T.prim_func
def difference(x: T.Buffer(("m", "n"), "float64"), o: T.Buffer(("m", "n - 1"), "float64")):
    for i, j in T.grid(o.shape[0], o.shape[1]):
        o[i, j] = x[i, j + 1] - x[i, j]


@T.prim_func
def far(p: T.Buffer((9, 90), "float32"), o: T.Buffer((7, 60), "float32")):
    for y, x in T.grid(7, 60):
        o[y, x] = p[y, x] + p[y + 2, x + 1] + p[y + 1, x + 30]


def test_loops_over_neighbours_are_left_to_the_vectoriser_of_llvm():
    random = np.random.default_rng(0)
    given = [random.standard_normal((9, 90)).astype("float32"), np.zeros((7, 88), "float32")]
    agrees(laplace, given, targets=("native", "haswell"), always=False, rtol=0)
    for m, n in ((3, 2), (2, 71)):
        agrees(difference, [random.standard_normal((m, n)), np.zeros((m, n - 1))], rtol=0)
    for func in (laplace, difference):
        (plan,) = schedule_function(func, loomir.Target("haswell")).plans
        assert plan.choices[0].startswith("LLVM vectorises")
    assert "vaddps" in loomir.compile(laplace, "haswell", cache=False).assembly()
    (plan,) = schedule_function(far, loomir.Target("haswell")).plans
    assert plan.choices[0].startswith("vectors of")
