"""Convolutions by Winograd's transforms."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.module import IRModule
from loomir.relax.normal.normalize import normalize
from loomir.support.diagnostics import CompileError
from loomir.te.topi.nn.winograd import winograd
from loomir.transform.relax.constants.bind_params import BindParamsOptions, bind_params
from loomir.transform.relax.kernels.winograd_conv2d import WinogradConv2DOptions, winograd_conv2d
from tests.transform.relax.modules import module

POINTS = {2: (0, 1, -1), 4: (0, 1, -1, Fraction(1, 2), -2)}


def text(x: str, w: str, options: str = "", dtype: str = "float32", tail: str = "y") -> str:
    return f"""
    @R.function
    def main(x: R.Tensor(({x}), "{dtype}"), w: R.Tensor(({w}), "{dtype}")):
        with R.dataflow():
            y = R.nn.conv2d(x, w{options})
            z = {tail}
            R.output(z)
        return z
"""


def convolution(*args: str, **options: str) -> IRModule:
    made = module(text(*args, **options))
    return normalize(made)


def random(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def run(mod: IRModule, *args: Any, opt_level: int = 1) -> Any:
    return loomir.compile(mod, opt_level=opt_level)["main"](*args)


def judged(mod: IRModule, *args: Any) -> Any:
    return loomir.interpret(mod, "main", *args)


def direct(x: Any, w: Any, pads: Any = (0, 0, 0, 0)) -> Any:
    """Convolve in float64: images (N, C, H, W), kernels (O, I, H, W)."""
    top, left, bottom, right = pads
    wide = np.pad(x.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", windows, w.astype("float64"))


@cache
def growth(tile: int) -> float:
    """Bound what transforms make of a rounding error, relative to the largest sum of a tile."""
    way = winograd(tile, 3, POINTS[tile])
    image, kernel, back = (np.abs(np.array([[float(c) for c in row] for row in m])) for m in way)
    each = image.sum(1) * kernel.sum(1)
    return float((back @ each).max() ** 2)


def bound(x: Any, w: Any, tile: int) -> float:
    """Bound the error of all results: roundings, what transforms make of them, largest products."""
    steps = x.shape[1] + 4 * (tile + 2)
    largest = sum(np.abs(x).max((0, 2, 3)) * np.abs(w).max((0, 2, 3)))
    return float(np.finfo(x.dtype).eps * steps * growth(tile) * largest)


CASES = [
    # images, kernels, padding, tile, dtype, channels last, constant, symbolic batch
    ((1, 3, 7, 9), 4, (1, 1, 1, 1), 4, "float32", False, True, False),
    ((2, 17, 6, 5), 5, (0, 2, 1, 0), 2, "float32", True, True, True),
    ((2, 9, 6, 5), 33, (0, 2, 1, 0), 4, "float64", True, False, False),
    ((1, 1, 3, 3), 1, (0, 0, 0, 0), 4, "float32", False, False, False),
    ((3, 4, 5, 13), 4, (3, 0, 0, 4), 2, "float64", False, False, True),
    ((1, 1, 1, 1), 1, (1, 1, 1, 1), 2, "float32", True, True, False),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_results(case: Any):
    shape, channels, pads, tile, dtype, last, constant, symbolic = case
    x = random(*shape, dtype=dtype)
    w = random(channels, shape[1], 3, 3, dtype=dtype, seed=1)
    given_x, given_w, layouts = x, w, ""
    if last:
        given_x, given_w = x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()
        layouts = ', data_layout="NHWC", kernel_layout="HWIO"'
    sizes = ['"n"' if symbolic else str(shape[0]), *map(str, given_x.shape[1:])]
    mod = convolution(
        ", ".join(sizes),
        ", ".join(map(str, given_w.shape)),
        f", padding={list(pads)}{layouts}",
        dtype=dtype,
    )
    if constant:
        mod = bind_params(mod, BindParamsOptions("main", {"w": given_w}))
    made = winograd_conv2d(mod, WinogradConv2DOptions(tile, always=True))
    assert "conv2d(" not in made.script()
    assert [d for d in loomir.verify(made) if d.severity == "error"] == []
    args = (given_x,) if constant else (given_x, given_w)
    wanted = direct(x, w, pads)
    for found in (run(made, *args), judged(made, *args)):
        assert found.dtype == x.dtype
        plain = found.transpose(0, 3, 1, 2) if last else found
        np.testing.assert_allclose(plain, wanted, rtol=0, atol=bound(x, w, tile))


def test_large_batches_are_cut(monkeypatch: pytest.MonkeyPatch):
    source = import_module("loomir.transform.relax.kernels.winograd_conv2d")
    monkeypatch.setattr(source, "_PART_BYTES", 4400)
    w = random(4, 3, 3, 3, seed=1)
    for batch, parts in ((5, 3), (4, 2), (2, 1), (0, 1)):  # an image holds 2,152 bytes
        mod = convolution(f"{batch}, 3, 6, 5", "4, 3, 3, 3")
        made = winograd_conv2d(mod, WinogradConv2DOptions(2, always=True))
        assert made.script().count("R.matmul(") - 1 == parts  # and one for the kernel
        if batch == 5:
            x = random(batch, 3, 6, 5)
            found = run(made, x, w)
            np.testing.assert_allclose(found, direct(x, w), rtol=0, atol=bound(x, w, 2))


def test_no_images():
    mod = convolution('"n", 3, 6, 5', "4, 3, 3, 3")
    made = winograd_conv2d(mod, WinogradConv2DOptions(4, always=True))
    assert run(made, random(0, 3, 6, 5), random(4, 3, 3, 3)).shape == (0, 4, 4, 3)


def test_other_targets_take_other_vectors():
    x, w = random(1, 20, 6, 6), random(12, 20, 3, 3, seed=1)
    mod = convolution("1, 20, 6, 6", "12, 20, 3, 3", ", padding=1")
    wide = winograd_conv2d(mod, WinogradConv2DOptions(4, always=True, target="skylake-avx512"))
    made = winograd_conv2d(mod, WinogradConv2DOptions(4, always=True, target="haswell"))
    assert "float32x16" in wide.script()
    assert "float32x16" not in made.script()
    found = run(made, x, w)
    np.testing.assert_allclose(found, direct(x, w, (1, 1, 1, 1)), rtol=0, atol=bound(x, w, 4))


def test_errors_of_difficult_inputs():
    way = winograd(4, 3, POINTS[4])
    signs = np.sign([float(c) for c in way.image[1][:4]])
    x = np.tile(signs[:, None] * signs, (2, 8, 3, 3)).astype("float32")
    x[1] = random(8, 12, 12) ** 7
    w = np.sign(random(4, 8, 3, 3)).astype("float32")
    mod = convolution("2, 8, 12, 12", "4, 8, 3, 3")
    for tile in (2, 4):
        made = winograd_conv2d(mod, WinogradConv2DOptions(tile, always=True))
        found = run(made, x, w)
        for n in range(2):
            one = x[n : n + 1]
            np.testing.assert_allclose(
                found[n], direct(one, w)[0], rtol=0, atol=bound(one, w, tile)
            )


def test_special_values_reach_their_tile_and_no_further():
    x, w = random(1, 4, 14, 14), random(4, 4, 3, 3, seed=1)
    x[0, 2, 5, 5] = np.inf
    x[0, 1, 13, 0] = np.nan
    mod = convolution("1, 4, 14, 14", "4, 4, 3, 3")
    made = winograd_conv2d(mod, WinogradConv2DOptions(4, always=True))
    found = np.isfinite(run(made, x, w))
    wanted = np.isfinite(direct(x, w))
    assert not (found & ~wanted).any()
    tiles = wanted.reshape(1, 4, 3, 4, 3, 4).all((1, 3, 5))
    for row in range(3):
        for column in range(3):
            part = found[..., row * 4 : row * 4 + 4, column * 4 : column * 4 + 4]
            near = row < 2 and column < 2  # an element is in four tiles at most
            itself = (row, column) == (2, 0)
            assert part.all() or near or itself
            assert tiles[0, row, column] or not part.all()


UNCHANGED = [
    ("1, 64, 56, 56", "64, 64, 3, 3", ", strides=2, padding=1", "float32"),
    ("1, 64, 56, 56", "64, 64, 3, 3", ", dilation=2, padding=1", "float32"),
    ("1, 64, 56, 56", "64, 2, 3, 3", ", groups=32, padding=1", "float32"),
    ("1, 64, 56, 56", "64, 64, 5, 5", "", "float32"),
    ("1, 64, 56, 56", "64, 64, 3, 1", "", "float32"),
    ("1, 64, 56, 56", "64, 64, 3, 3", "", "float16"),
    ("1, 64, 56, 56", "64, 64, 3, 3", "", "int32"),
    ("1, 64, 56, 56", "64, 64, 3, 3", ', out_dtype="float64"', "float32"),
    ("1, 64, 56, 56", "64, 64, 3, 3", ', out_layout="NHWC"', "float32"),
    ("1, 4, 56, 56, 16", "64, 64, 3, 3", ', data_layout="NCHW16c"', "float32"),
    ('1, 64, "h", 56', "64, 64, 3, 3", "", "float32"),
    ('1, "c", 56, 56', '64, "c", 3, 3', "", "float32"),
]


@pytest.mark.parametrize(("x", "w", "options", "dtype"), UNCHANGED)
def test_other_convolutions_stay(x: str, w: str, options: str, dtype: str):
    mod = convolution(x, w, options, dtype=dtype)
    assert winograd_conv2d(mod, WinogradConv2DOptions(always=True)) is mod


def test_only_where_it_pays():
    def taken(x: str, w: str) -> bool:
        mod = convolution(x, w, ", padding=1")
        return winograd_conv2d(mod, WinogradConv2DOptions(target="skylake-avx512")) is not mod

    assert taken("1, 64, 56, 56", "64, 64, 3, 3")
    assert taken('"n", 128, 28, 28', "128, 128, 3, 3")
    assert not taken("1, 3, 224, 224", "64, 3, 3, 3")
    assert not taken("1, 64, 4, 4", "64, 64, 3, 3")
    assert taken("8, 64, 56, 56", "64, 64, 3, 3")
    assert taken('"n", 64, 56, 56', "64, 64, 3, 3")
    assert taken("1, 64, 224, 224", "64, 64, 3, 3")
    assert not taken('"n", 64, 112, 112', "64, 64, 3, 3")  # memory for 8 images is not kept
    assert not taken("1, 64, 448, 448", "64, 64, 3, 3")


def test_everything_else_stays_and_kernels_are_shared():
    mod = convolution(
        "1, 8, 9, 9",
        "8, 8, 3, 3",
        ", padding=1",
        tail="R.nn.relu(R.nn.conv2d(R.nn.relu(R.nn.conv2d(y, w, strides=2)), w, padding=1))",
    )
    made = winograd_conv2d(mod, WinogradConv2DOptions(2, always=True))
    script = made.script()
    assert script.count("R.nn.conv2d(") == 1
    assert script.count("R.nn.relu(") == 2
    same = winograd_conv2d(
        convolution("1, 8, 9, 9", "8, 8, 3, 3", ", padding=1", tail="R.nn.conv2d(y, w, padding=1)"),
        WinogradConv2DOptions(2, always=True),
    )
    assert len(same.functions) == 3  # the graph, and two transforms


def test_as_an_option_of_compiling():
    x, w = random(1, 64, 20, 20), random(64, 64, 3, 3, seed=1)
    mod = module(text("1, 64, 20, 20", "64, 64, 3, 3", ", padding=1", tail="R.nn.relu(y)"))
    plain = loomir.compile(mod, constants={"w": w}, winograd=False)
    fast = loomir.compile(mod, constants={"w": w}, winograd=True)
    assert "winograd_image" in fast.llvm_ir()
    assert "winograd_image" not in plain.llvm_ir()
    wanted = np.maximum(direct(x, w, (1, 1, 1, 1)), 0)
    run_it: Any = fast["main"]
    np.testing.assert_allclose(run_it(x), wanted, rtol=0, atol=bound(x, w, 4))


@pytest.mark.parametrize(
    ("options", "dtype", "constant", "taken"),
    [
        ({}, "float32", True, True),
        ({}, "float32", False, False),
        ({}, "float64", True, False),
        ({"winograd": True}, "float32", False, True),
        ({"winograd": True}, "float64", True, True),
        ({"winograd": True, "optimize_graph": False}, "float32", True, True),
        ({"winograd": False}, "float32", True, False),
        ({"optimize_graph": False}, "float32", True, False),
        ({"schedule": False}, "float32", True, False),
        ({"opt_level": 0}, "float32", True, False),
    ],
)
def test_compiling_takes_constant_kernels_of_float32_unless_asked_not_to(
    options: dict[str, Any], dtype: str, constant: bool, taken: bool
):
    w = random(64, 64, 3, 3, dtype=dtype, seed=1)
    mod = module(text("1, 64, 28, 28", "64, 64, 3, 3", ", padding=1", dtype=dtype))
    made = loomir.compile(mod, constants={"w": w} if constant else None, **options)
    assert ("winograd_image" in made.llvm_ir()) is taken


def test_what_saves_little_is_left_unless_asked_for():
    w = random(512, 512, 3, 3, seed=1)
    mod = module(text("1, 512, 7, 7", "512, 512, 3, 3", ", padding=1"))
    mod = bind_params(normalize(mod), BindParamsOptions("main", {"w": w}))
    target = "skylake-avx512"
    for constant in (False, True):
        options = WinogradConv2DOptions(target=target, constant=constant)
        assert (winograd_conv2d(mod, options) is mod) is constant


def test_a_wrong_tile_is_refused():
    mod = convolution("1, 4, 8, 8", "4, 4, 3, 3")
    with pytest.raises(CompileError, match="tiles cannot have 3 results"):
        winograd_conv2d(mod, WinogradConv2DOptions(3))


def test_errors_are_not_much_larger_than_those_of_direct_sums():
    x, w = random(1, 64, 56, 56), random(64, 64, 3, 3, seed=1)
    mod = convolution("1, 64, 56, 56", "64, 64, 3, 3", ", padding=1")
    bound = bind_params(mod, BindParamsOptions("main", {"w": w}))
    wanted = direct(x, w, (1, 1, 1, 1))
    errors = [
        np.abs(loomir.compile(bound, winograd=asked, cache=False)["main"](x) - wanted).max()
        for asked in (None, False)
    ]
    assert 0 < errors[0] < 8 * errors[1]
    assert errors[0] < 5e-6 * np.abs(wanted).max()


def test_small_planes_have_the_tiles_that_round_less():
    sizes: list[int] = []
    for side in (14, 56):
        mod = convolution(f"1, 256, {side}, {side}", "256, 256, 3, 3", ", padding=1")
        mod = bind_params(mod, BindParamsOptions("main", {"w": random(256, 256, 3, 3)}))
        made = winograd_conv2d(mod, WinogradConv2DOptions(target="haswell", constant=True))
        sizes.append(16 if "(16, 256, 256)" in made.script() else 36)
    assert sizes == [16, 36]
