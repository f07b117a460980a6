"""The models of the benchmarks, small: compiled, they agree with PyTorch in float64."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import loomir
from benchmarks.models import ARCHITECTURES, Model, models


def tensors(value: Any) -> list[torch.Tensor]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def shapes_of(name: str, model: Model) -> Any:
    """Return what ``torch.export`` asks for: which axes of each input are dynamic."""
    if not model.dynamic:
        return None
    dynamic = torch.export.Dim.DYNAMIC
    shapes = [dict.fromkeys(model.dynamic.get(i, {}), dynamic) for i in range(len(model.inputs))]
    first, *rest = shapes
    return (first, tuple(rest)) if name.endswith("decode") else tuple(shapes)


def longer(model: Model) -> list[torch.Tensor]:
    """Return inputs whose dynamic axes are larger by one."""
    made: list[torch.Tensor] = []
    for i, x in enumerate(model.inputs):
        for axis in model.dynamic.get(i, {}):
            x = torch.cat([x, x.narrow(axis, 0, 1)], axis)  # noqa: PLW2901
        made.append(x)
    return made


# PyTorch says so of its own LSTM.
@pytest.mark.filterwarnings("ignore:The tensor attributes self.lstm:UserWarning")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_model_agrees_with_float64(architecture: str):
    for name, model in models(architecture).items():
        shapes = shapes_of(name, model)
        exported = torch.export.export(model.module, model.inputs, dynamic_shapes=shapes)
        run = loomir.compile(loomir.torch.from_exported(exported))
        wide = copy.deepcopy(model.module).double()
        for inputs in [model.inputs, longer(model)] if model.dynamic else [model.inputs]:
            want = wide(*[x.double() if x.is_floating_point() else x for x in inputs])
            for got, expected in zip(tensors(run(*inputs)), tensors(want), strict=True):
                torch.testing.assert_close(got.double(), expected, rtol=2e-4, atol=2e-5, msg=name)
