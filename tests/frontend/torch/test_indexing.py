"""Bags of embeddings and updates of parts, compared with PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import loomir
from loomir.frontend.torch.converters import load_converters
from tools.opinfo_table import check

load_converters()


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def places(below: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(1))


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(*given)


def agree(function: Any, *given: torch.Tensor, **options: Any) -> None:
    exported = torch.export.export(Function(function), given, **options)
    made = loomir.compile(loomir.torch.from_exported(exported))(*given)
    torch.testing.assert_close(made, function(*given), equal_nan=True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2, -1])
def test_bags_of_embeddings(mode: str, padding: int | None):
    weight, at = floats(6, 4), torch.tensor([[1, 2, 2], [2, 2, 2], [5, 0, 1]])
    offsets = torch.tensor([0, 0, 4, 7, 9])

    def bags(weight: torch.Tensor, at: torch.Tensor, offsets: torch.Tensor) -> Any:
        given: dict[str, Any] = {"mode": mode, "padding_idx": padding}
        flat = at.reshape(-1)
        return (
            functional.embedding_bag(at, weight, **given)
            + functional.embedding_bag(flat, weight, offsets, include_last_offset=True, **given)[
                1:
            ].sum()
            + functional.embedding_bag(flat, weight, offsets, **given)[0]
        )

    agree(bags, weight, at, offsets)


def test_weights_of_bags():
    agree(
        lambda w, at, p: functional.embedding_bag(
            at, w, mode="sum", per_sample_weights=p, padding_idx=1
        ),
        floats(6, 4), places(6, 3, 2), floats(3, 2),
    )  # fmt: skip


def test_number_of_bags_is_known_when_it_runs():
    batch = torch.export.Dim("batch", min=2)
    agree(
        lambda at, w: functional.embedding_bag(at, w, mode="max", padding_idx=2),
        places(6, 4, 3), floats(6, 4), dynamic_shapes=(({0: batch}, None),),
    )  # fmt: skip


@pytest.mark.parametrize("power", [1.0, 2.0, float("inf")])
def test_long_rows_of_embeddings_are_shortened(power: float):
    args = (floats(6, 4), torch.tensor([[1, 3], [3, 5]]), 1.0, power)
    assert check("aten.embedding_renorm.default", args, {}) == ""


@pytest.mark.parametrize("how", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include", [True, False])
def test_rows_are_reduced_by_index(how: str, include: bool):
    for axis, source in ((0, floats(4, 3)), (-1, floats(5, 4))):
        args = (floats(5, 3), axis, torch.tensor([0, 2, 2, 0]), source, how)
        assert check("aten.index_reduce.default", args, {"include_self": include}) == ""


def test_elements_are_put():
    at = torch.tensor([[0, -1], [7, 0]])
    for accumulate in (False, True):
        given = at if accumulate else at.clamp(1)[:, :1]
        source = floats(*given.shape)
        assert check("aten.put.default", (floats(3, 4), given, source, accumulate), {}) == ""


def test_diagonals_are_replaced():
    for offset, length in ((0, 3), (1, 3), (-2, 1), (4, 0)):
        args = (floats(3, 2, 4), floats(2, length), offset, 0, 2)
        assert check("aten.diagonal_scatter.default", args, {}) == ""
    agree(lambda x: x.clone().fill_diagonal_(3.0), floats(5, 3))
    agree(lambda x: x.clone().fill_diagonal_(3.0, wrap=True), floats(9, 3))
    agree(
        lambda x, y: torch.as_strided_scatter(x, y, (2, 2), (1, 5), 2), floats(4, 4), floats(2, 2)
    )


def test_places_of_a_known_number():
    x = torch.tensor([[0, 1, 2], [3, 0, 0]])
    for size in (2, 3, 5, 0):
        agree(lambda x, size=size: torch.nonzero_static(x, size=size, fill_value=-3), x)
    agree(lambda x: torch.combinations(x, 2), floats(5))


def test_updates_are_more_than_their_places():
    names = [torch.export.Dim(name, min=2) for name in ("n", "m")]
    x, source = floats(3, 6), floats(4, 6)

    def add(source: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.zeros(5, 6).scatter_add(0, at, source)

    options: Any = {"dynamic_shapes": (({0: names[0]}, {0: names[1]}),)}
    exported = torch.export.export(Function(add), (source, places(5, 3, 6)), **options)
    run = loomir.compile(loomir.torch.from_exported(exported))
    for at in (places(5, 3, 6), places(5, 2, 6)):
        for given in (x, source):
            torch.testing.assert_close(run(given, at), add(given, at))
