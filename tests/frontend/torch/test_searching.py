"""Searches, selections and counts compared with PyTorch, on compiled code."""

from __future__ import annotations

from collections.abc import Callable
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
NUMBERS = [*FLOATS, torch.uint8, torch.int8, torch.int32, torch.int64]


def numbers(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    drawn = torch.randint(0, 9, shape, generator=torch.Generator().manual_seed(sum(shape)))
    return (drawn - (4 if dtype != torch.uint8 else 0)).to(dtype)


def agree(function: Callable[..., Any], *given: torch.Tensor, **options: Any) -> None:
    """Export a function for inputs, and compare the compiled program with it."""

    class Module(nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return function(*args)

    exported = torch.export.export(Module(), given, **options)
    made = loomir.compile(loomir.torch.from_exported(exported))(*given)
    want = function(*given)
    wanted = list(want) if isinstance(want, tuple) else [want]
    for one, other in zip(made if isinstance(want, tuple) else [made], wanted, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


# -- sorted rows ---------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("right", [False, True])
def test_buckets_of_each_dtype(dtype: torch.dtype, right: bool):
    edges = numbers(dtype, 7).sort().values
    assert check("aten.bucketize.Tensor", (numbers(dtype, 3, 4), edges), {"right": right}) == ""


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("count", [0, 1, 6, 5000])
def test_values_and_rows_that_are_no_numbers(count: int, right: bool):
    row = torch.linspace(-3, 3, count)
    if count > 2:
        row[-2:], row[0] = NAN, -INF
    values = torch.tensor([[NAN, INF, -INF], [0.0, -0.0, 2.9]])
    given = {"right": right, "out_int32": True}
    assert check("aten.bucketize.Tensor", (values, row), given) == ""


def test_buckets_of_other_dtypes_and_of_numbers():
    edges = torch.tensor([1, 2, 3])
    assert check("aten.bucketize.Tensor", (torch.tensor(True), edges.float()), {}) == ""
    assert check("aten.bucketize.Scalar", (2.5, edges), {}) == ""
    assert check("aten.searchsorted.Scalar", (edges, 2.5), {"side": "right"}) == ""


@pytest.mark.parametrize("count", [5, 5000])
def test_rows_are_searched_each_for_its_own_values(count: int):
    rows, values = numbers(torch.int64, 2, 3, count), numbers(torch.int64, 2, 3, 4)
    order = rows.argsort()
    for given in ({"side": "right"}, {"side": "left"}, {"right": True, "out_int32": True}):
        name = "aten.searchsorted.Tensor"
        assert check(name, (rows.sort().values, values), given) == ""
        assert check(name, (rows, values), {**given, "sorter": order}) == ""


def test_extents_of_sorted_rows_are_known_when_it_runs():
    n, m = torch.export.Dim("n", min=2), torch.export.Dim("m", min=2)
    row, values = numbers(torch.float32, 9).sort().values, numbers(torch.float32, 5, 2)
    agree(torch.searchsorted, row, values, dynamic_shapes=(({0: n}, {0: m}),))


# -- what is found when it runs ------------------------------------------------------------------
def test_chosen_elements_of_shapes_that_broadcast():
    x, mask = numbers(torch.float32, 3, 1, 4), numbers(torch.int64, 2, 1) > 0
    agree(torch.masked_select, x, mask)
    agree(lambda x: torch.masked_select(x, x > 100), x)
    agree(lambda x: torch.masked_select(x, x < 100), torch.tensor(2.0))


def test_rows_are_repeated_as_often_as_a_tensor_says():
    x, times = numbers(torch.float32, 4, 3), torch.tensor([2, 0, 3, 1])
    agree(lambda x, n: torch.repeat_interleave(x, n, dim=0) * 2, x, times)
    agree(lambda x, n: torch.repeat_interleave(x, n, dim=0, output_size=6), x, times)
    agree(torch.repeat_interleave, times.int())


@pytest.mark.parametrize("weight", [None, torch.float32, torch.float64, torch.int64])
def test_bins_of_integers(weight: torch.dtype | None):
    x = torch.tensor([3, 1, 1, 5], dtype=torch.uint8)
    weights = [] if weight is None else [numbers(weight, 4)]
    agree(lambda x, *w: torch.bincount(x, *w, minlength=2), x, *weights)
    agree(lambda x, *w: torch.bincount(x, *w, minlength=9), x, *weights)
    agree(lambda x: torch.bincount(x, minlength=3), torch.zeros(0, dtype=torch.int64))


def test_negative_integer_has_no_bin():
    class Binned(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.bincount(x)

    exported = torch.export.export(Binned(), (torch.tensor([3, 1]),))
    run = loomir.compile(loomir.torch.from_exported(exported))
    with pytest.raises(loomir.LoomirError):
        run(torch.tensor([3, -1]))


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool])
def test_runs_of_equal_elements(dtype: torch.dtype):
    x = numbers(torch.int64, 4, 5).clamp(0, 1).to(dtype)

    def runs(x: torch.Tensor) -> Any:
        return (
            *torch.unique_consecutive(x, return_inverse=True, return_counts=True),
            *torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=1),
            torch.unique_consecutive(x[0], dim=0),
        )

    agree(runs, x)


def test_each_nan_is_a_run():
    x = torch.tensor([[1, 1, NAN, NAN, 2], [1, 1, NAN, 3, 2]])
    given = {"return_inverse": True, "return_counts": True}
    agree(lambda x: torch.unique_consecutive(x, **given), x)
    agree(lambda x: torch.unique_consecutive(x, **given, dim=1), x)
    agree(lambda x: torch.unique_consecutive(x, **given), torch.zeros(0, 3))
    agree(lambda x: torch.unique_consecutive(x, **given), torch.tensor(3.0))


# -- histograms ----------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", FLOATS)
def test_counts_of_equal_bins(dtype: torch.dtype):
    x = numbers(dtype, 5, 6) / 2
    for given in ((x, 4, -1, 1.5), (x, 7), (x[0, :1], 3), (x[:0], 3)):
        assert check("aten.histc.default", given, {}) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histograms(dtype: torch.dtype):
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(1)).to(dtype)
    weight = numbers(dtype, 40, 3).abs()
    edges = torch.tensor([-1.0, -0.9, 0.5, 0.5, 1.5]).to(dtype)
    for bins in (5, 50):
        name = "aten.histogram.bin_ct"
        assert check(name, (x, bins), {"range": [-2.0, 2.0], "weight": weight}) == ""
        assert check(name, (x, bins), {"density": True}) == ""
    assert check("aten.histogram.bin_ct", (x[0, :1], 3), {}) == ""
    assert check("aten.histogram.bins_tensor", (x, edges), {}) == ""
    x[0, 0], x[0, 1], x[0, 2] = NAN, INF, 1.5
    given = {"weight": weight, "density": True}
    assert check("aten.histogram.bins_tensor", (x, edges[[0, 1, 2, 4]]), given) == ""


# -- frequencies ---------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool])
def test_most_frequent_elements(dtype: torch.dtype):
    x = numbers(torch.int64, 3, 9, 2).to(dtype)
    agree(lambda x: torch.mode(x, 1).values, x)
    agree(lambda x: torch.mode(x, 0, keepdim=True).values, x)
    agree(lambda x: x.gather(-1, torch.mode(x, -1, keepdim=True).indices), x)
    agree(lambda x: tuple(torch.mode(x)), x[0, 0, 0])


@pytest.mark.parametrize("dtype", FLOATS)
def test_each_nan_is_an_element_of_its_own(dtype: torch.dtype):
    x = torch.tensor([[NAN, 1, -INF], [INF, NAN, 2], [-0.0, 0.0, 1]]).to(dtype)
    given = {"return_inverse": True, "return_counts": True}
    agree(lambda x: torch.unique(x, **given)[::2], x)
    agree(lambda x: torch.unique(x, **given), x[1:, 2:].clone())
    agree(torch.unique, x[:0])
