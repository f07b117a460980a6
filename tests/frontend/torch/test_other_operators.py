"""Pooling, resizing, views of bits and other operators, compared with PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import loomir
from loomir.frontend.torch.converters import load_converters
from tools.opinfo_table import check

load_converters()
NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def compile_module(module: nn.Module, *given: torch.Tensor, **options: Any) -> Any:
    exported = torch.export.export(module, given, **options)
    return loomir.compile(loomir.torch.from_exported(exported))


# -- images --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", FLOATS)
def test_greatest_of_evenly_divided_images(dtype: torch.dtype):
    x = torch.randint(0, 5, (2, 3, 7, 8), generator=torch.Generator().manual_seed(1)).to(dtype)
    x[0, 0, 2, 3:5], x[0, 0, 3, 4], x[0, 1, 1, 1], x[1] = NAN, NAN, INF, x[1] - INF
    for size in ([3, 5], [1, 1], [7, 8], [9, 2]):
        assert check("aten.adaptive_max_pool2d.default", (x, size), {}) == ""
    assert check("aten.adaptive_max_pool2d.default", (x[0], [2, 3]), {}) == ""
    assert check("aten.max_pool2d_with_indices.default", (x, [3, 2], [1, 2], [1, 1]), {}) == ""
    assert check("aten.max_pool3d_with_indices.default", (x, [2, 2, 3], [1, 2, 2]), {}) == ""
    assert check("aten.adaptive_max_pool3d.default", (x, [2, 3, 3]), {}) == ""
    assert check("aten.adaptive_max_pool3d.default", (x[None], [1, 2, 5]), {}) == ""


def test_extents_of_divided_images_are_known_when_it_runs():
    module = nn.AdaptiveMaxPool2d((2, 3), return_indices=True)
    x = floats(2, 3, 7, 8)
    sizes = {i: torch.export.Dim(f"n{i}", min=2) for i in (0, 2, 3)}
    run = compile_module(module, x, dynamic_shapes=(sizes,))
    for given in (x, floats(3, 3, 4, 9)):
        for made, want in zip(run(given), module(given), strict=True):
            torch.testing.assert_close(made, want)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [[3, 2], [9, 5], [6, 7], [1, 20]])
def test_images_are_resized_smoothly(mode: str, size: list[int]):
    name = f"aten._upsample_{mode}2d_aa.default"
    x = floats(2, 3, 6, 7)
    for aligned in (False, True):
        assert check(name, (x, size, aligned), {}) == ""
        assert check(name, (x.double(), size, aligned), {}) == ""
    assert check(name, (x, size, False, size[0] / 6, size[1] / 7), {}) == ""


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_resized_smoothly(mode: str):
    x = torch.randint(0, 256, (1, 5, 20, 24), generator=torch.Generator().manual_seed(1))
    name = f"aten._upsample_{mode}2d_aa.default"
    for size in ([7, 9], [30, 10]):
        assert check(name, (x.to(torch.uint8), size, False), {}) == ""


def test_batches_of_resized_images():
    class Resized(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.interpolate(x, scale_factor=0.4, mode="bilinear", antialias=True)

    x = floats(2, 3, 16, 11)
    batch = torch.export.Dim("batch", min=2)
    run = compile_module(Resized(), x, dynamic_shapes=({0: batch},))
    for given in (x, x.repeat(2, 1, 1, 1)):
        torch.testing.assert_close(run(given), Resized()(given))


# -- bits ----------------------------------------------------------------------------------------
WIDTHS = [
    torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16, torch.int32,
    torch.float32, torch.int64, torch.float64,
]  # fmt: skip


@pytest.mark.parametrize("own", WIDTHS)
@pytest.mark.parametrize("other", WIDTHS)
def test_bits_are_read_as_another_dtype(own: torch.dtype, other: torch.dtype):
    x = (floats(2, 8).double() * 100).to(own)
    made, want = compile_module(_View(other), x)(x), x.view(other)
    assert made.dtype == want.dtype
    assert torch.equal(made.view(torch.uint8), want.view(torch.uint8))


class _View(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(self.dtype)


def test_truths_are_read_as_bytes():
    x = torch.tensor([[True, False, True, True]])
    torch.testing.assert_close(compile_module(_View(torch.uint8), x)(x), x.view(torch.uint8))
    torch.testing.assert_close(compile_module(_View(torch.int32), x)(x), x.view(torch.int32))


# -- products and distances ----------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bilinear_layers(dtype: torch.dtype):
    module = nn.Bilinear(3, 4, 5).to(dtype)
    given = floats(6, 3).to(dtype), floats(6, 4).to(dtype)
    batch = torch.export.Dim("batch", min=2)
    run = compile_module(module, *given, dynamic_shapes=({0: batch}, {0: batch}))
    for a, b in (given, (given[0][:2], given[1][:2])):
        torch.testing.assert_close(run(a, b), module(a, b))


def test_products_of_three():
    args = (floats(2, 3), floats(2, 4), floats(3, 4), [2], [1], [0])
    for summed in ([1, 2], [0], [2], [0, 1, 2]):
        assert check("aten._trilinear.default", (*args, summed), {}) == ""


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 3.0, INF])
def test_distances_of_pairs(power: float):
    assert check("aten._pdist_forward.default", (floats(5, 3), power), {}) == ""
    assert check("aten._pdist_forward.default", (floats(1, 3), power), {}) == ""


def test_triangles():
    for name in ("tril", "triu"):
        for args in ((4, 4), (3, 5, 1), (5, 3, -1), (2, 2, -3), (2, 2, 5), (0, 3)):
            given = {"device": torch.device("cpu"), "dtype": torch.int32}
            assert check(f"aten.{name}_indices.default", args, given) == ""


# -- numbers and chance --------------------------------------------------------------------------
def test_numbers_of_tensors_are_operands():
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            number: Any = y.max().item()
            return (
                x * number, x + y[0].item(), x.clamp(max=number), torch.full((2,), number),
                x.abs() ** number, torch.where(x > 0, x, number), x.masked_fill(x > 0, number),
            )  # fmt: skip

    for dtype in FLOATS:
        given = floats(3, 4).to(dtype), floats(5).to(dtype)
        run = compile_module(Scaled(), *given)
        for made, want in zip(run(*given), Scaled()(*given), strict=True):
            torch.testing.assert_close(made, want)


def test_random_numbers_of_exported_programs_are_refused():
    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.randn_like(x) + torch.rand(3)

    exported = torch.export.export(Noisy(), (floats(3),))
    with pytest.raises(loomir.LoomirError, match="random numbers"):
        loomir.torch.from_exported(exported)


def test_integers_of_tensors_are_operands():
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            number: Any = n.item()
            return x * number + number

    x = floats(3)
    run = compile_module(Scaled(), x, torch.tensor(3))
    for n in (-2, 5):
        torch.testing.assert_close(run(x, torch.tensor(n)), x * n + n)


# -- elements ------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["fmax", "fmin"])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.uint8, torch.int64, torch.bool])
def test_extremes_of_numbers(name: str, dtype: torch.dtype):
    a, b = torch.tensor([[0, 1, 2, 3]]).to(dtype), torch.tensor([[3], [1], [0]]).to(dtype)
    if dtype.is_floating_point:
        a[0, 1], b[1], b[2] = NAN, NAN, -INF
    assert check(f"aten.{name}.default", (a, b), {}) == ""


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64])
def test_powers_of_two(dtype: torch.dtype):
    x = torch.tensor([1.0, -3.0, 0.0, 5.0]).to(dtype)
    exponent = torch.tensor([3, -4, 200, 0])
    for power in (exponent, exponent.to(torch.float64), exponent.to(torch.int32)):
        assert check("aten.ldexp.Tensor", (x, power), {}) == ""


@pytest.mark.parametrize("dtype", FLOATS)
def test_parts_of_floats(dtype: torch.dtype):
    least = torch.finfo(dtype).smallest_normal
    x = torch.tensor(
        [0.0, -0.0, NAN, INF, -INF, 1, -3.5, 0.1, least, least / 4, torch.finfo(dtype).max],
        dtype=torch.float64,
    ).to(dtype)
    assert check("aten.frexp.Tensor", (x,), {}) == ""


@pytest.mark.parametrize("decimals", [0, 1, 3, -1])
def test_rounding_to_decimals(decimals: int):
    x = torch.tensor([2.5, 1.25, -1.35, 25.0, 35.0, 1e30, NAN, INF, 0.0625])
    for dtype in (torch.float32, torch.float64):
        args = (x.to(dtype),)
        assert check("aten.round.decimals", args, {"decimals": decimals}) == ""


def test_signs_of_numbers():
    for dtype in (*FLOATS, torch.int8, torch.uint8, torch.bool):
        x = torch.tensor([0, 1, 3]).to(dtype)
        assert check("aten.sgn.default", (-x if dtype.is_signed else x,), {}) == ""


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 3.0, INF, -INF])
def test_distance_of_two_tensors(power: float):
    assert check("aten.dist.default", (floats(3, 4), floats(4), power), {}) == ""


# -- medians -------------------------------------------------------------------------------------
def test_medians_of_numbers():
    x = floats(4, 5)
    x[0, 1], x[1, 2:], x[2] = NAN, NAN, NAN
    for keep in (False, True):
        run = compile_module(_Median(keep), x)
        for given in (x, x.flip(1), floats(4, 5)):
            for made, want in zip(run(given), _Median(keep)(given), strict=True):
                torch.testing.assert_close(made, want, equal_nan=True)
    assert check("aten.nanmedian.default", (x[0, 1],), {}) == ""
    assert check("aten.nanmedian.dim", (torch.tensor([[3, 1, 2, 0]]), 1), {}) == ""


class _Median(nn.Module):
    def __init__(self, keep: bool) -> None:
        super().__init__()
        self.keep = keep

    def forward(self, x: torch.Tensor) -> Any:
        return x.nanmedian(), *[x.nanmedian(a, keepdim=self.keep).values for a in (0, 1)]


# -- volumes, slopes and windows -----------------------------------------------------------------
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1])
def test_samples_of_volumes(mode: int, padding: int, aligned: bool):
    x, grid = floats(2, 3, 4, 5, 6), floats(2, 3, 2, 4, 3) * 1.5
    for dtype in (torch.float32, torch.float64):
        args = (x.to(dtype), grid.to(dtype), mode, padding, aligned)
        assert check("aten.grid_sampler_3d.default", args, {}) == ""
    args = (x[:, :, :1], grid, mode, padding, aligned)
    assert check("aten.grid_sampler_3d.default", args, {}) == ""


def test_places_beyond_volumes():
    x, grid = floats(1, 1, 2, 2, 2), torch.tensor([NAN, INF, -INF]).reshape(1, 1, 1, 1, 3)
    assert check("aten.grid_sampler_3d.default", (x, grid, 0, 0, False), {}) == ""


def test_nearest_elements_of_volumes():
    x = floats(1, 2, 3, 4, 5)
    assert check("aten._upsample_nearest_exact3d.default", (x, [5, 3, 8]), {}) == ""


def test_slopes_that_are_random_in_training():
    module = nn.RReLU().eval()
    torch.testing.assert_close(compile_module(module, floats(3, 4))(floats(3, 4)),
                               module(floats(3, 4)))  # fmt: skip


def test_windows():
    class Windows(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return (
                x * torch.hann_window(8, periodic=False), x * torch.hamming_window(8),
                x * torch.hamming_window(8, True, 0.5, 0.3), x * torch.blackman_window(8),
                x * torch.bartlett_window(8, False), x * torch.kaiser_window(8, True, 9.0),
                x.double() * torch.kaiser_window(8, dtype=torch.float64),
            )  # fmt: skip

    x = floats(2, 8)
    for made, want in zip(compile_module(Windows(), x)(x), Windows()(x), strict=True):
        torch.testing.assert_close(made, want)
