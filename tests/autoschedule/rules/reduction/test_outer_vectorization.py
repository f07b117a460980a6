"""Sums that keep their order are made for several rows at once."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.script import tir as T
from loomir.tir.function import PrimFunc
from tests.autoschedule.equivalence import schedule_for
from tests.autoschedule.rules.reduction.test_ordered_sums import (
    arrays_for,
    drawn,
    exactly,
    interpreted,
)

AT_ONCE = "rows at once"


def at_once(func: PrimFunc) -> bool:
    plans = schedule_for(func, "native", tasks=False).plans
    return any(AT_ONCE in choice for plan in plans for choice in plan.choices)


def rows(m: int, k: int, kind: str, dtype: str = "float32") -> PrimFunc:
    """Return loops that combine rows."""

    @T.prim_func
    def total(x: T.Buffer((m, k), dtype), s: T.Buffer((m,), dtype)):
        for i in range(m):
            s[i] = T.Cast(dtype, 0)
            for j in range(k):
                s[i] += x[i, j]

    @T.prim_func
    def most(x: T.Buffer((m, k), dtype), s: T.Buffer((m,), dtype)):
        for i in range(m):
            s[i] = x[i, 0]
            for j in range(k):
                s[i] = T.max(x[i, j], s[i])

    @T.prim_func
    def added(
        x: T.Buffer((m, k), dtype),
        v: T.Buffer((k,), dtype),
        b: T.Buffer((m,), dtype),
        s: T.Buffer((m,), dtype),
    ):
        for i in range(m):
            for j in range(k):
                s[i] += x[i, j] * v[j] + b[i]

    @T.prim_func
    def two(x: T.Buffer((m, k), dtype), y: T.Buffer((m, k), dtype), s: T.Buffer((m,), dtype)):
        for i in range(m):
            acc = T.Cast(dtype, 1)
            for j in range(k):
                acc += T.exp(x[i, j]) * y[i, j] * x[i, j]
            s[i] = acc

    return {"total": total, "most": most, "added": added, "two": two}[kind]


@pytest.mark.parametrize(
    ("m", "k", "kind", "dtype"),
    [
        (40, 35, "total", "float32"),
        (4, 16, "total", "float32"),
        (5, 40, "most", "float32"),
        (70, 33, "most", "float64"),
        (33, 64, "added", "float32"),
        (17, 21, "added", "float64"),
        (32, 17, "two", "float32"),
    ],
)
def test_rows_are_combined_in_lanes(m: int, k: int, kind: str, dtype: str) -> None:
    func = rows(m, k, kind, dtype)
    assert at_once(func)
    exactly(func, *arrays_for(func, special=kind != "two"))


def test_the_interpreter_agrees() -> None:
    func = rows(9, 37, "added")
    interpreted(func, *arrays_for(func))


@T.prim_func
def of_any_size(x_: T.handle, s_: T.handle):
    m, k = T.int64(), T.int64()
    x = T.match_buffer(x_, (m, k))
    s = T.match_buffer(s_, (m,))
    for i in range(m):
        s[i] = T.float32(0)
        for j in range(k):
            s[i] += x[i, j] * x[i, j]


def test_sizes_are_known_at_run_time() -> None:
    assert at_once(of_any_size)
    run = loomir.compile(of_any_size)
    written = loomir.compile(of_any_size, schedule=False, opt_level=0)
    for m, k in ((0, 5), (5, 0), (1, 1), (3, 16), (15, 100), (33, 31), (64, 16), (100, 40)):
        x, s = drawn(m, k), drawn(m)
        wanted = s.copy()
        run(x, s)
        written(x, wanted)
        np.testing.assert_array_equal(s, wanted)


@T.prim_func
def images(x: T.Buffer((3, 9, 5, 20), "float32"), s: T.Buffer((3, 9), "float32")):
    for n, c in T.grid(3, 9):
        s[n, c] = T.float32(0)
        for h, w in T.grid(5, 20):
            s[n, c] += x[n, c, h, w]


@T.prim_func
def pairs(
    x: T.Buffer((30, 24), "float32"),
    y: T.Buffer((3, 24), "float32"),
    d: T.Buffer((30, 3), "float32"),
):
    for i, j in T.grid(30, 3):
        d[i, j] = T.float32(0)
        for k in range(24):
            d[i, j] += (x[i, k] - y[j, k]) * (x[i, k] - y[j, k])


@T.prim_func
def flat(x: T.Buffer((20 * 40,), "float32"), s: T.Buffer((20,), "float32")):
    for i in range(20):
        s[i] = T.float32(0)
        for j in range(40):
            s[i] += x[i * 40 + j]


@pytest.mark.parametrize("func", [images, pairs, flat])
def test_rows_lie_in_many_ways(func: PrimFunc) -> None:
    assert at_once(func)
    exactly(func, *arrays_for(func))


# -- groups of rows ----------------------------------------------------------------------------
@T.prim_func
def normalised(x: T.Buffer((37, 50), "float32"), y: T.Buffer((37, 50), "float32")):
    for i in range(37):
        mean = T.float32(0)
        for j in range(50):
            mean += x[i, j]
        mean = mean / T.float32(50)
        var = T.float32(0)
        for j in range(50):
            var += (x[i, j] - mean) * (x[i, j] - mean)
        var = T.sqrt(var / T.float32(50) + T.float32(1e-5))
        for j in range(50):
            y[i, j] = (x[i, j] - mean) / var


@T.prim_func
def softmax(x: T.Buffer((3, 13, 40), "float32"), y: T.Buffer((3, 13, 40), "float32")):
    kept = T.alloc_buffer((40,))
    for n, i in T.grid(3, 13):
        m = x[n, i, 0]
        for j in range(40):
            m = T.max(m, x[n, i, j])
        t = T.float32(0)
        for j in range(40):
            kept[j] = T.exp(x[n, i, j] - m)
        for j in range(40):
            t += kept[j]
        for j in range(40):
            y[n, i, j] = kept[j] / t


@T.prim_func
def in_place(x: T.Buffer((21, 40), "float32"), s: T.Buffer((21,), "float32")):
    for i in range(21):
        s[i] = T.float32(0)
        for j in range(40):
            s[i] += x[i, j]
        for j in range(40):
            x[i, j] = x[i, j] - s[i]
        for j in range(40):
            s[i] += x[i, j]


@pytest.mark.parametrize("func", [normalised, softmax, in_place])
def test_groups_of_rows_go_in_blocks(func: PrimFunc) -> None:
    assert at_once(func)
    exactly(func, *arrays_for(func))


@T.prim_func
def normalised_of_any_size(x_: T.handle, y_: T.handle):
    m, k = T.int64(), T.int64()
    x = T.match_buffer(x_, (m, k))
    y = T.match_buffer(y_, (m, k))
    for i in range(m):
        t = T.float32(0)
        for j in range(k):
            t += x[i, j]
        for j in range(k):
            y[i, j] = x[i, j] - t


def test_blocks_of_rows_of_any_number() -> None:
    run = loomir.compile(normalised_of_any_size)
    written = loomir.compile(normalised_of_any_size, schedule=False, opt_level=0)
    for m, k in ((0, 5), (5, 0), (1, 1), (3, 16), (33, 31), (64, 16), (70, 40)):
        x, y = drawn(m, k), drawn(m, k)
        wanted = y.copy()
        run(x, y)
        written(x, wanted)
        np.testing.assert_array_equal(y, wanted)


# -- what is left as it is ---------------------------------------------------------------------
@T.prim_func
def guarded(
    x: T.Buffer((20, 40), "float32"), n: T.Buffer((20,), "int32"), s: T.Buffer((20,), "float32")
):
    for i in range(20):
        s[i] = T.float32(0)
        for j in range(40):
            s[i] += T.if_then_else(j < n[i], x[T.min(i, n[i]), j], T.float32(0))


@T.prim_func
def looked_up(
    x: T.Buffer((20, 40), "float32"), p: T.Buffer((20,), "int32"), s: T.Buffer((20,), "float32")
):
    for i in range(20):
        s[i] = T.float32(0)
        for j in range(40):
            s[i] += x[p[i], j]


@T.prim_func
def chained(x: T.Buffer((40, 40), "float32"), s: T.Buffer((41,), "float32")):
    for i in range(40):
        s[i + 1] = T.float32(0)
        for j in range(40):
            s[i + 1] += x[i, j] * s[i]


@T.prim_func
def into_its_rows(x: T.Buffer((40, 40), "float32"), s: T.Buffer((40,), "float32")):
    for i in range(40):
        s[i] = T.float32(0)
        for j in range(40):
            s[i] += x[i, j]
        x[39 - i, 0] = s[i]


@pytest.mark.parametrize("func", [chained, into_its_rows])
def test_rows_that_need_others_are_not_taken(func: PrimFunc) -> None:
    assert not at_once(func)
    exactly(func, *arrays_for(func))


@pytest.mark.parametrize("func", [guarded, looked_up])
def test_what_is_read_only_where_asked_for_is_not_transposed(func: PrimFunc) -> None:
    x, p, s = arrays_for(func)
    p = np.arange(20)[::-1].astype("int32")
    exactly(func, x, p, s)
    assert func is looked_up or not at_once(func)
