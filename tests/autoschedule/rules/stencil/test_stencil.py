"""Windows of neighbours are combined in tiles, and mean what they meant."""

from __future__ import annotations

import numpy as np
import pytest

from loomir import te
from loomir.ir.visit import by_class
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.stmt import For
from tests.autoschedule.agreement import interpret_both
from tests.autoschedule.equivalence import assert_same_results, kinds, schedule_for

RANDOM = np.random.default_rng(13)


def image(*shape: int, name: str = "x", dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, dtype, name=name)


def test_depthwise_convolution_of_channels_first_with_what_follows():
    x, w, b = image(2, 3, 7, 37), image(3, 1, 3, 3, name="w"), image(3, 1, 1, name="b")
    out = topi.relu(topi.add(topi.conv(x, w, 1, 1, groups=3), b))
    func = te.create_prim_func([x, w, b, out])
    made = assert_same_results(
        func, (2, 3, 7, 37), (3, 1, 3, 3), (3, 1, 1), (2, 3, 7, 37), rtol=1e-5
    )
    assert kinds(made) == ["windows"]
    assert "add" not in made.func.script()


def test_depthwise_convolution_of_channels_last():
    x, w = image(1, 6, 9, 35), image(3, 3, 1, 35, name="w")
    out = topi.conv(x, w, 1, 1, groups=35, layout="NHWC", kernel_layout="HWIO")
    made = assert_same_results(
        te.create_prim_func([x, w, out]), (1, 6, 9, 35), (3, 3, 1, 35), (1, 6, 9, 35), rtol=1e-5
    )
    assert kinds(made) == ["windows"]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("window", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (3, 1, 1)])
def test_pooling_is_equal_bit_for_bit(layout: str, window: int, stride: int, padding: int):
    h, w, c = 6, 39, 18
    shape = (1, 2, h, w) if layout == "NCHW" else (1, h, 5, c)
    out = [(n + 2 * padding - window) // stride + 1 for n in (h, w if layout == "NCHW" else 5)]
    made = (1, 2, *out) if layout == "NCHW" else (1, *out, c)
    x = image(*shape)
    pool = topi.max_pool if stride == 2 else topi.avg_pool
    func = te.create_prim_func([x, pool(x, window, stride, padding, layout=layout)])
    assert kinds(assert_same_results(func, shape, made)) == ["windows"]


@pytest.mark.parametrize("dtype", ["int8", "float64"])
def test_other_elements(dtype: str):
    x = image(1, 2, 6, 70, dtype=dtype)
    func = te.create_prim_func([x, topi.max_pool(x, 2, 2)])
    assert kinds(assert_same_results(func, (1, 2, 6, 70), (1, 2, 3, 35), dtype=dtype)) == [
        "windows"
    ]


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    m, n = T.int64(), T.int64()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    for i, j, k, h in T.grid(m, n, 3, 3):
        with T.sblock("stencil"):
            y, x, dy, dx = T.axis.remap("SSRR", [i, j, k, h])
            with T.init():
                B[y, x] = T.float32(0)
            B[y, x] += T.if_then_else(
                y + dy >= 1 and y + dy <= m and x + dx >= 1 and x + dx <= n,
                A[y + dy - 1, x + dx - 1],
                T.float32(0),
            )


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (2, 40), (11, 70)])
def test_sizes_that_are_known_at_the_call_only(shape: tuple[int, int]):
    made = assert_same_results(
        symbolic, shape, shape, targets=("native",) if min(shape) < 2 else ("haswell",)
    )
    assert kinds(made) == ["windows"]


@T.prim_func
def rounded_each(A: T.Buffer((6, 34), "float32"), B: T.Buffer((4, 32), "float32")):
    for i, j in T.grid(4, 32):
        B[i, j] = T.float32(0)
        for k, h in T.grid(3, 3):
            B[i, j] = B[i, j] + A[i + k, j + h] * A[i + k, j]


def test_loops_without_blocks_keep_the_order_and_each_rounding():
    made = assert_same_results(rounded_each, (6, 34), (4, 32))
    assert kinds(made) == ["windows"]
    assert "fma" not in made.func.script()


