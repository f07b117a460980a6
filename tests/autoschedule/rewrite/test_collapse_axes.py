"""Axes of unknown extents that all arrays have side by side are collapsed; others stay."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.script import tir as T
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, interpret_kinds, read_function, scheduled

RANDOM = np.random.default_rng(11)
TARGETS = ("native", "haswell")
SIZES = [(2, 3, 5, 7), (1, 1, 1, 1), (0, 3, 2, 2), (2, 0, 4, 4), (2, 3, 0, 5), (1, 2, 3, 67)]


def sizes(count: int) -> tuple[Any, ...]:
    return tuple(te.var(name, "int64") for name in "ncdw"[:count])


def array(*shape: int, dtype: str = "float32") -> Any:
    return RANDOM.integers(-9, 9, shape).astype(dtype)


def shapes_of(func: PrimFunc) -> list[list[int]]:
    """Return the number of axes of each stage, one list for each group."""
    return [[len(s.axes) for s in plan.stages] for plan in scheduled(func).plans]


def by_channel(dtype: str) -> PrimFunc:
    n, c, h, w = sizes(4)
    x = te.placeholder((n, c, h, w), dtype, name="x")
    y = te.placeholder((c,), dtype, name="y")
    out = te.compute((n, c, h, w), lambda i, k, a, b: x[i, k, a, b] * y[k] + y[k])
    return te.create_prim_func([x, y, out])


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_pixels_are_one_axis_beside_channels(dtype: str) -> None:
    func = by_channel(dtype)
    assert shapes_of(func) == [[3]]
    for shape in SIZES if dtype == "float32" else SIZES[:1]:
        out = array(*shape, dtype=dtype)
        agrees(func, [array(*shape, dtype=dtype), array(shape[1], dtype=dtype), out], rtol=0)
    agrees(
        func,
        [array(*SIZES[-1], dtype=dtype), array(2, dtype=dtype), array(*SIZES[-1], dtype=dtype)],
        rtol=0,
        targets=TARGETS,
    )


def test_all_axes_are_one_where_all_arrays_are_contiguous() -> None:
    n, c, h, w = sizes(4)
    x = te.placeholder((n, c, h, 3), name="x")
    func = te.create_prim_func([x, te.compute((n, c, h, 3), lambda *i: te.exp(x(*i)))])
    assert shapes_of(func) == [[1]]
    agrees(func, [array(2, 3, 5, 3), array(2, 3, 5, 3)], rtol=1e-6, ulps=2)
    del w


def test_rows_of_unknown_length_share_tasks() -> None:
    n, m = sizes(2)
    x, y = te.placeholder((n, m), name="x"), te.placeholder((m,), name="y")
    func = te.create_prim_func([x, y, te.compute((n, m), lambda i, j: te.sigmoid(x[i, j] - y[j]))])
    for rows, length in ((0, 5), (5, 0), (1, 1), (37, 1), (3, 47), (2, 997), (1, 2001)):
        arrays = [array(rows, length), array(length), array(rows, length)]
        agrees(func, arrays, rtol=1e-6, ulps=4)
    agrees(func, [array(5, 93), array(93), array(5, 93)], rtol=1e-6, ulps=4, targets=TARGETS)


def test_sums_over_axes_that_are_one() -> None:
    n, c, h, w = sizes(4)
    x = te.placeholder((n, c, h, w), name="x")
    a, b = te.reduce_axis((0, h), name="a"), te.reduce_axis((0, w), name="b")
    total = te.compute((n, c), lambda i, k: te.sum(x[i, k, a, b], axis=[a, b]), name="total")
    out = te.compute((n, c, h, w), lambda i, k, p, q: x[i, k, p, q] - total[i, k])
    func = te.create_prim_func([x, out])
    stages = [stage for plan in scheduled(func).plans for stage in plan.stages]
    assert [(len(s.axes), len(s.reduced)) for s in stages] == [(1, 1), (2, 0)]
    for shape in SIZES:
        agrees(func, [array(*shape), array(*shape)], rtol=0)


Made = tuple[Any, Any]


def transposed(n: Any, m: Any) -> Made:
    x = te.placeholder((n, m, 2), name="x")
    return x, te.compute((m, n, 2), lambda i, j, k: x[j, i, k])


def shifted(n: Any, m: Any) -> Made:
    x = te.placeholder((n, m, 2), name="x")
    return x, te.compute((n, m - 1, 2), lambda i, j, k: x[i, j + 1, k])


def cut(n: Any, m: Any) -> Made:
    x = te.placeholder((n, m, 2), name="x")
    return x, te.compute((n, 3, 2), lambda i, j, k: x[i, j, k])


def numbered(n: Any, m: Any) -> Made:
    x = te.placeholder((n, m, 2), name="x")
    return x, te.compute((n, m, 2), lambda i, j, k: x[i, j, k] + j.astype("float32"))


def diagonal(n: Any, m: Any) -> Made:
    x = te.placeholder((n, n, 2), name="x")
    return x, te.compute((n, m, 2), lambda i, j, k: x[i, i, k])


@pytest.mark.parametrize(
    ("make", "given", "result"),
    [
        (transposed, (4, 5, 2), (5, 4, 2)),
        (shifted, (4, 5, 2), (4, 4, 2)),
        (cut, (11, 4, 2), (11, 3, 2)),
        (numbered, (3, 7, 2), (3, 7, 2)),
        (diagonal, (5, 5, 2), (5, 3, 2)),
    ],
)
def test_what_does_not_go_along(
    make: Callable[[Any, Any], Made], given: tuple[int, ...], result: tuple[int, ...]
) -> None:
    func = te.create_prim_func([*make(*sizes(2))])
    agrees(func, [array(*given), array(*result)], rtol=0)


@T.prim_func
def two_views(xs: T.handle, ys: T.handle) -> None:
    n, m = T.int64(), T.int64()
    x = T.match_buffer(xs, (n, m, 4))
    y = T.match_buffer(ys, (n, m, 4))
    for i, j, k in T.grid(n, m, 4):
        with T.block("first"):
            a, b, c = T.axis.remap("SSS", [i, j, k])
            y[a, b, c] = x[a, b, c] + T.float32(1)
    for i in range(n):
        while y[i, 0, 0] < T.float32(3):
            y[i, 0, 0] = y[i, 0, 0] + T.float32(1)


def test_arrays_of_loops_that_are_no_stages_keep_their_shape() -> None:
    agrees(two_views, [array(3, 5, 4), array(3, 5, 4)], rtol=0)


@T.prim_func
def in_order(xs: T.handle, ys: T.handle) -> None:
    n, m = T.int64(), T.int64()
    x = T.match_buffer(xs, (n, m))
    y = T.match_buffer(ys, (1,))
    y[0] = T.float32(0)
    for j, i in T.grid(m, n):
        y[0] = y[0] + x[i, j]


def test_a_sum_that_keeps_its_order_is_not_collapsed_across() -> None:
    x = RANDOM.standard_normal((23, 31)).astype("float32") * np.float32(1e4)
    wanted, out = np.zeros(1, "float32"), np.zeros(1, "float32")
    loomir.interpret(in_order, "in_order", x, wanted)
    loomir.compile(in_order)(x, out)
    assert out[0] == wanted[0] == np.cumsum(x.T.ravel(), dtype="float32")[-1]


def test_large_arrays_are_the_same_for_any_length() -> None:
    func = by_channel("float32")
    run = loomir.compile(func)
    for shape in ((8, 64, 3, 5), (2, 3, 91, 83), (1, 1, 1, 20011)):
        x, y = array(*shape), array(shape[1])
        out = np.empty(shape, "float32")
        run(x, y, out)
        np.testing.assert_array_equal(out, x * y[:, None, None] + y[:, None, None])


def test_long_chains_of_stages_keep_their_axes() -> None:
    """Each stage shares its axes with the next one, and only the last one says what they are."""
    names = [f"p{k}" for k in range(20)]
    steps = [
        f"for i, j in T.grid(n, m):\n    {a}[i, j] = {b}[i, j] + T.float32(1)"
        for a, b in pairwise(names)
    ]
    uneven = "for i, j in T.grid(n, m):\n    p19[i, j] = T.cast(i + 2 * j, 'float32')"
    arrays = [f"{name} = T.match_buffer({name}_, (n, m))" for name in names]
    func = read_function(
        ", ".join(f"{name}_: T.handle" for name in names),
        "\n".join(["n, m = T.int64(), T.int64()", *arrays, *steps, uneven]),
    )
    assert shapes_of(func) == [[2]] * 20
    assert interpret_kinds(func, [array(2, 3) for _ in names]) == ["element-wise"] * 20


def test_long_chains_of_fixed_shapes_keep_their_axes() -> None:
    names = [f"p{k}" for k in range(19)]
    steps = [
        f"for i, j, k in T.grid(2, 2, 3):\n    {a}[i, j, k] = {b}[i, j, k] + T.float32(1)"
        for a, b in pairwise([*names, "x"])
    ]
    whole = "for i, j, k in T.grid(n, 2, 3):\n    x[i, j, k] = T.float32(1)"
    func = read_function(
        ", ".join([*(f"{name}: T.Buffer((2, 2, 3))" for name in names), "x_: T.handle"]),
        "\n".join(["n = T.int64()", "x = T.match_buffer(x_, (n, 2, 3))", *steps, whole]),
    )
    assert shapes_of(func) == [[3]] * 20
    arrays = [*(array(2, 2, 3) for _ in names), array(4, 2, 3)]
    assert interpret_kinds(func, arrays) == ["element-wise"] * 20
