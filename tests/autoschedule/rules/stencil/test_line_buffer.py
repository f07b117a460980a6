"""Windows over a copy of rows with their padding mean what they meant."""

from __future__ import annotations

import math

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.driver import ScheduledFunction, schedule_function
from loomir.script import from_source
from loomir.script import tir as T
from loomir.target import Target
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import interpret_both
from tests.autoschedule.equivalence import assert_same_results, kinds, schedule_for

RANDOM = np.random.default_rng(7)


def is_copied(made: ScheduledFunction) -> bool:
    return any("rows are copied" in choice for plan in made.plans for choice in plan.choices)


def depthwise(
    n: int | te.Var, c: int, side: tuple[int, int], window: int, dtype: str = "float32", **how: int
) -> tuple[PrimFunc, list[tuple[int, ...]]]:
    x, w = te.placeholder((n, c, *side), dtype), te.placeholder((c, 1, window, window), dtype)
    b = te.placeholder((c, 1, 1), dtype)
    out = topi.relu(topi.add(topi.conv(x, w, groups=c, **how), b))
    reach = (window - 1) * how.get("dilation", 1) + 1
    after = [(s + 2 * how.get("padding", 0) - reach) // how.get("stride", 1) + 1 for s in side]
    images = n if isinstance(n, int) else 2
    shapes = [(images, c, *side), (c, 1, window, window), (c, 1, 1), (images, c, *after)]
    return te.create_prim_func([x, w, b, out]), shapes


@pytest.mark.parametrize(
    ("side", "window", "how"),
    [
        ((9, 37), 7, {"padding": 3}),  # pieces of several widths, rows that fill no tile
        ((7, 7), 7, {"padding": 3}),  # one window of each row and column reads no padding
        ((7, 7), 3, {"padding": 1}),  # narrow: three by three is enough
        ((3, 2), 5, {"padding": 4}),  # windows that are larger than the image
        ((11, 23), 5, {"stride": 2, "padding": 2}),
        ((13, 40), 5, {"stride": 3}),
        ((12, 19), 5, {"dilation": 2, "padding": 4}),
        ((23, 50), 5, {"dilation": 3, "stride": 2, "padding": 5}),
    ],
)
def test_depthwise_convolutions(side: tuple[int, int], window: int, how: dict[str, int]):
    func, shapes = depthwise(2, 3, side, window, **how)
    made = assert_same_results(func, *shapes, rtol=1e-4)
    assert kinds(made) == ["windows"]
    assert is_copied(made)


def test_other_elements_and_images_of_which_the_number_is_known_at_the_call_only():
    func, shapes = depthwise(te.var("n", "int64"), 2, (8, 21), 5, "float64", padding=2)
    assert is_copied(assert_same_results(func, *shapes, dtype="float64", rtol=1e-12))
    x = te.placeholder((1, 2, 9, 70), "int8")
    func = te.create_prim_func([x, topi.max_pool(x, 5, 2, 2)])
    assert is_copied(assert_same_results(func, (1, 2, 9, 70), (1, 2, 5, 35), dtype="int8"))


def test_large_images_are_copied_in_bands():
    func, shapes = depthwise(1, 1, (26, 200), 5, padding=2)
    made = assert_same_results(func, *shapes, rtol=1e-4)
    assert is_copied(made)
    assert "bands of 26 rows" not in made.plans[0].choices[-1]


def test_what_is_no_number_reaches_only_the_windows_over_it():
    func, shapes = depthwise(1, 1, (12, 20), 5, padding=2)
    x, w, b, out = (np.ones(shape, "float32") for shape in shapes)
    x[0, 0, 3, 0], x[0, 0, 11, 19] = np.nan, np.inf
    loomir.compile(func)(x, w, b, out)
    assert np.isnan(out[0, 0]).nonzero()[0].tolist() == [y for y in range(1, 6) for _ in range(3)]
    assert np.isinf(out[0, 0, 9:, 17:]).all()
    assert np.isfinite(out[0, 0, :9, 3:]).all()


@T.prim_func
def rows_at_the_call(a: T.handle, b: T.handle):
    m = T.int64()
    A = T.match_buffer(a, (m, 19), "float32")
    B = T.match_buffer(b, (m, 19), "float32")
    for i, j, k, h in T.grid(m, 19, 5, 5):
        with T.sblock("stencil"):
            y, x, dy, dx = T.axis.remap("SSRR", [i, j, k, h])
            with T.init():
                B[y, x] = T.float32(1)
            B[y, x] += T.if_then_else(
                y + dy >= 2 and y + dy < m + 2 and x + dx >= 2 and x + dx < 21,
                A[y + dy - 2, x + dx - 2] * A[y + dy - 2, x + dx - 2],
                T.float32(0.5),
            )


@pytest.mark.parametrize("rows", [0, 1, 13])
def test_rows_that_are_known_at_the_call_only(rows: int):
    made = assert_same_results(rows_at_the_call, (rows, 19), (rows, 19), rtol=1e-4)
    assert is_copied(made)


@T.prim_func
def dilated(A: T.Buffer((47, 30), "float32"), B: T.Buffer((5, 8), "float32")):
    for i, j, k, h in T.grid(5, 8, 11, 2):
        with T.sblock("sum"):
            y, x, dy, dx = T.axis.remap("SSRR", [i, j, k, h])
            with T.init():
                B[y, x] = T.float32(0)
            # Places from 30 on are within the condition, and not in the buffer.
            B[y, x] += T.if_then_else(
                x * 4 + dx < 100 and x * 4 + dx > 4, A[y * 11 + dy - y * 2, x * 4 + dx], 3.0
            )


def test_places_that_are_never_read_are_not_copied():
    assert is_copied(assert_same_results(dilated, (47, 30), (5, 8), rtol=1e-4))


def rows_first(order: str) -> PrimFunc:
    """Sum a window of which ``order`` names the loops, from the outer to the inner one."""
    read = from_source(
        f"""
@T.prim_func
def main(
    A: T.Buffer((9, 34), "float32"),
    W: T.Buffer((5, 5), "float32"),
    B: T.Buffer((5, 30), "float32"),
):
    for i, j in T.grid(5, 30):
        B[i, j] = T.float32(0)
        for {order} in T.grid(5, 5):
            B[i, j] = B[i, j] + A[i + k, j + h] * W[k, h]
"""
    )
    assert isinstance(read, PrimFunc)
    return read


def test_loops_without_blocks_keep_the_order_and_each_rounding():
    for order, copied in (("h, k", True), ("k, h", False)):
        made = assert_same_results(rows_first(order), (9, 34), (5, 5), (5, 30))
        assert kinds(made) == ["windows"]
        assert is_copied(made) is copied
        assert "fma" not in made.func.script()


@T.prim_func
def mixed(A: T.Buffer((12, 60), "float32"), B: T.Buffer((7, 30), "float32")):
    for i, j, k, h in T.grid(7, 30, 5, 5):
        with T.sblock("sum"):
            y, x, dy, dx = T.axis.remap("SSRR", [i, j, k, h])
            with T.init():
                B[y, x] = T.float32(0)
            B[y, x] += T.if_then_else(
                y + dy < 10, A[y + dy, x + dx] + A[y + dy, x * 2 - dx + 1], T.float32(0)
            )


def test_reads_that_move_differently_are_left_where_they_are():
    assert not is_copied(schedule_for(mixed, "native", tasks=False))


@T.prim_func
def from_starts(
    A: T.Buffer((12, 9), "int64"), S: T.Buffer((9, 7), "int64"), B: T.Buffer((9, 7), "int64")
):
    for i, j in T.grid(9, 7):
        B[i, j] = S[i, j]
        for k, h in T.grid(4, 3):
            B[i, j] = B[i, j] + A[i + k, j + h]


@T.prim_func
def with_own_weights(
    A: T.Buffer((12, 9), "int64"), W: T.Buffer((4, 3, 7), "int64"), B: T.Buffer((9, 7), "int64")
):
    for i, j in T.grid(9, 7):
        B[i, j] = T.int64(0)
        for k, h in T.grid(4, 3):
            B[i, j] = B[i, j] + W[k, h, j] * T.if_then_else(j + h < 9, A[i + k, j + h], T.int64(0))


@pytest.mark.parametrize(("func", "other"), [(from_starts, (9, 7)), (with_own_weights, (4, 3, 7))])
def test_nothing_is_read_beyond_the_last_result(func: PrimFunc, other: tuple[int, ...]) -> None:
    """Rows of 7 in vectors of 8 lanes: what is not copied has no eighth element."""
    made = schedule_function(func, Target("skylake-avx512"))
    assert not is_copied(made)
    given = [np.arange(math.prod(s), dtype="int64").reshape(s) for s in ((12, 9), other)]
    wanted, found = np.zeros((9, 7), "int64"), np.zeros((9, 7), "int64")
    loomir.interpret(func, *given, wanted)
    loomir.interpret(made.func, *given, found)
    np.testing.assert_array_equal(found, wanted)


def window(value: str, condition: str, shape: str, other: str = "T.float32(0)") -> PrimFunc:
    """Sum windows of 5 x 5 elements; what is read where a condition holds may be otherwise."""
    read = from_source(
        f"""
@T.prim_func
def main(a: T.handle, W: T.Buffer((5, 5), "float32"), B: T.Buffer((9, 19), "float32")):
    m = T.int64()
    n = T.int64()
    A = T.match_buffer(a, {shape}, "float32")
    for i, j, k, h in T.grid(T.int64(9), T.int64(19), T.int64(5), T.int64(5)):
        with T.sblock("window"):
            y, x, u, v = T.axis.remap("SSRR", [i, j, k, h])
            with T.init():
                B[y, x] = T.float32(0)
            B[y, x] += T.if_then_else({condition}, {value}, {other})
"""
    )
    assert isinstance(read, PrimFunc)
    return read


INSIDE = "y + u >= 2 and y + u < 11 and x + v >= 2 and x + v < 21"
SMALL, LARGE = "A[y + u - 2, x + v - 2]", "A[y + u, x + v]"
WINDOWS = {
    "border": (SMALL, INSIDE, "(9, 19)", "T.float32(0)"),
    "weights within": (f"{SMALL} * W[u, v]", INSIDE, "(9, 19)", "T.float32(0)"),
    "weights beside": (SMALL, INSIDE, "(9, 19)", "W[u, v]"),
    "rows of results": (LARGE, "y >= 2 and x + v >= 2", "(13, 23)", "T.float32(0)"),
    "symbolic condition": (LARGE, "x + v < n", "(13, n)", "T.float32(0)"),
    "symbolic width": (LARGE, "x + v < 20", "(13, n)", "T.float32(0)"),
    "last rows": ("A[y + u + (m - 13), x + v]", "x + v < 20", "(m, 23)", "T.float32(0)"),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_rows_are_copied_only_if_all_windows_see_the_same(name: str):
    value, condition, shape, other = WINDOWS[name]
    func = window(value, condition, shape, other)
    sizes = {"border": (9, 19), "weights within": (9, 19), "weights beside": (9, 19)}
    given = sizes.get(name, (15, 23) if name == "last rows" else (13, 23))
    arrays = [RANDOM.standard_normal(s).astype("float32") for s in (given, (5, 5), (9, 19))]
    (plan,) = interpret_both(func, arrays, rtol=1e-4)
    assert plan.kind == "windows"
    assert any("rows are copied" in text for text in plan.choices) == (name == "border")
