"""Products of groups of rows, as in mixtures of experts, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import loomir

multiply: Any = torch.ops.aten._grouped_mm.default


class Grouped(nn.Module):
    def forward(self, x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return multiply(x, weights, ends)


class Experts(nn.Module):
    """The two best of several experts for each row, as PyTorch's users write it."""

    def __init__(self, count: int, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.up = nn.Parameter(torch.randn(count, width, inner) / 4)
        self.down = nn.Parameter(torch.randn(count, inner, width) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, chosen = torch.topk(torch.softmax(self.gate(x), -1), 2)
        order = torch.argsort(chosen.flatten(), stable=True)
        rows = order // 2
        counts = torch.bincount(chosen.flatten(), minlength=len(self.up))
        ends = torch.cumsum(counts, 0, dtype=torch.int32)
        hidden = multiply(x[rows].bfloat16(), self.up.bfloat16(), ends)
        made = multiply(torch.relu(hidden), self.down.bfloat16(), ends)
        weighted = made.float() * shares.flatten()[order, None]
        return torch.zeros_like(x).index_add(0, rows, weighted)


def compiled(model: nn.Module, inputs: tuple[torch.Tensor, ...], dynamic: Any = None) -> Any:
    program = torch.export.export(model, inputs, dynamic_shapes=dynamic)
    return loomir.compile(loomir.torch.from_exported(program))


@pytest.mark.parametrize("ends", [[3, 3, 7, 9], [0, 0, 0, 9], [9, 9, 9, 9], [1, 2, 3, 9]])
def test_rows_are_multiplied_by_the_matrix_of_their_group(ends: list[int]):
    torch.manual_seed(0)
    x, weights = torch.randn(9, 16).bfloat16(), torch.randn(4, 16, 24).bfloat16()
    places = torch.tensor(ends, dtype=torch.int32)
    found = compiled(Grouped(), (x, weights, places))(x, weights, places)
    wanted = np.zeros((9, 24))
    for row in range(9):
        group = sum(end <= row for end in ends)
        wanted[row] = x[row].double().numpy() @ weights[group].double().numpy()
    np.testing.assert_allclose(found.double().numpy(), wanted, rtol=1e-2, atol=1e-2)


def test_rows_after_the_last_group_are_zeros():
    x, weights = torch.ones(5, 16).bfloat16(), torch.ones(2, 16, 8).bfloat16()
    run = compiled(Grouped(), (x, weights, torch.tensor([2, 4], dtype=torch.int32)))
    found = run(x, weights, torch.tensor([1, 3], dtype=torch.int32)).float()
    assert found.tolist() == [[16.0] * 8] * 3 + [[0.0] * 8] * 2


def test_mixtures_of_experts_of_any_number_of_rows():
    torch.manual_seed(0)
    model, rows = Experts(4, 16, 32), torch.export.Dim("rows", min=2, max=64)
    with torch.no_grad():
        run = compiled(model, (torch.randn(6, 16),), ({0: rows},))
        for count in (2, 5, 33):
            x = torch.randn(count, 16)
            torch.testing.assert_close(torch.as_tensor(run(x)), model(x), rtol=0.03, atol=0.03)


def test_batches_of_products_are_groups_too():
    a, b = torch.randn(3, 8, 16).bfloat16(), torch.randn(3, 16, 8).bfloat16()

    class Batches(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return multiply(a, b)

    found = compiled(Batches(), (a, b))(a, b)
    torch.testing.assert_close(found, torch.bmm(a, b), rtol=1e-2, atol=1e-2)
