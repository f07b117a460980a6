"""Indices are checked in vectors, and a bad one gives the error of the loop as written."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.te import topi
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, draw, interpret_kinds, read_function

RANDOM = np.random.default_rng(5)


def gathered(rows: int | Var, columns: int | Var, dtype: str = "int64") -> PrimFunc:
    x, i = te.placeholder((rows, 100), name="x"), te.placeholder((rows, columns), dtype, name="i")
    return te.create_prim_func([x, i, topi.gather_elements(x, i, 1)])


def taken(count: int | Var, dtype: str = "int64") -> PrimFunc:
    x, i = te.placeholder((100,), name="x"), te.placeholder((count,), dtype, name="i")
    return te.create_prim_func([x, i, topi.take(x, i, axis=0)])


def arrays(shape: tuple[int, ...], dtype: str = "int64") -> list[np.ndarray]:
    table = (shape[0], 100) if len(shape) == 2 else (100,)
    return [
        RANDOM.standard_normal(table).astype("float32"),
        RANDOM.integers(-100, 100, shape).astype(dtype),
        np.zeros(shape, "float32"),
    ]


def raised(func: PrimFunc, given: list[np.ndarray]) -> str:
    with pytest.raises(loomir.RunError) as error:
        loomir.compile(func, cache=False)(*given)
    return str(error.value)


def told(func: PrimFunc, given: list[np.ndarray]) -> str:
    with pytest.raises(loomir.RunError) as error:
        loomir.interpret(func, func.name, *given)
    return str(error.value)


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
@pytest.mark.parametrize("shape", [(3, 64), (5, 83), (70,), (20011,)])
def test_they_are_checked_in_vectors(shape: tuple[int, ...], dtype: str):
    func = gathered(shape[0], shape[1], dtype) if len(shape) == 2 else taken(shape[0], dtype)
    if shape[0] < 20000:
        agrees(
            func,
            arrays(shape, dtype),
            kinds=["bounds checks", "element-wise"],
            targets=("native", "haswell"),
            rtol=0,
        )
    x, i, out = arrays(shape, dtype)
    loomir.compile(func)(x, i, out)
    wanted = np.take_along_axis(x, i.astype("int64"), -1) if len(shape) == 2 else x[i]
    np.testing.assert_array_equal(out, wanted)


def test_few_indices_are_checked_one_by_one():
    kinds = [plan.kind for plan in schedule_function(taken(3), loomir.Target("haswell")).plans]
    assert "bounds checks" not in kinds


@pytest.mark.parametrize("bad", [100, -101, 2**40, -(2**63)])
@pytest.mark.parametrize("place", [0, 15, 16, 63, 64, 82])
def test_a_bad_index_gives_the_error_of_the_loop_as_written(place: int, bad: int):
    func = gathered(2, 83)
    given = arrays((2, 83))
    given[1][1, place] = bad
    given[1][1, 82] = bad
    assert raised(func, given) == told(func, given)
    assert str(bad) in raised(func, given)


def test_of_several_bad_indices_the_first_is_named():
    func, given = taken(20011), arrays((20011,))
    given[1][[20000, 777, 9000]] = 1234, 555, 777
    assert "555" in raised(func, given)
    assert raised(func, given) == told(func, given)


def test_any_number_of_indices():
    n = te.var("n")
    for func, shapes in (
        (taken(n), [(0,), (1,), (17,), (9001,)]),
        (gathered(2, n), [(2, 0), (2, 5), (2, 70)]),
    ):
        run = loomir.compile(func)
        for shape in shapes:
            x, i, out = arrays(shape)
            run(x, i, out)
            wanted = np.take_along_axis(x, i, -1) if len(shape) == 2 else x[i]
            np.testing.assert_array_equal(out, wanted)
            if i.size:
                i[..., -1] = 100
                with pytest.raises(loomir.RunError):
                    run(x, i, out)


CHECKED = """
for i in range(64):
    o[i] = x[T.checked_index({index}, 9, "x", 0)]
"""
ARRAYS = 'x: T.Buffer((9,), "float32"), o: T.Buffer((64,), "float32")'


@pytest.mark.parametrize(
    ("shape", "index"),
    [
        ((70,), "p[i + 3]"),
        ((70,), "p[3 + i]"),
        ((64,), "p[2] + p[2] - p[2] - p[2] + p[i]"),
        ((), "p[()] - p[()] + T.cast(x[i % 9] * T.float32(0), 'int32')"),
        ((2, 64), "p[1, i]"),
    ],
)
def test_neighbouring_indices_are_checked_in_vectors(shape: tuple[int, ...], index: str):
    func = read_function(f'p: T.Buffer({shape}, "int32"), {ARRAYS}', CHECKED.format(index=index))
    p = RANDOM.integers(0, 9, shape or 1).astype("int32").reshape(shape)
    kinds = ["bounds checks", "element-wise"]
    assert interpret_kinds(func, draw(func, p=p)) == (kinds if shape else kinds[1:])


@pytest.mark.parametrize(
    ("buffer", "index"),
    [
        ('T.Buffer((64, 2), "int32")', "p[i, 0]"),
        ('T.Buffer((64,), "int32")', "p[63 - i]"),
        ('T.Buffer((128,), "int32")', "p[i + i]"),
        ('T.Buffer((128,), "int32")', "p[i * 2]"),
        ('T.Buffer((64,), "int32", strides=(1,))', "p[i]"),
    ],
)
def test_other_indices_are_checked_one_by_one(buffer: str, index: str):
    func = read_function(f"p: {buffer}, {ARRAYS}", CHECKED.format(index=index))
    arrays = draw(func)
    arrays[0] = np.abs(arrays[0].astype("int32")) % 9
    assert interpret_kinds(func, arrays) == ["element-wise"]
