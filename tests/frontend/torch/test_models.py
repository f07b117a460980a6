"""The models of the benchmarks, small: compiled, they agree with PyTorch in float64."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import loomir
from benchmarks.models import ARCHITECTURES, models


def tensors(value: Any) -> list[torch.Tensor]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


# PyTorch says so of its own LSTM.
@pytest.mark.filterwarnings("ignore:The tensor attributes self.lstm:UserWarning")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_model_agrees_with_float64(architecture: str):
    for name, model in models(architecture).items():
        exported = torch.export.export(model.module, model.inputs)
        run = loomir.compile(loomir.torch.from_exported(exported))
        wide = copy.deepcopy(model.module).double()
        want = wide(*[x.double() if x.is_floating_point() else x for x in model.inputs])
        for got, expected in zip(tensors(run(*model.inputs)), tensors(want), strict=True):
            torch.testing.assert_close(got.double(), expected, rtol=2e-4, atol=2e-5, msg=name)
