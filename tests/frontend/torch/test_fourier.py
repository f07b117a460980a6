"""Fourier transforms and what is made of them, compared with PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import loomir
import loomir.torch
from loomir.frontend.torch.converters import load_converters
from loomir.support.compile_warning import CompileWarning
from loomir.support.diagnostics import CompileError
from tests.frontend.torch.functions import Function, floats, join, pairs, split
from tools.opinfo_table import check

load_converters()


def assert_near(made: torch.Tensor, wanted: torch.Tensor, relative: float = 1e-5) -> None:
    """Compare with the largest value: what cancels out differs by rounding of that."""
    assert made.shape == wanted.shape
    assert made.dtype == wanted.dtype
    if wanted.numel():
        assert (made - wanted).abs().max() <= relative * wanted.abs().max()


def compare(function: Callable[..., Any], *inputs: torch.Tensor, relative: float = 1e-5) -> None:
    model = function if isinstance(function, nn.Module) else Function(function)
    program = torch.export.export(model, inputs)
    run = loomir.compile(loomir.torch.from_exported(program))["main"]
    made = torch.from_numpy(np.array(run(*[x.numpy() for x in inputs])))
    assert_near(made, model(*inputs), relative)


# One product, the greatest of them, powers, factors, primes, and twice a prime; 16000 is two levels.
@pytest.mark.parametrize("length", [1, 2, 3, 15, 64, 97, 400, 257, 1018, 4096, 16000])
def test_lengths(length: int):
    def function(real: torch.Tensor, whole: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
        made = [
            split(torch.fft.rfft(real)).flatten(),
            split(torch.fft.fft(join(whole))).flatten(),
            split(torch.fft.ifft(join(whole), norm="forward")).flatten(),
            torch.fft.irfft(join(half), n=length, norm="forward").flatten(),
        ]
        return torch.cat(made)

    compare(function, floats(2, length), pairs(2, length), pairs(2, length // 2 + 1))


def test_float64_is_exact_to_its_precision():
    x = floats(2, 1000, dtype=torch.float64)
    compare(lambda x: split(torch.fft.fft(x)), x, relative=1e-14)


TRANSFORMS: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "fft": (lambda x, norm: split(torch.fft.fft(x, n=12, norm=norm)), floats(3, 10)),
    "ifft": (lambda x, norm: split(torch.fft.ifft(join(x), n=7, dim=0, norm=norm)), pairs(9, 2)),
    "rfft2": (lambda x, norm: split(torch.fft.rfft2(x, norm=norm)), floats(3, 10, 5)),
    "irfft2": (lambda x, norm: torch.fft.irfft2(join(x), s=(8, 9), norm=norm), pairs(10, 6)),
    "irfft": (lambda x, norm: torch.fft.irfft(join(x), n=6, norm=norm), pairs(3, 10)),
    "rfftn": (lambda x, norm: split(torch.fft.rfftn(x, dim=(2, 0), norm=norm)), floats(3, 10, 5)),
    "fftn": (lambda x, norm: split(torch.fft.fftn(join(x), norm=norm)), pairs(3, 10, 5)),
    "hfft": (lambda x, norm: torch.fft.hfft(join(x), norm=norm), pairs(3, 10)),
    "ihfft": (lambda x, norm: split(torch.fft.ihfft(x, norm=norm)), floats(3, 10)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str):
    function, x = TRANSFORMS[name]
    for norm in ("forward", "backward", "ortho"):
        compare(partial(function, norm=norm), x)


@pytest.mark.parametrize("onesided", [True, False])
def test_sides_of_a_spectrum(onesided: bool):
    assert check("aten._fft_r2c.default", (floats(2, 9, 4), [2, 1], 0, onesided), {}) == ""


def test_shifts():
    compare(lambda x: split(torch.fft.fftshift(torch.fft.fft2(x))), floats(3, 10, 5))
    compare(lambda x: split(torch.fft.ifftshift(torch.fft.fft(x), dim=-1)), floats(3, 7))


def test_batches_of_any_size():
    model = Function(lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=300))
    sizes = {"inputs": ({0: torch.export.Dim("batch")},)}
    program = torch.export.export(model, (floats(2, 300),), dynamic_shapes=sizes)
    run = loomir.compile(loomir.torch.from_exported(program))["main"]
    for batch in (2, 5):
        x = floats(batch, 300)
        assert_near(torch.from_numpy(np.array(run(x.numpy()))), model(x))


def test_unknown_lengths_are_refused():
    model = Function(lambda x: torch.fft.rfft(x).abs())
    sizes = {"inputs": ({1: torch.export.Dim("length", min=4)},)}
    program = torch.export.export(model, (floats(2, 30),), dynamic_shapes=sizes)
    with pytest.raises(CompileError, match="the extent of an axis that it transforms is unknown"):
        loomir.torch.from_exported(program)


# -- what is made of them ------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["reflect", "constant", "replicate"])
@pytest.mark.parametrize("normalized", [True, False])
def test_short_time_transform(mode: str, normalized: bool):
    def function(x: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(12)
        made = [
            torch.stft(x, 16, 4, 12, window, center=center, pad_mode=mode, normalized=normalized,
                       onesided=onesided, return_complex=True)
            for center in (True, False)
            for onesided in (True, False)
        ]  # fmt: skip
        return torch.cat([split(m).flatten() for m in made])

    compare(function, floats(2, 64))


@pytest.mark.parametrize(("size", "step"), [(16, 4), (20, 6)])
def test_inverse_of_the_short_time_transform(size: int, step: int):
    def function(x: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(size)
        made = torch.stft(x, size, step, window=window, return_complex=True)
        return torch.istft(made, size, step, window=window, length=90)

    compare(function, floats(2, 96))


class MelSpectrogram(nn.Module):
    window: torch.Tensor
    filters: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(400))
        self.register_buffer("filters", floats(201, 40).abs())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(x, 400, 160, window=self.window, return_complex=True).abs() ** 2
        return (torch.matmul(spectrum.mT, self.filters).mT + 1e-6).log()


class FourierMixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real)


class FourierOperator(nn.Module):
    """A layer of a Fourier neural operator."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Parameter(join(pairs(4, 5, 8, 8)))
        self.high = nn.Parameter(join(pairs(4, 5, 8, 8)) * 1j)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.fft.rfft2(x)
        made = torch.zeros(x.shape[0], 5, x.shape[2], x.shape[3] // 2 + 1, dtype=torch.cfloat)
        made[:, :, :8, :8] = torch.einsum("bixy,ioxy->boxy", found[:, :, :8, :8], self.low)
        made[:, :, -8:, :8] = torch.einsum("bixy,ioxy->boxy", found[:, :, -8:, :8], self.high)
        return torch.fft.irfft2(made, s=(x.shape[2], x.shape[3]))


MODELS: list[tuple[nn.Module, torch.Tensor]] = [
    (MelSpectrogram(), floats(1, 4000)),
    (FourierMixer(), floats(2, 96, 64)),
    (FourierOperator(), floats(2, 4, 20, 30)),
]


@pytest.mark.parametrize(("model", "x"), MODELS, ids=[type(m).__name__ for m, _ in MODELS])
def test_models(model: nn.Module, x: torch.Tensor):
    with torch.no_grad():
        compare(model, x)


@pytest.mark.parametrize(("model", "x"), MODELS, ids=[type(m).__name__ for m, _ in MODELS])
def test_compiled_models(model: nn.Module, x: torch.Tensor):
    torch.compiler.reset()
    made = torch.compile(model, backend="loomir", fullgraph=True)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error", CompileWarning)
        assert_near(made(x), model(x))


def test_gradients():
    def loss(x: torch.Tensor) -> torch.Tensor:
        return (torch.fft.irfft(torch.fft.rfft(x) * (2 + 1j)) * x).sum()

    torch.compiler.reset()
    grads: list[Any] = []
    for way in (loss, torch.compile(loss, backend="loomir", fullgraph=True)):
        x = floats(3, 10).requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("error", CompileWarning)
            way(x).backward()
        grads.append(x.grad)
    assert_near(grads[1], grads[0])


def test_frequencies_are_constants() -> None:
    class Frequencies(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            own = torch.fft.rfftfreq(6, d=0.5, dtype=torch.float64)
            return x * torch.fft.fftfreq(x.shape[0]), own, torch.fft.fftfreq(5, 2)

    x = torch.randn(7)
    run = loomir.compile(loomir.torch.from_exported(torch.export.export(Frequencies(), (x,))))
    for got, want in zip(run(x), Frequencies()(x), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)