def test_convolutions_that_sum_over_channels_are_left_to_products():
    x, w = image(1, 4, 8, 16), image(4, 2, 3, 3, name="w")
    func = te.create_prim_func([x, w, topi.conv(x, w, 1, 1, groups=2)])
    assert "windows" not in kinds(schedule_for(func, "native", tasks=False))


def test_weights_that_lie_across_are_copied():
    x, w = image(1, 4, 5, 35), image(35, 1, 3, 3, name="w")
    func = te.create_prim_func([x, w, topi.conv(x, w, 1, 1, groups=35, layout="NHWC")])
    made = assert_same_results(
        func, (1, 4, 5, 35), (35, 1, 3, 3), (1, 4, 5, 35), rtol=1e-5, targets=("native",)
    )
    assert "w is copied to lie along vectors too" in made.plans[0].choices


@T.prim_func
def of_vectors(A: T.Buffer((6, 34), "float32x4"), B: T.Buffer((4, 32), "float32x4")):
    for i, j, k, h in T.grid(4, 32, 3, 3):
        with T.sblock("sum"):
            y, x, dy, dx = T.axis.remap("SSRR", [i, j, k, h])
            with T.init():
                B[y, x] = T.Broadcast(T.float32(0), 4)
            B[y, x] = B[y, x] + A[y + dy, x + dx]


def test_elements_that_are_vectors_are_left_to_other_rules():
    assert "windows" not in kinds(schedule_for(of_vectors, "native", tasks=True))


@T.prim_func
def of_first_elements(A: T.Buffer((6, 34), "float32x4"), B: T.Buffer((4, 32), "float32")):
    for i, j, k, h in T.grid(4, 32, 3, 3):
        with T.sblock("sum"):
            y, x, dy, dx = T.axis.remap("SSRR", [i, j, k, h])
            with T.init():
                B[y, x] = T.float32(0)
            B[y, x] = B[y, x] + T.Shuffle([A[y + dy, x + dx]], [0])


def test_results_of_elements_that_are_vectors_are_left_too():
    arrays = [RANDOM.standard_normal(s).astype("float32") for s in ((6, 34, 4), (4, 32))]
    plans = interpret_both(of_first_elements, arrays)
    assert [plan.kind for plan in plans] == ["reduction"]


@pytest.mark.parametrize("tasks", [False, True])
@pytest.mark.parametrize("height", [8, 9])
def test_rows_that_fill_tiles_leave_none_over(height: int, tasks: bool):
    x = te.placeholder((height + 2, 18))
    k, h = te.reduce_axis((0, 3)), te.reduce_axis((0, 3))
    sums = te.compute((height, 16), lambda i, j: te.sum(x[i + k, j + h], [k, h]))
    func = te.create_prim_func([x, sums])
    arrays = [RANDOM.standard_normal(s).astype("float32") for s in ((height + 2, 18), (height, 16))]
    (plan,) = interpret_both(func, arrays, tasks=tasks)
    assert plan.choices[0].startswith("tile of 2 x 16")
    names = {loop.loop_var.name_hint for loop in by_class(plan.stmt)[For]}
    assert ("rest" in names) == (height == 9)


@pytest.mark.parametrize(
    ("width", "wanted"),
    [
        (7, ["windows", "element-wise"]),
        (37, ["windows", "element-wise"]),
        (2**20, ["windows"]),  # no cache holds the sums
    ],
)
def test_math_functions_on_results_are_a_stage_of_their_own_where_a_cache_holds_these(
    width: int, wanted: list[str]
):
    x, w, b = image(1, 8, 7, width), image(8, 1, 3, 3, name="w"), image(8, 1, 1, name="b")
    y = topi.add(topi.conv(x, w, 1, 1, groups=8), b)
    func = te.create_prim_func([x, w, b, topi.sqrt(topi.multiply(y, y))])
    made = schedule_for(func, "haswell", tasks=True)
    assert kinds(made) == wanted
    if width == 7:
        shape = (1, 8, 7, width)
        assert_same_results(func, shape, (8, 1, 3, 3), (8, 1, 1), shape, rtol=1e-5)
