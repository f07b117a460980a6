"""Running extremes and sums, and statistics of two results, compared with PyTorch."""

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
NUMBERS = [*FLOATS, torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool]
SPECIAL = torch.tensor(
    [[1, 1, NAN, 3, NAN], [-INF, -INF, 0, -0.0, INF], [INF, 2, INF, -INF, 1], [-INF] * 5]
)


def numbers(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_running_extremes_of_each_dtype(name: str, dtype: torch.dtype):
    x = numbers(dtype, 4, 3, 5)
    for axis in (0, 1, -1):
        assert check(f"aten.{name}.default", (x, axis), {}) == ""
    assert check(f"aten.{name}.default", (x[0, 0, 0], 0), {}) == ""
    assert check(f"aten.{name}.default", (x[:, :0], 1), {}) == ""


@pytest.mark.parametrize("name", ["cummax", "cummin", "logcumsumexp"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_scans_of_what_is_no_number(name: str, dtype: torch.dtype):
    for axis in (0, 1):
        assert check(f"aten.{name}.default", (SPECIAL.to(dtype), axis), {}) == ""


@pytest.mark.parametrize("dtype", FLOATS)
def test_running_sums_of_exponentials(dtype: torch.dtype):
    x = torch.randn(3, 60, generator=torch.Generator().manual_seed(1)).to(dtype) * 90
    assert check("aten.logcumsumexp.default", (x, -1), {}) == ""
    assert check("aten.logcumsumexp.default", (x[0, 0], 0), {}) == ""
    assert check("aten.logcumsumexp.default", (x[:0], 0), {}) == ""


@pytest.mark.parametrize("name", ["var_mean", "std_mean"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_variance_and_mean(name: str, dtype: torch.dtype):
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1)).to(dtype)
    for axes, options in (
        ([1], {"correction": 0, "keepdim": True}),
        ([-1, 0], {}),
        (None, {"correction": 2}),
    ):
        assert check(f"aten.{name}.correction", (x, axes), options) == ""
    assert check(f"aten.{name}.dim", (x, [1], False, True), {}) == ""


def test_batches_of_scans_whose_size_is_known_when_it_runs():
    class Module(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return (
                *torch.cummax(x, 0),
                *torch.cummin(x, 1),
                torch.logcumsumexp(x, 0),
                *torch.std_mean(x, 0),
            )

    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(Module(), (x,), dynamic_shapes=({0: batch},))
    function = loomir.compile(loomir.torch.from_exported(exported))
    for given in (x, x[:2]):
        for made, want in zip(function(given), Module()(given), strict=True):
            torch.testing.assert_close(made, want)
