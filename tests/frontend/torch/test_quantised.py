"""Exported programs that quantise: the same bits as PyTorch, by products of bytes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

import loomir
from loomir.transform.pipelines import optimize_relax

import_module("torch.ao.quantization.fx._decomposed")  # which registers the operators
Q: Any = torch.ops.quantized_decomposed
LOW, HIGH, INT8 = -128, 127, torch.int8


def _pass_through(x: Any, scale: float, zero: int) -> Any:
    codes = Q.quantize_per_tensor(x, scale, zero, LOW, HIGH, INT8)
    return Q.dequantize_per_tensor(codes, scale, zero, LOW, HIGH, INT8)


class Layer(torch.nn.Module):
    """A linear layer and a convolution, with weights of int8 and a scale for each channel."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        made = torch.Generator().manual_seed(0)
        shape = (8, 4, 3, 3) if kind == "conv" else (16, 32)
        self.w = torch.randint(-127, 128, shape, dtype=INT8, generator=made)
        self.scales = torch.rand(shape[0], generator=made) * 0.01 + 0.001
        self.zeros = torch.zeros(shape[0], dtype=torch.int64)
        self.bias = torch.randn(shape[0], generator=made)

    def forward(self, x: Any) -> Any:
        """Quantise the input, and the result."""
        if self.kind in ("dynamic", "symmetric"):
            chosen = Q.choose_qparams if self.kind == "dynamic" else Q.choose_qparams_symmetric
            scale, zero = chosen.tensor(x, LOW, HIGH, 1e-6, INT8)
            codes = Q.quantize_per_tensor.tensor(x, scale, zero, LOW, HIGH, INT8)
            x = Q.dequantize_per_tensor.tensor(codes, scale, zero, LOW, HIGH, INT8)
        else:
            x = _pass_through(x, 0.03, 5)
        w = Q.dequantize_per_channel(self.w, self.scales, self.zeros, 0, -127, 127, INT8)
        if self.kind == "conv":
            y = torch.nn.functional.conv2d(x, w, self.bias, padding=1)
        else:
            y = torch.nn.functional.linear(x, w, self.bias)
        return _pass_through(torch.relu(y), 0.05, -20)


@pytest.mark.parametrize("kind", ["static", "dynamic", "symmetric", "conv"])
def test_layers(kind: str):
    shape = (2, 4, 9, 8) if kind == "conv" else (5, 32)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    layer = Layer(kind).eval()
    mod = loomir.torch.from_exported(torch.export.export(layer, (x,)))
    assert "integer_" in optimize_relax(mod).script()
    made = np.asarray(loomir.compile(mod)(x.numpy()))
    wanted = layer(x).detach().numpy()
    # Both round sums within an ulp or two: a tie may fall to either side.
    steps = np.round((made - wanted) / 0.05)
    assert np.abs(steps).max() <= 1
    assert (steps != 0).mean() < 0.01


def test_channels_are_quantised_as_by_torch():
    class Channels(torch.nn.Module):
        def forward(self, x: Any, scales: Any, zeros: Any) -> Any:
            return Q.quantize_per_channel(x, scales, zeros, 1, 0, 255, torch.uint8)

    made = torch.Generator().manual_seed(2)
    given = torch.randn((3, 6, 5), generator=made), torch.rand(6, generator=made) / 9 + 0.001
    args = (*given, torch.arange(100, 106))
    mod = loomir.torch.from_exported(torch.export.export(Channels(), args))
    found = np.asarray(loomir.compile(mod)(*[a.numpy() for a in args]))
    assert np.array_equal(found, Channels()(*args).numpy())
