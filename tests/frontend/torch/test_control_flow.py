"""Branches and loops of PyTorch's programs: torch.cond, while_loop, scan and map."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import loomir
from loomir.support.compile_warning import CompileWarning

OVER: Any = map_over  # what it declares takes no tensors
ROWS = torch.export.Dim("rows", min=2, max=128)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(model: nn.Module, *given: Any, dynamic: Any = None) -> Any:
    exported = torch.export.export(model, given, dynamic_shapes=dynamic)
    return loomir.compile(loomir.torch.from_exported(exported))


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def up(a: torch.Tensor) -> torch.Tensor:
            return self.layer(a).relu() + 1

        return torch.cond(x.sum() > 0, up, lambda a: a - 1, (x,)) * 2


class OfSize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.shape[0] > 4, lambda a: a + 1, lambda a: a * 3, (x,))


class While(nn.Module):
    def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        start = torch.zeros((), dtype=torch.int64)
        last = while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * 1.5 + x), (start, x + 0))
        return last[1]


class Scan(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        last, every = scan(lambda c, v: (c + v, c * v), torch.zeros(3), x)
        return last, every, OVER(lambda v, w: v * w, x, x[0] + 1)


def test_branch_is_chosen_when_it_runs():
    torch.manual_seed(0)
    model = Branch().eval()
    x = torch.tensor([[1.0, 2.0, 3.0]])
    run = compiled(model, x)
    for given in (x, -x):
        torch.testing.assert_close(run(given), model(given).detach())


def test_branch_may_ask_for_a_size():
    run = compiled(OfSize(), torch.ones(3, 2), dynamic=({0: ROWS},))
    for rows in (2, 4, 5, 9):
        x = torch.ones(rows, 2)
        torch.testing.assert_close(run(x), x + 1 if rows > 4 else x * 3)


def test_while_loop_makes_as_many_steps_as_it_is_told():
    x = torch.tensor([1.0, -2.0])
    run = compiled(While(), torch.tensor(3), x)
    for n in (0, 1, 5, 12):
        want = x
        for _ in range(n):
            want = want * 1.5 + x
        torch.testing.assert_close(run(torch.tensor(n), x), want)


@pytest.mark.parametrize("dynamic", [({0: ROWS},), None])
def test_scan_and_map_of_known_and_unknown_extents(dynamic: Any):
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    run = compiled(Scan(), x, dynamic=dynamic)
    for given in (x, *([torch.cat([x] * 20)] if dynamic else [])):
        last, every, product = run(given)
        sums = given.cumsum(0)
        torch.testing.assert_close(last, sums[-1])
        torch.testing.assert_close(every, (sums - given) * given)
        torch.testing.assert_close(product, given * (given[0] + 1))


def test_all_of_a_branch_that_cannot_be_imported_is_told():
    class Unknown(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.special.bessel_j0, torch.special.bessel_j1, (x,))

    with pytest.raises(loomir.CompileError) as found:
        compiled(Unknown(), torch.ones(2))
    assert "bessel_j0" in str(found.value)


def test_branches_and_loops_are_compiled_in_place():
    def both(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a + y), (start, y + 0))[1]

    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)
        run = loomir.torch.compile(both)
        for x in (torch.ones(3), -torch.ones(3)):
            want = (x.sin() if x.sum() > 0 else x.cos()) * 5
            torch.testing.assert_close(run(torch.tensor(4), x), want)
