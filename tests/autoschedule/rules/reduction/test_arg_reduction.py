"""Reductions that choose: vectors and threads choose the very elements that the program does."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.builders import thread_partition
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, draw, interpret_kinds, read_function, scheduled

RANDOM = np.random.default_rng(21)
TARGETS = ("native", "haswell")


def data_of(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few different values, so that many are equal; floats with NaN, infinities and zeros."""
    data = RANDOM.integers(0, 9, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0], dtype)
        some = RANDOM.random(shape) < 0.05
        data[some] = RANDOM.choice(odd, int(some.sum()))
    return data


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [
        ((12, 145), 1, "float32"),
        ((12, 145), 0, "float32"),
        ((7, 5, 33), None, "float32"),
        ((7, 5, 33), 1, "int8"),
        ((3, 1), 1, "float64"),
        ((1, 3), 1, "int64"),
        ((61, 37), None, "uint16"),
        ((5, 70), 1, "float16"),
    ],
)
def test_places_of_extremes(name: str, shape: tuple[int, ...], axis: int | None, dtype: str):
    x = te.placeholder(shape, dtype, name="x")
    made = getattr(topi, name)(x, axis)
    func = te.create_prim_func([x, made])
    data = data_of(shape, dtype)
    data[0] = 3
    out = np.zeros(np.argmax(data, axis).shape, "int64")
    targets = TARGETS if name == "argmax" else TARGETS[:1]
    agrees(func, [data, out], rtol=0, targets=targets, always=False)
    plans = [plan.kind for plan in scheduled(func, tasks=True).plans]
    assert plans == ["choice" if shape != (3, 1) else "loops as written"]


def test_a_row_of_nothing_but_special_values():
    x = te.placeholder((4, 50), name="x")
    func = te.create_prim_func([x, topi.argmax(x, 1)])
    rows = np.array([[np.nan], [np.inf], [-np.inf], [-0.0]], "float32").repeat(50, 1)
    agrees(func, [rows, np.zeros(4, "int64")], rtol=0)


def test_few_results_are_chosen_in_pieces():
    x = te.placeholder((3000,), name="x")
    made = scheduled(te.create_prim_func([x, topi.argmin(x)]), tasks=True)
    assert "T.parallel" in made.func.script()
    assert "pieces of" in str(made.plans[0].choices)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_rows_of_any_length(dtype: str):
    """Lengths around those of a vector, of a turn of all lanes, and of as many as have numbers."""
    x = te.placeholder((te.var("n"),), dtype, name="x")
    func = te.create_prim_func([x, topi.argmax(x)])
    run, out = loomir.compile(func, cache=False), np.zeros((), "int64")
    for length in (1, 7, 31, 32, 33, 64, 127, 200, 8159, 8160, 8161, 33000, 70001):
        for data in (data_of((length,), dtype), np.arange(length).astype(dtype)[::-1].copy()):
            run(data, out)
            assert out == np.argmax(data), length


