"""Convolutions with pixels side by side: kernels read in place, panels of the image."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pytest

import loomir
from fuzz.native import quick_codegen
from loomir import te
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.rules.convolution import panel_packing
from loomir.interp import interpret
from loomir.script import from_source
from loomir.target import Target
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import interpret_both
from tests.autoschedule.rules.matmul.test_epilogues import draw, list_buffers, polynomial

Array = np.ndarray[Any, Any]


def expected(
    x: Array,
    w: Array,
    stride: list[int],
    pads: list[tuple[int, int]],
    dilation: list[int],
    groups: int,
) -> Array:
    """Convolve by shifts of the padded image, in float64."""
    rank = x.ndim - 2
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), *pads])
    kernel = w.shape[2:]
    out = [
        (x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(rank)
    ]
    made = np.zeros((x.shape[0], w.shape[0], *out))
    per, own = w.shape[0] // groups, w.shape[1]
    for o in range(w.shape[0]):
        group = x[:, o // per * own : (o // per + 1) * own]
        for k in product(*map(range, kernel)):
            shifted = [
                slice(
                    k[i] * dilation[i], k[i] * dilation[i] + stride[i] * (out[i] - 1) + 1, stride[i]
                )
                for i in range(rank)
            ]
            made[:, o] += np.tensordot(
                w[(o, slice(None), *k)], group[(slice(None), slice(None), *shifted)], (0, 1)
            )
    return made


def check(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: int = 1,
    pads: tuple[int, int] = (0, 0),
    dilation: int = 1,
    groups: int = 1,
    *,
    dtype: str = "float32",
    after: bool = False,
    interpreted: bool = False,
) -> PrimFunc:
    """Compare a convolution, as scheduled for two machines, with NumPy."""
    rank = len(size) - 2
    x, w = te.placeholder(size, dtype), te.placeholder(kernel, dtype)
    padding = (pads[0],) * rank + (pads[1],) * rank
    out = topi.conv(x, w, stride, padding, dilation, groups)
    given = [x, w]
    if after:
        bias, rest = te.placeholder((kernel[0],), dtype), te.placeholder(out.shape, dtype)
        product, given = out, [x, w, bias, rest]
        out = te.compute(out.shape, lambda *i: product[i] * rest[i] + bias[i[1]])
    func = te.create_prim_func([*given, out])
    rng = np.random.default_rng(3)
    one, other = (rng.standard_normal(s).astype(dtype) for s in (size, kernel))
    wanted = expected(one, other, [stride] * rank, [pads] * rank, [dilation] * rank, groups)
    arrays: list[Array] = [one, other]
    if after:
        arrays += [rng.standard_normal(s).astype(dtype) for s in (kernel[0], wanted.shape)]
        wanted = wanted * arrays[3] + arrays[2].reshape(1, -1, *[1] * rank)
    for target in ("native", "haswell"):
        made = schedule_function(func, Target(target))
        assert [plan.kind for plan in made.plans] == ["convolution"]
        assert not loomir.verify(made.func)
        result = np.full(wanted.shape, np.nan, dtype)
        with quick_codegen():  # LLVM's passes once
            level = int(target == "native")
            loomir.compile(made.func, target, opt_level=level, cache=False)(*arrays, result)
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-4)
        if interpreted:
            again = np.full(wanted.shape, np.nan, dtype)
            interpret(made.func, *arrays, again)
            np.testing.assert_array_equal(result, again)
    return made.func


@pytest.mark.parametrize(
    "options",
    [
        {"size": (1, 3, 9, 11), "kernel": (5, 3, 3, 3), "pads": (1, 1), "interpreted": True},
        {
            "size": (2, 3, 12, 10),
            "kernel": (7, 3, 3, 3),
            "stride": 2,
            "pads": (1, 0),
            "after": True,
        },
        {
            "size": (1, 2, 20, 21),
            "kernel": (9, 2, 5, 5),
            "stride": 3,
            "pads": (2, 1),
            "dilation": 2,
        },
        {"size": (3, 6, 7, 7), "kernel": (8, 3, 3, 3), "pads": (1, 1), "groups": 2, "after": True},
        {"size": (1, 4, 131), "kernel": (6, 4, 7), "stride": 5, "pads": (0, 3)},
        {"size": (1, 2, 5, 6, 7), "kernel": (3, 2, 3, 2, 2), "pads": (1, 0), "interpreted": True},
        {"size": (1, 5, 13, 13), "kernel": (33, 5, 1, 1), "stride": 2, "dtype": "float64"},
        {"size": (2, 9, 17, 3), "kernel": (4, 9, 1, 1)},
        {"size": (1, 3, 17, 2), "kernel": (4, 3, 3, 2), "pads": (1, 1)},
        {"size": (1, 270, 7, 7), "kernel": (13, 270, 3, 3), "pads": (1, 1)},
        {
            "size": (1, 34, 10, 10),
            "kernel": (6, 17, 3, 3),
            "pads": (1, 1),
            "groups": 2,
            "after": True,
        },
        {"size": (5, 17, 10, 10), "kernel": (27, 17, 3, 3), "pads": (1, 1)},
        {"size": (1, 9, 17, 17), "kernel": (29, 9, 3, 3), "pads": (1, 1), "interpreted": True},
        {"size": (1, 3, 39, 41), "kernel": (26, 3, 2, 2), "pads": (1, 0), "interpreted": True},
    ],
    ids=[
        "padded",
        "strided",
        "dilated",
        "groups",
        "line",
        "volume",
        "dilated",
        "batch",
        "narrow",
        "deep",
        "left over",
        "left over by image",
        "panels one by one",
        "strips one by one",
    ],
)
def test_convolutions(options: dict[str, Any]) -> None:
    check(**options)


def test_results_are_stored_by_vectors() -> None:
    func = check((1, 4, 6, 6), (8, 4, 3, 3), pads=(1, 1))
    script = func.script()
    assert "pad = " not in script  # the image is padded where it is copied
    assert ", column + (c" in script  # pixels of all rows are one axis


def test_few_pixels_share_panels() -> None:
    # Enough work for threads: one loop of them makes panels, one divides the channels evenly.
    func = check((1, 128, 4, 4), (96, 128, 3, 3), pads=(1, 1))
    script = func.script()
    assert script.count("T.parallel") == 2
    assert "for block in T.parallel(T.int64(2), " in script


def test_a_symbolic_batch() -> None:
    x = te.placeholder((te.var("n"), 3, 8, 9))
    w = te.placeholder((5, 3, 3, 3))
    func = te.create_prim_func([x, w, topi.conv(x, w, 1, 1)])
    made = schedule_function(func, Target("native"))
    assert made.plans[-1].kind == "convolution"
    run = loomir.compile(func, opt_level=1, cache=False)
    rng = np.random.default_rng(5)
    weight = rng.standard_normal((5, 3, 3, 3)).astype("float32")
    for n in (0, 1, 3):
        image = rng.standard_normal((n, 3, 8, 9)).astype("float32")
        result = np.full((n, 5, 8, 9), np.nan, "float32")
        run(image, weight, result)
        wanted = expected(image, weight, [1, 1], [(1, 1)] * 2, [1, 1], 1)
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float16"])
def test_short_numbers(dtype: str) -> None:
    """What other rules take gives the same numbers too."""
    import ml_dtypes

    sums = "int32" if dtype == "int8" else dtype
    x, w = te.placeholder((1, 5, 7, 9), dtype), te.placeholder((6, 5, 3, 3), dtype)
    func = te.create_prim_func([x, w, topi.conv(x, w, 1, 1, dtype=sums)])
    rng = np.random.default_rng(7)
    kinds: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16}
    as_dtype = kinds.get(dtype, dtype)
    arrays = [rng.integers(-8, 8, s).astype(as_dtype) for s in ((1, 5, 7, 9), (6, 5, 3, 3))]
    wanted = expected(*arrays, [1, 1], [(1, 1)] * 2, [1, 1], 1).astype(kinds.get(sums, sums))
    for target in ("native", "haswell"):
        result = np.zeros((1, 6, 7, 9), wanted.dtype)
        loomir.compile(func, target, opt_level=1, cache=False)(*arrays, result)
        np.testing.assert_array_equal(result, wanted)


def test_pixels_left_over_belong_to_the_last_block_of_several_tiles() -> None:
    x, w = te.placeholder((1, 64, 7, 7)), te.placeholder((120, 64, 3, 3))
    func = te.create_prim_func([x, w, topi.conv(x, w, padding=1)])
    with mock.patch.object(panel_packing, "_SHARES", 1):
        made = schedule_function(func, Target("haswell"))
    choices = made.plans[0].choices
    assert "dot products for pixels that fill no vector: 1" in choices
    assert not any(choice.endswith(" x 1 tiles") for choice in choices)
    rng = np.random.default_rng(6)
    one, other = (
        rng.standard_normal(s).astype("float32") for s in ((1, 64, 7, 7), (120, 64, 3, 3))
    )
    result = np.full((1, 120, 7, 7), np.nan, "float32")
    with quick_codegen():
        loomir.compile(made.func, "haswell", opt_level=0, cache=False)(one, other, result)
    wanted = expected(one, other, [1, 1], [(1, 1), (1, 1)], [1, 1], 1)
    np.testing.assert_allclose(result, wanted, 1e-3, 1e-3)


@pytest.mark.parametrize(("channels", "depth"), [(2, 4), (8, 9), (16, 20), (5, 7)])
def test_panels_share_the_vectors_of_pixels_left_over(channels: int, depth: int) -> None:
    """There may be more panels than vectors of steps, or a number that does not divide them."""
    x, w = te.placeholder((1, channels, 3, 3)), te.placeholder((24, channels, 3, 3))
    func = te.create_prim_func([x, w, topi.conv(x, w, padding=1)])
    rng = np.random.default_rng(channels)
    one, other = (
        rng.integers(-4, 5, s).astype("float32")
        for s in ((1, channels, 3, 3), (24, channels, 3, 3))
    )
    result = np.full((1, 24, 3, 3), np.nan, "float32")
    choose = panel_packing.choose_tiles
    with mock.patch.object(
        panel_packing, "choose_tiles", lambda *a: replace(choose(*a), depth=depth)
    ):
        made = schedule_function(func, Target("haswell"))
    assert "dot products for pixels that fill no vector: 1" in made.plans[0].choices
    assert not loomir.verify(made.func)
    loomir.interpret(made.func, func.name, one, other, result)
    wanted = expected(one, other, [1, 1], [(1, 1), (1, 1)], [1, 1], 1)
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("border", [0.0, 5.0])
def test_a_choice_within_the_border_stays_a_choice(border: float) -> None:
    first, second = (te.placeholder((3, 12, 20), "float32", name=name) for name in "ab")
    w = te.placeholder((16, 3, 3, 3), "float32", name="w")
    padded = topi.pad(
        topi.stack([first, second], 0), [(0, 0), (0, 0), (1, 1), (1, 1)], value=border
    )
    func = te.create_prim_func([first, second, w, topi.conv(padded, w)])
    plans = schedule_function(func, Target("haswell")).plans
    assert "convolution" in {plan.kind for plan in plans}
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, (3, 12, 20)).astype("float32") for _ in range(2))
    kernel = rng.integers(-3, 4, (16, 3, 3, 3)).astype("float32")
    image = np.pad(np.stack([a, b]), [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=border)
    wanted = expected(image, kernel, [1, 1], [(0, 0), (0, 0)], [1, 1], 1)
    for target in ("native", "haswell"):
        got = np.zeros((2, 16, 12, 20), "float32")
        loomir.compile(func, target, cache=False)(a, b, kernel, got)
        np.testing.assert_array_equal(got, wanted)


def product_of(m: int, n: int, k: int, *, bias: bool = False) -> PrimFunc:
    """Multiply matrices of one batch: a convolution of 1 x 1."""
    x, w = te.placeholder((1, k, n)), te.placeholder((m, k, 1))
    out = topi.conv(x, w)
    if not bias:
        return te.create_prim_func([x, w, out])
    b = te.placeholder((m,))
    return te.create_prim_func([x, w, b, te.compute(out.shape, lambda *i: out[i] + b[i[1]])])


@pytest.mark.parametrize("seed", range(6))
def test_last_columns_of_plain_matrices_are_dot_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target, lanes = (("native", Target("native").lanes(32)), ("haswell", 8))[seed % 2]
    rest = int(rng.integers(1, min(4, lanes // 4) + 1)) if lanes >= 4 else 0
    n = int(rng.integers(1, 6)) * lanes + rest
    m, k = int(rng.integers(48, 75)), int(rng.integers(2 * lanes, 6 * lanes))
    func = product_of(m, n, k, bias=bool(seed & 2))
    made = schedule_function(func, Target(target))
    assert not loomir.verify(made.func)
    choice = f"dot products for pixels that fill no vector: {rest}"
    assert (choice in made.plans[0].choices) is (rest > 0)
    shapes = [(1, k, n), (m, k, 1), (m,)][: 3 if seed & 2 else 2]
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    result = np.full((1, m, n), np.nan, "float32")
    with quick_codegen():
        loomir.compile(made.func, target, opt_level=1, cache=False)(*arrays, result)
    x, w, *b = (a.astype("float64") for a in arrays)
    bias = b[0].reshape(1, -1, 1) if b else np.float64(0)
    wanted, size = w[:, :, 0] @ x + bias, abs(w[:, :, 0]) @ abs(x) + abs(bias)
    assert (abs(result - wanted) <= (k + 4) * np.finfo("float32").eps * size).all()


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(47, 49, 64), (64, 49, 31), (64, 53, 64), (64, 48, 64), (64, 257, 64), (64, 1, 64)],
)
def test_other_plain_matrices_are_products(m: int, n: int, k: int) -> None:
    made = schedule_function(product_of(m, n, k), Target("x86-64-v4"))
    assert "convolution" not in [plan.kind for plan in made.plans]


def test_columns_that_are_packed_before_calls_stay_so() -> None:
    func = product_of(64, 49, 64)
    data = func.buffer_map[func.params[0]].data
    free = schedule_function(func, Target("x86-64-v4"))
    constant = schedule_function(func, Target("x86-64-v4"), constants={data})
    assert [plan.kind for plan in free.plans] == ["convolution"]
    assert [plan.kind for plan in constant.plans] == ["matrix product"]


def test_kernels_that_exceed_l1_are_prefetched_where_they_are_read_in_place() -> None:
    target = Target("x86-64-v4")
    few, many = product_of(48, 17, 64), product_of(120, 17, 128)
    assert target.caches[0] < 120 * 128 * 4
    assert "prefetch" not in schedule_function(few, target).func.script()
    made = schedule_function(many, target)
    assert "prefetch" in made.func.script()
    assert not loomir.verify(made.func)
    rng = np.random.default_rng(9)
    x, w = (rng.integers(-4, 5, s).astype("float32") for s in ((1, 128, 17), (120, 128, 1)))
    result = np.full((1, 120, 17), np.nan, "float32")
    interpret(made.func, made.func.name, x, w, result)
    np.testing.assert_array_equal(result[0], w[:, :, 0] @ x[0])


def test_a_long_epilogue_is_one_loop_over_the_rows_of_a_tile() -> None:
    x, w = te.placeholder((1, 2, 7, 18)), te.placeholder((3, 2, 3, 3))
    sums = topi.conv(x, w)
    done = te.compute((1, 3, 5, 16), lambda *at: polynomial(sums[at]))
    func = te.create_prim_func([x, w, done])
    shapes = (1, 2, 7, 18), (3, 2, 3, 3), (1, 3, 5, 16)
    (plan,) = interpret_both(func, draw(*shapes), target="x86-64-v4")
    assert plan.kind == "convolution"
    assert "edge" in list_buffers(plan)


def slide(image: Any, kernel: Any, width: int) -> Any:
    """Convolve 4 channels of 7 lines, for so many pixels of each."""
    c, u, v = (te.reduce_axis((0, n)) for n in (4, 3, 3))
    return te.compute(
        (3, 5, width),
        lambda o, i, j: te.sum(image[c, i + u, j + v] * kernel[o, c, u, v], [c, u, v]),
    )


@pytest.mark.parametrize(
    ("border", "width", "fused"),
    [
        ("twice", 11, True),
        ("checks", 9, False),  # no border, but every second pixel
        ("columns", 9, False),
        ("rows", 11, True),
    ],
)
def test_what_may_be_a_border(border: str, width: int, fused: bool) -> None:
    """A border may be added to another; how many rows, not columns, are inside may be symbolic."""
    n, zero = te.size_var("n", "int64"), te.const(0.0, "float32")
    rows, columns = te.const(7, "int64"), te.const(9, "int64")
    shape = {"twice": (4, 5, 7), "columns": (4, 7, n), "rows": (4, n, 9)}.get(border, (4, 7, 9))
    x, w = te.placeholder(shape), te.placeholder((3, 4, 3, 3))
    if border == "twice":
        inner = te.compute(
            (4, 6, 9),
            lambda c, i, j: te.if_then_else(
                te.all_of(i > 0, j > 0, j < 8), x[c, i - 1, j - 1], zero
            ),
        )
        padded = te.compute(
            (4, 7, 11),
            lambda c, i, j: te.if_then_else(
                te.all_of(i < 6, j > 0, j < 10), inner[c, i, j - 1], zero
            ),
        )
    elif border == "checks":
        padded = te.compute(
            shape, lambda c, i, j: te.if_then_else(((i + j) % 2).equal(0), x[c, i, j], zero)
        )
    elif border == "columns":
        padded = te.compute(
            (4, 7, columns), lambda c, i, j: te.if_then_else(j < n, x[c, i, j], zero)
        )
    else:
        padded = te.compute(
            (4, rows, 11),
            lambda c, i, j: te.if_then_else(te.all_of(i < n, j > 0, j < 10), x[c, i, j - 1], zero),
        )
    out = slide(padded, w, width - 2)
    func = te.create_prim_func([x, w, out])
    given = [getattr(e, "value", 6) for e in x.shape]
    shapes = [tuple(given), (3, 4, 3, 3), (3, 5, width - 2)]
    plans = interpret_both(func, draw(*shapes), rtol=1e-4)
    kinds = ["convolution"] if fused else ["element-wise", "convolution"]
    assert [plan.kind for plan in plans] == kinds


def test_an_image_of_which_some_is_copied_has_no_border() -> None:
    """What is not copied keeps its value, which a border would replace."""
    func = from_source("""
from loomir.script import tir as T

@T.prim_func
def main(a: T.handle, w: T.Buffer((3, 4, 3, 3), "float32"), y: T.Buffer((3, 5, 7), "float32")):
    n = T.int64()
    x = T.match_buffer(a, (4, 7, n), "float32")
    image = T.alloc_buffer((4, 7, 9))
    for c, i, j in T.grid(4, 7, 9):
        image[c, i, j] = T.if_then_else(j < n, x[c, i, j], image[c, i, j])
    for o, i, j in T.grid(3, 5, 7):
        y[o, i, j] = T.float32(0)
        for c, u, v in T.grid(4, 3, 3):
            y[o, i, j] += image[c, i + u, j + v] * w[o, c, u, v]
""")
    assert isinstance(func, PrimFunc)
    plans = interpret_both(func, draw((4, 7, 9), (3, 4, 3, 3), (3, 5, 7)), rtol=1e-4)
    assert [plan.kind for plan in plans] == ["element-wise", "convolution"]
