"""Nests that look elements up: their indices are checked first, and give the same errors."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, draw, interpret_kinds, read_function, scheduled

RANDOM = np.random.default_rng(12)
TABLE = RANDOM.standard_normal((31, 37)).astype("float32")
TARGETS = ("native", "haswell")


def looked_up(axis: int, dtype: str = "int64") -> PrimFunc:
    x, i = te.placeholder((31, 37), name="x"), te.placeholder((45,), dtype, name="i")
    return te.create_prim_func([x, i, topi.take(x, i, axis=axis)])


def raised(func: PrimFunc, *arrays: np.ndarray) -> str:
    with pytest.raises(loomir.LoomirError) as error:
        loomir.compile(func, cache=False)(*arrays)
    return str(error.value)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_columns_are_looked_up_in_vectors(axis: int):
    places = RANDOM.integers(-31, 31, 45)
    places[:2] = -31, 30
    out = np.zeros((45, 37) if axis == 0 else (31, 45), "float32")
    func = looked_up(axis)
    agrees(
        func, [TABLE, places, out], targets=TARGETS, kinds=["bounds checks", "element-wise"], rtol=0
    )
    made = scheduled(func, tasks=True)
    assert str(made.func.script()).count("T.parallel") == 2
    assert str(made.func.script()).count("T.checked_index") == 2  # if one is bad, and for the rest


@pytest.mark.parametrize("wrong", [{0: 37}, {44: -38}, {7: 2**40, 8: 37}, {3: -(2**63), 40: 37}])
def test_the_first_wrong_index_is_told(wrong: dict[int, int]):
    for axis in (0, 1):
        func = looked_up(axis)
        places = RANDOM.integers(0, 31, 45)
        for at, value in wrong.items():
            places[at] = value
        out = np.zeros((45, 37) if axis == 0 else (31, 45), "float32")
        told = raised(scheduled(func, tasks=True).func, TABLE, places, out)
        with pytest.raises(loomir.LoomirError) as error:
            loomir.interpret(func, func.name, TABLE, places, out)
        assert told == str(error.value)
        assert str(wrong[min(wrong)]) in told


@T.prim_func
def several(
    A: T.Buffer((8, 9), "float32"),
    K: T.Buffer((5,), "int32"),
    J: T.Buffer((5, 6), "int32"),
    B: T.Buffer((5, 3, 6), "float32"),
):
    for i, k, j in T.grid(5, 3, 6):
        B[i, k, j] = A[
            T.checked_index(K[i], 8, "A", 0),
            T.checked_index(J[T.checked_index(K[i], 5, "J", 0), j], 9, "A", 1),
        ]


def test_of_several_indices_the_first_one_is_told():
    rows = np.array([4, 0, 2, 1, 3], "int32")
    columns = RANDOM.integers(0, 9, (5, 6)).astype("int32")
    table, out = TABLE[:8, :9].copy(), np.zeros((5, 3, 6), "float32")
    agrees(several, [table, rows, columns, out], targets=TARGETS, rtol=0)
    for row, column in [
        ((3, 6), None),
        ((3, 8), None),
        (None, (2, 5)),
        ((4, 9), (0, 1)),
        ((1, 7), (1, 3)),
    ]:
        i, j = rows.copy(), columns.copy()
        if row is not None:
            i[row[0]] = row[1]
        if column is not None:
            j[column] = 9
        told = raised(scheduled(several, tasks=True).func, table, i, j, out)
        with pytest.raises(loomir.LoomirError) as error:
            loomir.interpret(several, "several", table, i, j, out)
        assert told == str(error.value)


@T.prim_func
def unknown(a: T.handle, i: T.handle, b: T.handle):
    n, m, k = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    K = T.match_buffer(i, (k,), "int64")
    B = T.match_buffer(b, (k, m), "float32")
    for x, y in T.grid(k, m):
        with T.sblock("B"):
            vx, vy = T.axis.remap("SS", [x, y])
            B[vx, vy] = A[T.checked_index(K[vx], n, "A", 0), vy]


def test_no_element_needs_no_index():
    places = np.array([99, -1], "int64")
    agrees(unknown, [TABLE[:, :0].copy(), places, np.zeros((2, 0), "float32")])
    agrees(unknown, [TABLE, places[:0], np.zeros((0, 37), "float32")])
    agrees(unknown, [TABLE, np.array([30, 0]), np.zeros((2, 37), "float32")], rtol=0)
    out = np.zeros((2, 37), "float32")
    assert "99" in raised(scheduled(unknown, tasks=True).func, TABLE, places, out)


@T.prim_func
def chosen(
    A: T.Buffer((9,), "float32"), K: T.Buffer((40,), "int32"), B: T.Buffer((40,), "float32")
):
    for i in range(40):
        B[i] = T.if_then_else(K[i] < 9, A[T.checked_index(K[i], 9, "A", 0)], T.float32(-1.0))


@T.prim_func
def onto_itself(B: T.Buffer((40,), "int32")):
    for i in range(40):
        B[i] = B[T.checked_index(B[i], 40, "B", 0)]


def test_checks_stay_where_they_depend_on_choices_or_on_results():
    for func, arrays in [
        (chosen, [TABLE[0, :9].copy(), np.arange(40, dtype="int32"), np.zeros(40, "float32")]),
        (onto_itself, [np.roll(np.arange(40, dtype="int32"), 7)]),
    ]:
        assert scheduled(func, tasks=True).func is func
        wanted = [array.copy() for array in arrays]
        loomir.interpret(func, func.name, *wanted)
        loomir.compile(func, cache=False)(*arrays)
        np.testing.assert_array_equal(arrays[-1], wanted[-1])


def test_indices_that_are_computed_are_checked_too():
    x, i = te.placeholder((31, 37), name="x"), te.placeholder((45,), "int64", name="i")
    doubled = te.compute((45,), lambda k: i[k] * 2, name="doubled")
    func = te.create_prim_func([x, i, topi.exp(topi.take(x, doubled, axis=0))])
    places = RANDOM.integers(0, 15, 45)
    out = np.zeros((45, 37), "float32")
    agrees(func, [TABLE, places, out], ulps=4)
    places[9] = 16
    assert "32" in raised(func, TABLE, places, out)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "uint16"])
def test_arrays_are_read_backwards_in_vectors(dtype: str):
    for axis in (0, 1):
        x = te.placeholder((13, 77), dtype, name="x")
        func = te.create_prim_func([x, topi.flip(x, axis)])
        data = RANDOM.integers(0, 100, (13, 77)).astype(dtype)
        agrees(func, [data, np.zeros_like(data)], targets=TARGETS, rtol=0)
    text = loomir.compile(func, cache=False).assembly()
    assert "vpgather" not in text
    assert "vgather" not in text


@pytest.mark.parametrize(
    ("choice", "least"),
    [
        ("i[k] < 0 and i[k] >= -9, i[k] + 9, i[k]", -9),
        ("i[k] < 0 and i[k] >= -9, i[k] + 9, T.max(i[k], 0)", -12),
        ("i[k] > 5 and i[k] < 8, i[k] - 4, i[k]", 0),
    ],
)
def test_indices_are_chosen_by_other_conditions(choice: str, least: int):
    """Only a condition that counts from the end follows from the check in part."""
    func = read_function(
        'x: T.Buffer((9,), "float32"), i: T.Buffer((40,), "int32"), o: T.Buffer((40,), "float32")',
        f"""
for k in range(40):
    o[k] = x[T.checked_index(T.Select({choice}), 9, "x", 0)]
""",
    )
    places = np.arange(40, dtype="int32") % (9 - least) + least
    arrays = draw(func, i=places)
    assert interpret_kinds(func, arrays) == ["bounds checks", "element-wise"]
