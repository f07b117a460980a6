"""Fourier transforms of every kind and of long signals, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.visit import pre_order
from loomir.relax.expr import Constant, Function
from tests.frontend.onnx.models import model

RNG = np.random.default_rng(5)


def make_transform(dims: str, attributes: str = "inverse = 0") -> str:
    return f"main (float[{dims}] x) => (float[a, b, c] y) {{\ny = DFT <{attributes}> (x)\n}}"


def pairs(x: Any) -> Any:
    return np.stack([x.real, x.imag], axis=-1).astype("float32")


@pytest.mark.parametrize("length", [5, 12, 1000])
@pytest.mark.parametrize("inverse", [0, 1])
def test_complex_signals(length: int, inverse: int):
    x = RNG.standard_normal((2, length, 2)).astype("float32")
    text = make_transform(f"2, {length}, 2", f"inverse = {inverse}")
    made = loomir.compile(loomir.onnx.load(model(text, version=20)))(x)
    way = np.fft.ifft if inverse else np.fft.fft
    np.testing.assert_allclose(made, pairs(way(x[..., 0] + 1j * x[..., 1])), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("length", [5, 12, 1000])
def test_real_signals(length: int):
    x = RNG.standard_normal((2, length, 1)).astype("float32")
    text = make_transform(f"2, {length}, 1", "onesided = 1")
    made = loomir.compile(loomir.onnx.load(model(text, version=20)))(x)
    np.testing.assert_allclose(made, pairs(np.fft.rfft(x[..., 0])), atol=1e-5, rtol=1e-5)


def test_tables_of_long_signals_are_small():
    text = make_transform("2, 4096, 2")
    module = loomir.onnx.load(model(text, version=20))
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    sizes = [
        part.data.data.size
        for function in functions
        for part in pre_order(function)
        if isinstance(part, Constant)
    ]
    assert sizes
    assert max(sizes) <= 4 * 4096
