"""``as_strided`` by the memory of its input, in whatever order that lies, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import loomir
from loomir.support.diagnostics import CompileError

Change = Callable[[torch.Tensor], torch.Tensor]


class Model(nn.Module):
    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.change(x)


CHANGES: list[Change] = [
    lambda x: x.as_strided((2, 2), (1, 2)),
    lambda x: (x.t() * 2).as_strided((3, 2), (1, 2)),
    lambda x: x.t().contiguous().t().as_strided((3, 2), (2, 1)),
    lambda x: x[1:].as_strided((2, 2), (4, 1)),
    lambda x: x[:, 1:3].as_strided((2, 2), (4, 1)),
    lambda x: x.unfold(1, 2, 1).as_strided((2, 3), (1, 1)),
    lambda x: x.t().as_strided((0, 2), (1, 2)),
    lambda x: x[:0].as_strided((0,), (1,)),
]


@pytest.mark.parametrize("change", CHANGES)
def test_views_by_strides(change: Change):
    x = torch.arange(16.0).reshape(4, 4)
    program = torch.export.export(Model(change), (x,))
    found = loomir.compile(loomir.torch.from_exported(program))(x)
    assert torch.equal(torch.as_tensor(found), change(x))
    torch._dynamo.reset()
    assert torch.equal(torch.compile(Model(change), backend="loomir")(x), change(x))


SCATTERED: list[Change] = [
    lambda x: torch.as_strided_scatter(x, -x[:2, :2], (2, 2), (4, 1)),
    lambda x: torch.as_strided_scatter(x, -x[:2, :2], (2, 2), (1, 8), 3),
    lambda x: torch.as_strided_scatter(x.t() * 2, -x[:2, :2], (2, 2), (1, 4)),
    lambda x: torch.as_strided_scatter(x, -x[:0, 0], (0,), (1,)),
]


@pytest.mark.parametrize("change", SCATTERED)
def test_elements_are_written_by_strides(change: Change):
    x = torch.arange(1.0, 17.0).reshape(4, 4)
    program = torch.export.export(Model(change), (x,))
    found = loomir.compile(loomir.torch.from_exported(program))(x)
    assert torch.equal(torch.as_tensor(found), change(x))


def test_memory_outside_of_the_input_is_refused():
    model = Model(lambda x: x[1:].as_strided((2, 2), (4, 1), 0))
    program = torch.export.export(model, (torch.ones(4, 4),))
    with pytest.raises(CompileError, match=r"PTC0011.*memory that its input is only a part of"):
        loomir.torch.from_exported(program)
