"""Reductions over outer axes, and of much to few results."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from loomir import te
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, draw, interpret_kinds, read_function, scheduled

RANDOM = np.random.default_rng(7)

Axes = int | tuple[int, ...]


def drawn(*shape: int, dtype: str = "float32") -> npt.NDArray[np.generic]:
    return np.array(RANDOM.standard_normal(shape) * 3, dtype)


def reduced(name: str, shape: tuple[int, ...], axes: Axes, dtype: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, dtype, name="x")
    return te.create_prim_func([x, getattr(topi, name)(x, axes)])


def out_of(func: PrimFunc) -> npt.NDArray[np.generic]:
    buffer = list(func.buffer_map.values())[-1]
    return np.zeros([int(str(e)) for e in buffer.shape], str(buffer.dtype))


def kinds(func: PrimFunc, *, tasks: bool = False) -> list[str]:
    return [plan.kind for plan in scheduled(func, tasks=tasks).plans]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((130, 70), 0),
        ((9, 300), 0),
        ((300, 5), 0),
        ((3, 40, 97), 1),
        ((20, 4, 6, 33), (0, 2)),
        ((150, 1, 80), (0, 1)),
    ],
)
@pytest.mark.parametrize("name", ["sum", "max"])
def test_reductions_over_outer_axes(name: str, shape: tuple[int, ...], axes: Axes):
    func = reduced(name, shape, axes)
    agrees(func, [drawn(*shape), out_of(func)], targets=("native", "haswell"))


def test_which_rule_takes_columns():
    assert kinds(reduced("sum", (90, 200), 0)) == ["columns"]
    assert kinds(reduced("sum", (200, 200), 0), tasks=True) == ["columns in two steps"]
    assert kinds(reduced("sum", (4096, 4096), 0)) == ["columns in two steps"]
    assert kinds(reduced("sum", (90, 32), 0)) == ["reduction"]  # registers hold the results


@pytest.mark.parametrize("shape", [(5000,), (3, 1111), (2, 37, 41)])
@pytest.mark.parametrize("name", ["sum", "min"])
def test_much_that_becomes_little(name: str, shape: tuple[int, ...]):
    axes = tuple(range(1, len(shape))) or 0
    func = reduced(name, shape, axes)
    assert kinds(func, tasks=True) == ["reduction in two steps"]
    agrees(func, [drawn(*shape), out_of(func)], targets=("native", "haswell"))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float64"])
def test_other_elements(dtype: str):
    with np.errstate(invalid="ignore"):
        x = drawn(100, 90).astype(dtype)
    for axes in (0, (0, 1)):
        func = reduced("sum", (100, 90), axes, dtype)
        agrees(func, [x, out_of(func)], rtol=2e-2 if dtype == "float16" else 1e-5)


def test_the_largest_of_columns_keeps_nan():
    x = drawn(200, 130)
    x[1, 3], x[199, 82], x[:, 7], x[4, 0] = np.nan, np.nan, -np.inf, np.inf
    func = reduced("max", (200, 130), 0)
    agrees(func, [x, out_of(func)])
    func = reduced("max", (200, 130), (0, 1))
    agrees(func, [x, out_of(func)])


@T.prim_func
def any_size(a: T.handle, b: T.handle, c: T.handle):
    m, n = T.int64(), T.int64()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (1,), "float32")
    for j, i in T.grid(n, m):
        with T.sblock("columns"):
            y, x = T.axis.remap("SR", [j, i])
            with T.init():
                B[y] = T.float32(0)
            B[y] += A[x, y]
    for o, i, j in T.grid(1, m, n):
        with T.sblock("all"):
            z, x, y = T.axis.remap("SRR", [o, i, j])
            with T.init():
                C[z] = T.float32(0)
            C[z] += A[x, y]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (5, 70), (233, 4), (70, 700)])
def test_sizes_that_are_known_at_the_call_only(shape: tuple[int, int]):
    agrees(any_size, [drawn(*shape), drawn(shape[1]), drawn(1)], rtol=1e-4)


@T.prim_func
def in_order(A: T.Buffer((150, 90), "float32"), B: T.Buffer((90,), "float32")):
    for i in range(150):
        for j in range(90):
            B[j] = B[j] + A[i, j]


def test_loops_that_sum_rows_keep_the_order_of_each_column():
    assert kinds(in_order) == ["columns"]
    agrees(in_order, [drawn(150, 90), drawn(90)], rtol=0)


@T.prim_func
def vectors(
    A: T.Buffer((40, 30), "float32x4"),
    B: T.Buffer((40,), "float32x4"),
    C: T.Buffer((30,), "float32x4"),
):
    for i, j in T.grid(40, 30):
        with T.sblock("rows"):
            x, y = T.axis.remap("SR", [i, j])
            with T.init():
                B[x] = T.Broadcast(T.float32(0), 4)
            B[x] = B[x] + A[x, y]
    for j, i in T.grid(30, 40):
        with T.sblock("columns"):
            y, x = T.axis.remap("SR", [j, i])
            with T.init():
                C[y] = T.Broadcast(T.float32(0), 4)
            C[y] = C[y] + A[x, y]


def test_elements_that_are_vectors_keep_their_order():
    agrees(vectors, [drawn(40, 30, 4), drawn(40, 4), drawn(30, 4)], rtol=0)


def test_a_factor_of_all_columns():
    func = read_function(
        'x: T.Buffer((40, 70), "float32"), s: T.Buffer((), "float32"), o: T.Buffer((70,), "float32")',
        """
for j in range(70):
    o[j] = T.float32(0)
    for i in range(40):
        o[j] += s[()] * x[i, j]
""",
    )
    assert interpret_kinds(func, draw(func, s=np.array(3, "float32"))) == ["columns"]
