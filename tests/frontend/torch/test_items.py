"""Numbers that a program reads from tensors by ``item()``, and what it computes with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import loomir
from loomir.support.diagnostics import CompileError
from tests.frontend.torch.functions import Function, floats


def mean(x: torch.Tensor) -> Any:
    return x.mean().item()


FORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "product": lambda x: x * mean(x),
    "linear": lambda x: x * (mean(x) * 2.0 + 1),
    "reversed": lambda x: x + (1 - mean(x)) / 3,
    "quotient": lambda x: x * (2 / (mean(x) + 4.0)),
    "negated": lambda x: x + -mean(x),
    "magnitude": lambda x: x + abs(mean(x)),
    "power": lambda x: x + mean(x) ** 2,
    "two items": lambda x: x * (mean(x) - x.min().item()),
    "size and item": lambda x: x * (x.shape[0] * mean(x)),
    "filled": lambda x: torch.full((3,), mean(x) * mean(x)) + x.sum(),
    "bound": lambda x: torch.clamp(x, min=mean(x) - 0.5, max=mean(x) + 0.5),
    "root": lambda x: x * torch.sym_sqrt(x.square().sum().item() + 1.0),
    "extremes": lambda x: x * torch.sym_max(mean(x), 0.25) + torch.sym_min(mean(x), 0.0),
    "returned": lambda x: mean(x) * 2,
    "several": lambda x: (x, mean(x), mean(x) - 1, x.shape[0]),
    "truth": lambda x: x * (x.sum() > 0).item(),
    "truth returned": lambda x: (x, (x.sum() < 0).item()),
    "whole": lambda x: x * (x.argmax().item() * 0.5),
    "chosen": lambda x: x + torch.sym_ite(mean(x) > 0.125, 1.0, -1.0),
}


def numbers_of(results: Any) -> list[np.ndarray[Any, Any]]:
    several = results if isinstance(results, (list, tuple)) else [results]
    return [np.asarray(value) for value in several]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_items_and_their_arithmetic(form: str, dynamic: bool):
    model, x = Function(FORMS[form]), floats(4, 5)
    shapes = {"inputs": ({0: torch.export.Dim("rows", min=2)},)} if dynamic else None
    exported = torch.export.export(model, (x,), dynamic_shapes=shapes)
    run = loomir.compile(loomir.torch.from_exported(exported))["main"]
    for given in (x, -x, floats(7, 5) if dynamic else x * 0.0):
        found, wanted = numbers_of(run(given.numpy())), numbers_of(model(given))
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_whole_number_of_a_float_is_refused_by_name():
    model = Function(lambda x: x * math.floor(mean(x)))
    exported = torch.export.export(model, (floats(4, 5),))
    with pytest.raises(CompileError) as caught:
        loomir.torch.from_exported(exported)
    assert caught.value.diagnostic.code == "PTC0011"
    assert "a float that is read from a tensor" in str(caught.value)
