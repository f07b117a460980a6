"""Runs of any length are parted where what they are made of changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rewrite.index_set_splitting import split_index_set, unswitch
from loomir.tir.buffer import decl_buffer
from loomir.tir.expr import And, Max, Min
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, interpret_kinds, read_function

RANDOM = np.random.default_rng(5)


def array(*shape: int, dtype: str = "float32") -> Any:
    return RANDOM.integers(-9, 9, shape).astype(dtype)


def both(*parts: Any) -> Any:
    made = parts[0]
    for part in parts[1:]:
        made = And(made, part)
    return made


def sizes(*names: str) -> tuple[Any, ...]:
    return tuple(te.var(name, "int64") for name in names)


def padded(dtype: str = "float32") -> PrimFunc:
    n, m = sizes("n", "m")
    x = te.placeholder((n, m), dtype, name="x")

    def element(i: Any, j: Any) -> Any:
        inside = both(i >= 2, i < n + 2, j >= 1, j < m + 1)
        return te.if_then_else(inside, x[i - 2, j - 1], te.const(3, dtype))

    return te.create_prim_func([x, te.compute((n + 5, m + 2), element)])


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "float16"])
def test_borders(dtype: str) -> None:
    func = padded(dtype)
    for n, m in ((3, 5), (0, 4), (4, 0), (1, 131), (2, 1)) if dtype == "float32" else ((2, 67),):
        agrees(func, [array(n, m, dtype=dtype), array(n + 5, m + 2, dtype=dtype)], rtol=0)
    x, out = array(2, 300, dtype=dtype), array(7, 302, dtype=dtype)
    agrees(func, [x, out], rtol=0, targets=("native", "haswell"))


def test_three_arrays_beside_each_other() -> None:
    n, a, b, c = sizes("n", "a", "b", "c")
    x, y, z = (te.placeholder((n, k), name=s) for k, s in ((a, "x"), (b, "y"), (c, "z")))

    def element(i: Any, j: Any) -> Any:
        later = te.if_then_else(j < a + b, y[i, j - a], z[i, j - a - b])
        return te.exp(te.if_then_else(j < a, x[i, j], later))

    func = te.create_prim_func([x, y, z, te.compute((n, a + b + c), element)])
    for n_, a_, b_, c_ in ((2, 3, 40, 7), (1, 0, 0, 5), (3, 4, 0, 0), (2, 0, 33, 2), (0, 1, 1, 1)):
        arrays = [array(n_, a_), array(n_, b_), array(n_, c_), array(n_, a_ + b_ + c_)]
        agrees(func, arrays, rtol=1e-6, ulps=4)


def test_borders_that_cross() -> None:
    """What begins behind its end is nowhere; places outside of the run change nothing."""
    n, m, low, high = sizes("n", "m", "low", "high")
    x = te.placeholder((n, m), name="x")

    def element(i: Any, j: Any) -> Any:
        return te.if_then_else(both(j >= low, j < high), x[i, j], te.const(-1.0, "float32"))

    out = te.compute((n, m), element)
    func = te.create_prim_func([x, low, high, out])
    run = loomir.compile(func)
    for begin, end in (
        (3, 50),
        (50, 3),
        (-5, 7),
        (60, 900),
        (-9, -1),
        (70, 80),
        (-4, 999),
        (67, 67),
    ):
        data, got = array(3, 67), array(3, 67)
        run(data, begin, end, got)
        places = np.arange(67)
        wanted = np.where((places >= begin) & (places < end), data, np.float32(-1))
        np.testing.assert_array_equal(got, wanted)


def test_what_is_asked_of_memory_stays_where_it_is() -> None:
    n, m, k = sizes("n", "m", "k")
    x = te.placeholder((n, m), name="x")
    ends = te.placeholder((k,), "int64", name="ends")

    def element(i: Any, j: Any) -> Any:
        some = te.if_then_else(j < ends[0], x[i, j], te.const(0.0, "float32"))
        return te.if_then_else(k > 0, some, te.const(5.0, "float32"))

    func = te.create_prim_func([x, ends, te.compute((n, m), element)])
    for count in (0, 1):
        agrees(func, [array(2, 40), np.full(count, 17, "int64"), array(2, 40)], rtol=0)


@pytest.mark.parametrize("dtype", ["float64", "uint64", "int64"])
def test_what_memory_holds_is_asked_in_its_own_dtype(dtype: str) -> None:
    (n,) = sizes("n")
    x, least = te.placeholder((n,), dtype, name="x"), te.placeholder((2,), dtype, name="least")
    zero = te.const(0, dtype)

    def element(i: Any) -> Any:
        return te.if_then_else(least[0] <= least[1], x[i], zero)

    func = te.create_prim_func([x, least, te.compute((n,), element)])
    for bounds in ((1, 2), (2, 1), (2, 2)):
        given = [RANDOM.integers(0, 9, 40).astype(dtype), np.array(bounds, dtype)]
        agrees(func, [*given, np.zeros(40, dtype)], rtol=0)


def test_conditions_on_rows_are_asked_once_for_each() -> None:
    n, m = sizes("n", "m")
    x = decl_buffer((n, m), "float32", "x")
    i, j = te.var("i", "int64"), te.var("j", "int64")
    zero = te.const(0.0, "float32")
    value = te.if_then_else(both(i < n, j < m), x[i, j], zero)
    found = unswitch(value, {j})
    assert found is not None
    assert unswitch(found.holds, {j}) is None
    axes = [Axis(i, n), Axis(j, m + 1)]
    parts = split_index_set(found.holds, axes, axes[1])
    assert parts is not None
    assert len(parts) == 2
    assert split_index_set(found.fails, axes, axes[1]) is None
    assert unswitch(te.if_then_else(x[i, 0] > zero, x[i, j], zero), {j}) is None


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("shape", [(5, 70), (1, 1), (3, 2), (2, 131)])
def test_places_that_are_kept_within_bounds(shape: tuple[int, int], dtype: str) -> None:
    n, m = shape
    x = te.placeholder(shape, dtype, name="x")

    def at(i: Any, k: int) -> Any:
        return Min(Max(i + k, te.const(0, "int32")), te.const(m - 1, "int32"))

    def element(i: Any, j: Any) -> Any:
        up, left = Max(i - 1, te.const(0, "int32")), Max(j - 1, te.const(0, "int32"))
        right = Min(te.const(m - 1, "int32"), j + 1)
        return x[up, j] + x[i, left] * x[i, right] - x[i, at(j, -2)] + x[i, at(j, 3)]

    func = te.create_prim_func([x, te.compute(shape, element)])
    given = RANDOM.integers(0, 9, shape).astype(dtype)
    agrees(func, [given, np.zeros(shape, dtype)], rtol=0, targets=("native", "haswell"))
    wide = te.compute((n, m + 6), lambda i, j: x[i, at(j, -3)])
    agrees(te.create_prim_func([x, wide]), [given, np.zeros((n, m + 6), dtype)], rtol=0)


def test_places_that_are_kept_within_sizes() -> None:
    n, m = sizes("n", "m")
    x = te.placeholder((n, m), name="x")
    zero = te.const(0, "int64")

    def element(i: Any, j: Any) -> Any:
        left, right = Max(j - 1, zero), Min(j + 1, m - 1)
        return x[Min(i + 1, n - 1), j] + x[i, left] * x[i, right]

    near = te.create_prim_func([x, te.compute((n, m), element)])
    edges = te.compute((n, m + 6), lambda i, j: x[i, Min(Max(j - 3, zero), m - 1)])
    reversed_rows = te.compute((n, m), lambda i, j: x[i, Max(m - 3 - j, zero)])
    along, back = te.create_prim_func([x, edges]), te.create_prim_func([x, reversed_rows])
    for rows, columns in ((2, 70), (1, 1), (3, 2), (0, 4), (2, 3), (1, 133)):
        given = array(rows, columns)
        agrees(near, [given, array(rows, columns)], rtol=0)
        agrees(along, [given, array(rows, columns + 6)], rtol=0)
        agrees(back, [given, array(rows, columns)], rtol=0)


@pytest.mark.parametrize("place", ["90 - i", "i + 60", "i + n"])
def test_places_that_wrap_around(place: str) -> None:
    func = read_function(
        'n_: T.handle, x: T.Buffer((64,), "float32"), o: T.Buffer((70,), "float32")',
        f"""
n = T.int64()
unused = T.match_buffer(n_, (n,), "float32")
for i in range(T.int64(70)):
    o[i] = x[({place}) % 64]
""",
    )
    assert interpret_kinds(func, [array(29), array(64), array(70)]) == ["element-wise"]
