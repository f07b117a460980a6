"""Single operators compared with PyTorch, where a converter has more than one way to go."""

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


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def places(below: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(1))


ROWS = places(4, 2, 1)
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("convolution_backward.default",
     (floats(2, 6, 3, 3), floats(2, 4, 7, 7), floats(6, 2, 3, 3), None, [2, 2], [1, 1], [2, 2],
      False, [0, 0], 2, [True, True, False]), {}),
    ("convolution.default",
     (floats(1, 3, 4, 4), floats(3, 2, 3, 3), floats(2), [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
     {}),
    ("conv1d.padding", (floats(2, 3, 8), floats(4, 3, 4), floats(4), [1], "same"), {}),
    ("max_pool2d_with_indices.default", (floats(1, 2, 7, 7), [3, 3], [2, 2], [1, 1]), {}),
    ("avg_pool2d_backward.default",
     (floats(1, 2, 3, 3), floats(1, 2, 5, 5), [3, 3], [2, 2], [1, 1], False, False, None), {}),
    ("_adaptive_avg_pool2d_backward.default", (floats(1, 2, 3, 3), floats(1, 2, 7, 5)), {}),
    ("upsample_bilinear2d.vec", (floats(1, 2, 4, 5), None, False, [2.0, 1.5]), {}),
    ("upsample_nearest2d.vec", (floats(1, 2, 4, 5), [7, 9], None), {}),
    ("sort.stable", (torch.tensor([[2.0, NAN, -INF, 2.0]]),),
     {"stable": True, "dim": 1, "descending": True}),
    ("index.Tensor", (floats(3, 4, 5, 6), [None, ROWS, places(5, 3), None]), {}),
    ("index_put.default", (floats(3, 4, 5), [None, places(4, 3), places(5, 3)], floats(3, 3)), {}),
    ("scatter_reduce.two", (floats(4, 3), 0, places(4, 2, 3), floats(2, 3), "mean"),
     {"include_self": False}),
    ("constant_pad_nd.default", (floats(3, 4), [-1, 2, 1, -1], 1.5), {}),
    ("remainder.Tensor", (torch.tensor([-5, 5, 7]), torch.tensor([3, -3, -7])), {}),
    ("div.Tensor_mode", (torch.tensor([-7.0, 7.0, 1.0]), torch.tensor([2.0, -2.0, 0.0])),
     {"rounding_mode": "floor"}),
    ("gt.Scalar", (torch.tensor([1, 200], dtype=torch.uint8), -1), {}),
    ("add.Tensor", (torch.tensor([1, 2]), torch.tensor(0.5)), {"alpha": 2}),
    ("var.correction", (floats(3, 4), [1]), {"correction": 0}),
    ("diagonal.default", (floats(3, 4, 5), -1, 0, 2), {}),
    ("slice_scatter.default", (floats(5, 4), floats(2, 4), 0, -4, 4, 2), {}),
    ("col2im.default", (floats(1, 8, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]), {}),
    ("masked_scatter.default", (floats(2, 3), floats(2, 3) > 0, floats(6)), {}),
    ("native_group_norm.default",
     (floats(2, 4, 3), floats(4), floats(4), 2, 4, 3, 2, 1e-5), {}),
    ("median.dim", (torch.tensor([[3.0, 1, 2, 0], [1, NAN, 0, 2]]), 1, True), {}),
    ("median.default", (floats(3, 5),), {}),
    ("kthvalue.default", (floats(4, 5), 2, 0), {}),
    ("unfold.default", (floats(2, 9, 3), 1, 4, 2), {}),
    ("_cdist_forward.default", (floats(2, 3, 4), floats(2, 5, 4), 2.0, None), {}),
    ("_cdist_forward.default", (floats(3, 4), floats(5, 4), INF, None), {}),
    ("_cdist_forward.default", (floats(3, 4), floats(5, 4), 0.0, None), {}),
    ("_cdist_forward.default", (floats(3, 4), floats(5, 4), 3.0, None), {}),
    ("_to_copy.default", (torch.tensor([300.7, -1.5]),), {"dtype": torch.uint8}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=[c[0] for c in CASES])
def test_operator_agrees(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]):
    assert check(f"aten.{name}", args, kwargs) == ""


@pytest.mark.parametrize(
    ("image", "kernel", "strides", "padding", "more", "dilation", "groups"),
    [
        ((5,), (3,), [2], [1], [1], [1], 1),
        ((4, 5), (3, 2), [2, 3], [1, 0], [1, 2], [1, 1], 2),
        ((4, 3), (2, 3), [1, 1], [0, 1], [1, 0], [2, 1], 1),  # more is put after than a stride
        ((3, 3), (1, 1), [2, 2], [0, 0], [0, 1], [3, 2], 4),
        ((2, 3, 3), (2, 2, 3), [2, 1, 2], [0, 1, 1], [1, 0, 1], [1, 1, 1], 1),
    ],
)
def test_gradients_of_transposed_convolutions(
    image: tuple[int, ...], kernel: tuple[int, ...], strides: list[int], padding: list[int],
    more: list[int], dilation: list[int], groups: int,
):  # fmt: skip
    data, weight = floats(2, 4, *image), floats(4, 3, *kernel)
    window = (strides, padding, dilation, True, more, groups)
    made = torch.convolution(data, weight, None, *window)
    given = (floats(*made.shape), data, weight, [3 * groups], *window, [True, True, True])
    assert check("aten.convolution_backward.default", given, {}) == ""


def test_elements_that_differ_are_counted_when_it_runs():
    class Different(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return *torch.unique(x, return_inverse=True, return_counts=True), torch.unique(x, dim=1)

    x = places(4, 3, 5)
    run = loomir.compile(loomir.torch.from_exported(torch.export.export(Different(), (x,))))
    for given in (x, x // 2):
        for got, want in zip(run(given), Different()(given), strict=True):
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("asked", [(False, False), (True, False), (False, True)])
def test_what_nobody_asks_of_unique_elements_is_empty(asked: tuple[bool, bool]):
    for given in (places(4, 3) // 2, torch.tensor(3.0)):
        assert check("aten._unique2.default", (given, True, *asked), {}) == ""


def test_number_of_chosen_elements_is_known_when_it_runs():
    class Chosen(nn.Module):
        def forward(self, x: torch.Tensor, rows: torch.Tensor) -> Any:
            return x[x > 0] * 2, x[rows], torch.nonzero(rows)

    x, rows = floats(4, 3), torch.tensor([True, False, True, True])
    run = loomir.compile(loomir.torch.from_exported(torch.export.export(Chosen(), (x, rows))))
    for given in ((x, rows), (-x, ~rows)):
        made = run(*given)
        for got, want in zip(made, Chosen()(*given), strict=True):
            torch.testing.assert_close(got, want)


def test_size_that_an_element_holds_is_read_when_it_runs():
    class Counted(nn.Module):
        def forward(self, n: torch.Tensor) -> torch.Tensor:
            count: Any = n.item()
            torch._check(count >= 2)
            return torch.ones(count).cumsum(0)

    exported = torch.export.export(Counted(), (torch.tensor(4),))
    run = loomir.compile(loomir.torch.from_exported(exported))
    for n in (3, 6):
        torch.testing.assert_close(run(torch.tensor(n)), torch.arange(1.0, n + 1))


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_embeddings(mode: str):
    model = nn.EmbeddingBag(10, 4, mode=mode).eval()
    given = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 2])
    run = loomir.compile(loomir.torch.from_exported(torch.export.export(model, given)))
    with torch.no_grad():
        torch.testing.assert_close(run(*given), model(*given))
