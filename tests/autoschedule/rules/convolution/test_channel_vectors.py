"""Convolutions with constant kernels: vectors of channels, pixels read a number at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pytest

import loomir
from fuzz.native import quick_codegen
from loomir import te
from loomir.arith.fold import add, fold_expr, imm64, mul
from loomir.autoschedule.builders.loops import INDEX
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rules.convolution import channel_tiles, channel_vectors
from loomir.autoschedule.rules.convolution.valid_taps import find_tap_bounds
from loomir.target import Target
from loomir.te import topi
from loomir.tir.expr import IntImm, Var
from loomir.tir.function import PrimFunc
from loomir.tir.prepared_function import PreparedBuffer
from tests.autoschedule.rules.convolution.test_implicit_gemm import expected
from tests.autoschedule.test_prepack_constants import prepared, run

Array = np.ndarray[Any, Any]

WIDE = "icelake-server"
"""A machine with 32 registers, whatever this one has: the interpreter runs its loops."""


def always(*_: object) -> bool:
    return True


def never(*_: object) -> float:
    return 0.0


@pytest.fixture
def anyhow() -> Iterator[None]:
    """Choose vectors of channels for small work too, and where they are slower; in several panels."""
    with mock.patch.multiple(
        channel_vectors, _PANEL=0, _LEAST_STEPS=1, estimate_pixel_vectors=never, is_near=always
    ):
        yield


def convolution(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: int = 1,
    pads: int = 0,
    dilation: int = 1,
    groups: int = 1,
    *,
    dtype: str = "float32",
    after: bool = False,
) -> tuple[PrimFunc, list[Array], Array]:
    """Return a convolution, what it takes, and what it gives."""
    rank = len(size) - 2
    x, w = te.placeholder(size, dtype, name="x"), te.placeholder(kernel, dtype, name="w")
    out = topi.conv(x, w, stride, (pads,) * 2 * rank, dilation, groups)
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(s).astype(dtype) for s in (size, kernel)]
    wanted = expected(
        arrays[0],
        arrays[1],
        [stride] * rank,
        [(pads, pads)] * rank,
        [dilation] * rank,
        groups,
    )
    given = [x, w]
    if after:
        bias = te.placeholder((kernel[0],), dtype, name="bias")
        product, given = out, [x, w, bias]
        out = te.compute(out.shape, lambda *i: product[i] * 2 + bias[i[1]])
        arrays.append(rng.standard_normal(kernel[0]).astype(dtype))
        wanted = wanted * 2 + arrays[2][(slice(None), *[None] * rank)]
    return te.create_prim_func([*given, out]), arrays, wanted


def in_vectors(func: PrimFunc, target: str = WIDE) -> bool:
    """Whether vectors of channels are chosen for a convolution whose kernels are constant."""
    known = frozenset({func.buffer_map[func.params[1]].data})
    plans = schedule_function(func, Target(target), constants=known).plans
    return any("along output channels" in choice for choice in plans[-1].choices)


@pytest.mark.parametrize(
    "options",
    [
        {"size": (1, 3, 5, 14), "kernel": (32, 3, 3, 3), "pads": 1},
        {"size": (2, 5, 6, 7), "kernel": (33, 5, 3, 3), "pads": 1},
        {"size": (1, 4, 7, 3), "kernel": (17, 4, 3, 2)},
        {"size": (1, 4, 12, 31), "kernel": (40, 4, 3, 3), "stride": 2, "pads": 1},
        {"size": (1, 2, 9, 20), "kernel": (16, 2, 3, 3), "dilation": 2, "stride": 3, "pads": 3},
        {"size": (2, 8, 3, 17), "kernel": (36, 4, 2, 3), "groups": 2},
        {"size": (1, 6, 40), "kernel": (18, 6, 5), "pads": 2},
        {"size": (1, 2, 3, 4, 5), "kernel": (20, 2, 2, 2, 2)},
        {"size": (1, 7, 5, 11), "kernel": (9, 7, 3, 3), "dtype": "float64"},
        {"size": (1, 9, 4, 4), "kernel": (16, 9, 1, 1), "stride": 2},
        {"size": (1, 3, 7, 7), "kernel": (40, 3, 5, 5), "pads": 2},
        {"size": (1, 3, 6, 9), "kernel": (17, 3, 3, 3), "pads": 2, "dilation": 2, "stride": 2},
        {"size": (1, 2, 3, 4), "kernel": (16, 2, 3, 2), "pads": 5},
        {"size": (1, 1, 6, 10), "kernel": (16, 1, 3, 3), "pads": 1},
        {"size": (1, 3, 4, 3, 5), "kernel": (18, 3, 3, 3, 3), "pads": 1},
    ],
    ids=[
        "a line",
        "several lines",
        "lines that overlap",
        "strided",
        "dilated",
        "groups",
        "one axis",
        "three axes",
        "float64",
        "one tap",
        "wide kernels",
        "wide kernels that are dilated",
        "pixels that see nothing but zeros",
        "one channel",
        "three axes with padding",
    ],
)
@pytest.mark.usefixtures("anyhow")
def test_convolutions_in_vectors_of_channels(options: dict[str, Any]) -> None:
    func, arrays, wanted = convolution(**options, after=True)
    assert in_vectors(func)
    made = prepared(func, {1}, WIDE)
    results: list[Array] = []
    with quick_codegen():
        for how in ("interpreted", "haswell"):
            results.append(np.full(wanted.shape, np.nan, arrays[0].dtype))
            run(made, [*arrays, results[-1]], how)
    np.testing.assert_allclose(results[0], wanted, 1e-4, 1e-4)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.usefixtures("anyhow")
@pytest.mark.parametrize(("width", "said"), [(14, "lines and their ends"), (31, "lines")])
def test_zeros_around_images_take_no_products(width: int, said: str) -> None:
    func, (image, kernel), wanted = convolution((1, 4, 6, width), (16, 4, 3, 3), pads=1)
    known = frozenset({func.buffer_map[func.params[1]].data})
    choices = schedule_function(func, Target(WIDE), constants=known).plans[-1].choices
    assert choices[-1] == f"steps that see only zeros are left out, of {said}"
    made = prepared(func, {1}, WIDE)
    (part,) = made.preparations
    kernels, finite = (
        np.zeros([n.value for n in b.shape if isinstance(n, IntImm)], "float32")
        for b in list(part.func.buffer_map.values())[1:]
    )
    loomir.interpret(part.func, part.func.name, kernel, kernels, finite)
    assert not finite[0, 0]
    # Zero times infinity is seen where it is computed: by all that see the image elsewhere.
    where = kernel.copy()
    where[:, :, 0, :] = np.inf
    spoilt = np.zeros_like(kernels)
    loomir.interpret(part.func, part.func.name, where, spoilt, finite)
    assert np.isnan(finite[0, 0])
    result = np.full(wanted.shape, -1, "float32")
    given = {0: spoilt, 1: np.zeros_like(finite)}
    arrays = [
        given[a.buffer] if isinstance(a, PreparedBuffer) else image for a in made.arguments[:-1]
    ]
    loomir.interpret(made.func, made.func.name, *arrays, result)
    # The first line sees no image in the first line of kernels; others do, and are infinite.
    assert np.isfinite(result[:, :, 0]).all()
    assert not np.isfinite(result[:, :, 1:]).any()


@pytest.mark.usefixtures("anyhow")
def test_images_without_zeros_around_have_no_steps_to_leave_out() -> None:
    func, _, _ = convolution((1, 4, 6, 14), (19, 4, 3, 3))
    known = frozenset({func.buffer_map[func.params[1]].data})
    choices = schedule_function(func, Target(WIDE), constants=known).plans[-1].choices
    assert not any("zeros" in choice for choice in choices)


@pytest.mark.parametrize(
    ("stride", "dilation", "low", "high"), [(1, 1, 1, 8), (2, 1, 1, 12), (1, 2, 3, 4), (3, 2, 5, 9)]
)
def test_valid_taps_are_those_that_read_the_image(
    stride: int, dilation: int, low: int, high: int
) -> None:
    pixels, steps = 7, 4
    i, s = (Axis(Var(name, INDEX), imm64(n)) for name, n in (("i", pixels), ("s", steps)))
    index = add(mul(i.var, imm64(stride)), mul(s.var, imm64(dilation)))
    bounds = {0: (imm64(low), imm64(high))}
    (taps,) = find_tap_bounds([index], bounds, [i], [s])
    seen = [[low <= stride * p + dilation * x < high for x in range(steps)] for p in range(pixels)]
    assert taps.share == sum(map(sum, seen)) / (pixels * steps)
    for first in range(pixels):
        assert [taps.is_valid(first, x) for x in range(steps)] == seen[first]
        for last in range(first, pixels):
            begin, count = (fold_expr(e) for e in taps.span(imm64(first), imm64(last)))
            assert isinstance(begin, IntImm)
            assert isinstance(count, IntImm)
            some = [x for x in range(steps) for p in range(first, last + 1) if seen[p][x]]
            covered = range(begin.value, begin.value + count.value)
            assert set(some) <= set(covered)
            assert last > first or set(some) == set(covered)
            assert not count.value or covered[-1] < steps
    # No bound is passed, or another index moves as well.
    assert not find_tap_bounds([index], {0: (imm64(0), imm64(99))}, [i], [s])
    assert not find_tap_bounds([index, s.var], bounds, [i], [s])


@pytest.mark.usefixtures("anyhow")
@pytest.mark.parametrize("width", [15, 14, 7])
def test_special_values_reach_only_what_depends_on_them(width: int) -> None:
    func, arrays, _ = convolution((1, 4, 6, width), (19, 4, 3, 3), pads=1)
    assert in_vectors(func)
    made = prepared(func, {1}, WIDE)
    image, kernel = arrays
    image[0, 2, 3, 6], kernel[18, 1, 0, 2] = np.nan, np.inf
    wanted, result = (np.full((1, 19, 6, width), -1, "float32") for _ in range(2))
    loomir.interpret(func, func.name, image, kernel, wanted)
    run(made, [image, kernel, result], "interpreted")
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    np.testing.assert_array_equal(np.isposinf(result), np.isposinf(wanted))
    assert 0 < np.isnan(wanted).sum() < wanted.size / 2


@pytest.mark.usefixtures("anyhow")
def test_any_number_of_images() -> None:
    n = te.size_var("n", "int64")
    x, w = te.placeholder((n, 3, 8, 9), name="x"), te.placeholder((20, 3, 3, 3), name="w")
    func = te.create_prim_func([x, w, topi.conv(x, w, 1, 1)])
    assert in_vectors(func)
    made = prepared(func, {1}, WIDE)
    rng = np.random.default_rng(2)
    kernel = rng.standard_normal((20, 3, 3, 3)).astype("float32")
    for count in (0, 1, 3):
        image = rng.standard_normal((count, 3, 8, 9)).astype("float32")
        result = np.full((count, 20, 8, 9), np.nan, "float32")
        run(made, [image, kernel, result], "interpreted")
        wanted = expected(image, kernel, [1, 1], [(1, 1), (1, 1)], [1, 1], 1)
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-4)


@pytest.mark.usefixtures("anyhow")
def test_channels_at_symbolic_distances_are_not_read_in_vectors() -> None:
    """The first lines of images of any height: pixels lie along vectors then."""
    h = te.size_var("h", "int64")
    x, w = te.placeholder((3, h, 9), name="x"), te.placeholder((16, 3, 3, 3), name="w")
    c, u, v = (te.reduce_axis((0, 3)) for _ in range(3))
    out = te.compute(
        (16, 4, 7), lambda o, i, j: te.sum(x[c, i + u, j + v] * w[o, c, u, v], [c, u, v])
    )
    func = te.create_prim_func([x, w, out])
    assert not in_vectors(func)
    rng = np.random.default_rng(6)
    image, kernel = (rng.standard_normal(s).astype("float32") for s in ((3, 8, 9), (16, 3, 3, 3)))
    result = np.full((16, 4, 7), np.nan, "float32")
    run(prepared(func, {1}, WIDE), [image, kernel, result], "interpreted")
    wanted = expected(image[None, :, :6], kernel, [1, 1], [(0, 0), (0, 0)], [1, 1], 1)
    np.testing.assert_allclose(result, wanted[0], 1e-4, 1e-4)


def test_they_are_chosen_for_many_channels_of_few_pixels() -> None:
    def chosen(*args: Any, target: str = WIDE) -> bool:
        x, w, *rest = args
        image, kernel = te.placeholder(x), te.placeholder(w)
        return in_vectors(
            te.create_prim_func([image, kernel, topi.conv(image, kernel, *rest)]), target
        )

    assert chosen((1, 256, 14, 14), (256, 256, 3, 3), 1, 1)
    assert chosen((1, 128, 28, 28), (128, 128, 3, 3), 1, 1)
    assert not chosen((1, 256, 14, 14), (256, 256, 3, 3), 1, 1, target="haswell")
    assert chosen((1, 512, 14, 14), (512, 512, 3, 3), 2, 1)
    assert not chosen((1, 64, 56, 56), (20, 64, 3, 3), 1, 1)  # channels fill no vectors
    assert not chosen((1, 3, 224, 224), (64, 3, 7, 7), 2, 3)  # few steps
    assert not chosen((1, 2048, 14, 14), (1024, 2048, 1, 1))  # an image in L3 that is read once


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 16])
@pytest.mark.parametrize(("pieces", "blocks"), [(7, 11), (14, 8), (224, 2), (5, 1), (1, 3)])
def test_blocks_are_shared_evenly_where_that_is_possible(
    pieces: int, blocks: int, cores: int
) -> None:
    size = channel_tiles.tiles_of_block(pieces, blocks, cores)
    assert 1 <= size <= min(16, pieces)
    parts = [min(size, pieces - first) for first in range(0, pieces, size)] * blocks
    ends = [len(parts) * c // cores for c in range(cores + 1)]
    most = max(sum(parts[a:b]) for a, b in pairwise(ends))
    even = len(parts) >= 4 * cores and most * cores <= 1.06 * sum(parts)
    assert even or size <= -(-pieces // min(pieces, -(-4 * cores // blocks)))
    if cores == 1 and blocks >= 4:
        assert size == min(16, pieces)