@T.prim_func
def unknown(a: T.handle, b: T.handle, v: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "int32")
    B = T.match_buffer(b, (n,), "int64")
    V = T.match_buffer(v, (n,), "int32")
    for i, k in T.grid(n, m):
        with T.sblock("best"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.int64(-1)
                V[vi] = T.int32(-5)
            at: T.int64 = T.Select(
                V[vi] > A[vi, vk] or (V[vi] == A[vi, vk] and B[vi] < vk), B[vi], vk
            )
            best: T.int32 = T.Select(
                V[vi] > A[vi, vk] or (V[vi] == A[vi, vk] and B[vi] < vk), V[vi], A[vi, vk]
            )
            B[vi] = at
            V[vi] = best


@pytest.mark.parametrize("shape", [(5, 77), (3, 0), (0, 4), (40, 3)])
def test_unknown_sizes(shape: tuple[int, int]):
    arrays = [data_of(shape, "int32"), np.full(shape[0], 7), np.full(shape[0], 7, "int32")]
    agrees(unknown, arrays, rtol=0)


def chosen(keep: str, order: str, dtype: str) -> PrimFunc:
    """A choice by another condition, among rows or among columns."""
    index = "A[vi, vk]" if order == "SR" else "A[vk, vi]"
    shape = "(6, 90)" if order == "SR" else "(90, 6)"
    text = f"""
@T.prim_func
def main(A: T.Buffer({shape}, "{dtype}"), B: T.Buffer((6,), "int32"), V: T.Buffer((6,), "{dtype}")):
    for i, k in T.grid(6, 90):
        with T.sblock("best"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = -1
                V[vi] = T.{dtype}(0)
            keep: T.bool = {keep}
            at: T.int32 = T.Select(keep, B[vi], vk)
            best: T.{dtype} = T.Select(keep, V[vi], {index})
            B[vi] = at
            V[vi] = best
"""
    from loomir import script

    return script.from_source(text.replace("ELEMENT", index))


@pytest.mark.parametrize(
    ("keep", "dtype", "free"),
    [
        ("V[vi] > ELEMENT or V[vi] == ELEMENT and B[vi] < vk", "int32", True),
        ("V[vi] > ELEMENT or V[vi] == ELEMENT and B[vi] < vk", "float32", False),  # NaN
        ("V[vi] < ELEMENT or V[vi] == ELEMENT and B[vi] > vk", "int32", True),
        ("V[vi] >= ELEMENT", "int32", False),  # of equals the first in time
        ("V[vi] > ELEMENT", "float32", False),
        ("V[vi] > ELEMENT or B[vi] < vk", "int32", False),
    ],
)
def test_lanes_choose_only_where_order_makes_no_difference(keep: str, dtype: str, free: bool):
    data = RANDOM.integers(-3, 4, (6, 90)).astype(dtype)
    for order in ("SR", "RS"):
        func = chosen(keep, order, dtype)
        given = data if order == "SR" else np.ascontiguousarray(data.T)
        arrays = [given, np.zeros(6, "int32"), np.zeros(6, dtype)]
        agrees(func, arrays, rtol=0, always=False)
        kinds = [plan.kind for plan in scheduled(func, tasks=True).plans]
        assert kinds == (["choice"] if free or order == "RS" else ["loops as written"])


@T.prim_func
def in_turn(
    A: T.Buffer((6, 90), "float32"), B: T.Buffer((6,), "int64"), V: T.Buffer((6,), "float32")
):
    for i, k in T.grid(6, T.int64(90)):
        with T.sblock("best"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.int64(-1)
                V[vi] = T.float32(0)
            V[vi] = T.Select(V[vi] > A[vi, vk], V[vi], A[vi, vk])
            B[vi] = T.Select(V[vi] > A[vi, vk], B[vi], vk)


def test_what_reads_what_was_stored_just_now_is_left():
    arrays = [data_of((6, 90), "float32"), np.zeros(6, "int64"), np.zeros(6, "float32")]
    assert "choice" not in [plan.kind for plan in scheduled(in_turn, tasks=True).plans]
    agrees(in_turn, arrays, rtol=0, always=False)


@T.prim_func
def of_nothing(
    X: T.Buffer((0, 16, 5), "float32"),
    V: T.Buffer((16, 5), "float32"),
    P: T.Buffer((16, 5), "int32"),
):
    for i, j, k in T.grid(16, 5, 0):
        with T.sblock("choice"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                V[vi, vj] = T.min_value("float32")
                P[vi, vj] = -1
            value: T.float32 = T.Select(V[vi, vj] >= X[vk, vi, vj], V[vi, vj], X[vk, vi, vj])
            place: T.int32 = T.Select(V[vi, vj] >= X[vk, vi, vj], P[vi, vj], vk)
            V[vi, vj] = value
            P[vi, vj] = place


def test_a_choice_among_no_elements_does_not_initialise():
    value, place = np.full((16, 5), 3, "float32"), np.full((16, 5), 4, "int32")
    loomir.compile(of_nothing)(np.zeros((0, 16, 5), "float32"), value, place)
    assert (value == 3).all()
    assert (place == 4).all()


BEST = """
for i, k in T.grid(6, 40):
    with T.sblock("best"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            at[{place}] = T.int64(-1)
            top[{place}] = T.{dtype}(-100)
        {name}
        new_at: T.int64 = T.Select({keep}, at[{place}], {index})
        new_top: T.{dtype} = T.Select({keep}, top[{place}], {value})
        at[{place}] = new_at
        top[{place}] = new_top
"""
FIRST = "top[{place}] > {value} or (top[{place}] == {value} and at[{place}] < T.int64(vk))"


def select(
    keep: str = FIRST,
    value: str = "x[vi, vk]",
    place: str = "vi",
    index: str = "T.int64(vk)",
    dtype: str = "int32",
    name: str = "",
) -> PrimFunc:
    keep = keep.format(place=place, value=value)
    return read_function(
        f'x: T.Buffer((6, 40), "{dtype}"), w: T.Buffer((6,), "{dtype}"), '
        f'at: T.Buffer((7,), "int64"), top: T.Buffer((7,), "{dtype}")',
        BEST.format(place=place, value=value, index=index, dtype=dtype, name=name, keep=keep),
    )


@pytest.mark.parametrize("value", ["x[vi, vk]", "(x[vi, vk] * w[vi])"])
def test_values_of_a_row(value: str):
    func = select(value=value)
    assert interpret_kinds(func, draw(func)) == ["choice"]


LONG = " + ".join(f"x[vi, vk] * {k}" for k in range(80))


@pytest.mark.parametrize(
    "func",
    [
        select(keep="top[vi] >= {value} or {value} > 7"),
        select(keep="top[vi] >= {value} + 1"),
        select(keep="top[vi] >= {value} or T.isinf({value})", dtype="float32"),
        select(value="x[vi, vk + 3 // (vi + 4) * 0]"),
        select(place="vi + 1"),
        select(place="0"),
        select(name=f"v: T.int32 = {LONG}", value="v"),
    ],
)
def test_other_selections_stay_loops(func: PrimFunc):
    assert interpret_kinds(func, draw(func)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("new_top: T.int32 = T.Select(top[vi] > ", "new_top: T.int32 = T.Select(top[vi] >= "),
        ("at[vi], T.int64(vk))\n", "T.int64(vk), T.int64(vk + 1))\n"),
    ],
)
def test_parts_that_are_selected_by_other_conditions(old: str, new: str):
    text = BEST.format(
        place="vi", value="x[vi, vk]", index="T.int64(vk)", dtype="int32", name="", keep="KEEP"
    )
    text = text.replace("KEEP", FIRST.format(place="vi", value="x[vi, vk]"))
    assert text.count(old) == 1
    params = (
        'x: T.Buffer((6, 40), "int32"), at: T.Buffer((6,), "int64"), top: T.Buffer((6,), "int32")'
    )
    func = read_function(params, text.replace(old, new))
    assert interpret_kinds(func, draw(func)) == []


def test_three_parts_of_an_element():
    keep = (
        "top[vi] > x[vi, vk] or (top[vi] == x[vi, vk] and (most[vi] > y[vi, vk] or "
        "(most[vi] == y[vi, vk] and at[vi] < T.int64(vk))))"
    )
    func = read_function(
        'x: T.Buffer((6, 40), "int32"), y: T.Buffer((6, 40), "int32"), at: T.Buffer((6,), "int64"), '
        'top: T.Buffer((6,), "int32"), most: T.Buffer((6,), "int32")',
        f"""
for i, k in T.grid(6, 40):
    with T.sblock("best"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            at[vi] = T.int64(-1)
            top[vi] = -100
            most[vi] = -100
        new_at: T.int64 = T.Select({keep}, at[vi], T.int64(vk))
        new_top: T.int32 = T.Select({keep}, top[vi], x[vi, vk])
        new_most: T.int32 = T.Select({keep}, most[vi], y[vi, vk])
        at[vi] = new_at
        top[vi] = new_top
        most[vi] = new_most
""",
    )
    assert interpret_kinds(func, draw(func)) == ["choice"]


def test_pieces_of_an_unknown_length():
    x = te.placeholder((te.var("n"),), "int32", name="x")
    func = te.create_prim_func([x, topi.argmax(x)])
    data = data_of((3000,), "int32")
    assert interpret_kinds(func, [data, np.zeros((), "int64")]) == ["choice"]
    assert "pieces of" in str(scheduled(func, tasks=True).plans[0].choices)


def test_a_row_of_more_turns_than_have_numbers():
    x = te.placeholder((1 << 15,), "uint8", name="x")
    func = te.create_prim_func([x, topi.argmax(x)])
    with mock.patch.object(thread_partition, "WORTH", np.inf):  # no pieces
        made = scheduled(func, target="haswell")
    run = loomir.compile(made.func, schedule=False, cache=False)
    for seed in range(3):
        data, out = data_of((1 << 15,), "uint8"), np.zeros((), "int64")
        data[(1 << 15) - 1 - seed * 7000] = 200
        run(data, out)
        assert out == np.argmax(data)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32", "float64", "int64"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_columns_of_any_number_and_length(name: str, dtype: str):
    """Numbers around those of lanes, strips and blocks; more rows than bytes can number."""
    x = te.placeholder((te.var("n"), te.var("m")), dtype, name="x")
    func = te.create_prim_func([x, getattr(topi, name)(x, 0)])
    run = loomir.compile(func, cache=False)
    fixed = loomir.compile(func, schedule=False, cache=False)
    for rows in (1, 2, 255, 256, 257, 600):
        for columns in (1, 7, 8, 33, 64, 131, 300):
            data, (out, wanted) = data_of((rows, columns), dtype), np.zeros((2, columns), "int64")
            run(data, out)
            fixed(data, wanted)
            np.testing.assert_array_equal(out, wanted)


COMPARISONS = [
    "V[vi] >= A[vk, vi]",
    "V[vi] < A[vk, vi]",
    "not (A[vk, vi] > V[vi])",
    "V[vi] > A[vk, vi] or V[vi] == A[vk, vi] and B[vi] < vk",
    "V[vi] < A[vk, vi] or V[vi] == A[vk, vi] and B[vi] > vk",
]


@pytest.mark.parametrize("keep", COMPARISONS)
@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (300, 45)])
def test_columns_choose_in_the_order_of_the_program(keep: str, dtype: str, rows: int, columns: int):
    func = read_function(
        f'A: T.Buffer(({rows}, {columns}), "{dtype}"), '
        f'B: T.Buffer(({columns},), "int32"), V: T.Buffer(({columns},), "{dtype}")',
        f"""
for i, k in T.grid({columns}, {rows}):
    with T.sblock("best"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = -7
            V[vi] = T.{dtype}(3)
        keep: T.bool = {keep}
        at: T.int32 = T.Select(keep, B[vi], vk)
        best: T.{dtype} = T.Select(keep, V[vi], A[vk, vi])
        B[vi] = at
        V[vi] = best
""",
    )
    arrays = [data_of((rows, columns), dtype), np.zeros(columns, "int32"), np.zeros(columns, dtype)]
    agrees(func, arrays, rtol=0, always=False)
    assert interpret_kinds(func, arrays) == ["choice"]
