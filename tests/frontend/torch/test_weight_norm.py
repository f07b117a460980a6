"""Gradients of weights that are normalised, against PyTorch."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from loomir.support.compile_warning import CompileWarning


@pytest.mark.parametrize("dim", [0, 2])
def test_gradients_of_directions_and_lengths(dim: int):
    torch.manual_seed(0)
    conv = nn.Conv1d(4, 6, 3, padding=1)
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(conv, dim=dim), nn.Tanh())
    other, x = copy.deepcopy(model), torch.randn(2, 4, 9)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompileWarning)  # nothing is left to PyTorch
        compiled = torch.compile(other, backend="loomir")
        (compiled(x) * x[:, :1]).sum().backward()
    (model(x) * x[:, :1]).sum().backward()
    wanted = dict(model.named_parameters())
    for name, parameter in other.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name].grad, rtol=1e-4, atol=1e-5)
