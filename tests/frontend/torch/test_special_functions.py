"""Special functions compared with PyTorch: accuracy, edges, dtypes and shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import loomir
from loomir.frontend.torch.converters import load_converters
from tools.opinfo_table import check

load_converters()
NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]

PLACES = torch.cat(
    [
        torch.linspace(-9.7, 9.7, 333, dtype=torch.float64),
        torch.tensor(
            [1e-12, -1e-8, 0.999, 1.0, 1.001, 2.0, 3.0, 11.99, 12.01], dtype=torch.float64
        ),
        torch.tensor([20.3, 55, 170.2, 600.5, -33.3, 0.0, -0.0], dtype=torch.float64),
    ]
)
NEAR_ONE = torch.tensor([1 - 1e-16, 1 - 1e-9, -1 + 1e-12, 1, -1, 1.5, 1e-20], dtype=torch.float64)
EDGES = [0.0, -0.0, 1.0, INF, -INF, NAN, -3.0]
UNARY = {
    "digamma": PLACES,
    "erfc": PLACES,
    "erfinv": torch.cat([PLACES / 9.7, NEAR_ONE]),
    "i0": PLACES,
    "lgamma": PLACES,
    "special_erfcx": PLACES.clamp(-9),
    "special_i0e": PLACES,
    "special_i1": PLACES,
    "special_i1e": PLACES,
    "special_log_ndtr": PLACES.clamp(max=8),
    "special_ndtri": torch.cat([PLACES / 19.4 + 0.5, torch.tensor([1e-300, 1e-20, 0, 1, 2])]),
}


def run(name: str, *args: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what a compiled operator gives, and what PyTorch gives."""
    operator: Any = getattr(torch.ops.aten, name)

    class Module(nn.Module):
        def forward(self, *given: torch.Tensor) -> Any:
            return operator(*args[: len(args) - len(given)], *given)

    given = tuple([a for a in args if isinstance(a, torch.Tensor)])
    exported = torch.export.export(Module(), given)
    made = loomir.compile(loomir.torch.from_exported(exported))(*given)
    return torch.as_tensor(made), operator(*args)


@pytest.mark.parametrize("name", UNARY)
def test_accuracy_in_float64(name: str):
    made, want = run(name, UNARY[name])
    # Near zeros of the functions, rounding of what cancels remains.
    torch.testing.assert_close(made, want, rtol=1e-13, atol=3e-15, equal_nan=True)


WIDE_ONLY = ("special_erfcx", "special_log_ndtr", "special_ndtri")
"""Functions that PyTorch does not have for 16-bit floats."""
OF_EACH_DTYPE = [
    (name, dtype)
    for name in UNARY
    for dtype in (*FLOATS, torch.uint8, torch.int64, torch.bool)
    if dtype.itemsize != 2 or name not in WIDE_ONLY
]


@pytest.mark.parametrize(("name", "dtype"), OF_EACH_DTYPE)
def test_functions_of_each_dtype(name: str, dtype: torch.dtype):
    x = torch.tensor([0.25, 0.5, 1, 2, 3.5, 7, 12, 30]).to(dtype)
    assert check(f"aten.{name}.default", (x,), {}) == ""
    assert check(f"aten.{name}.default", (x[1],), {}) == ""
    assert check(f"aten.{name}.default", (x[:0],), {}) == ""


@pytest.mark.parametrize("name", UNARY)
def test_edges(name: str):
    made, want = run(name, torch.tensor(EDGES))
    torch.testing.assert_close(made, want, equal_nan=True)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 8, 20])
def test_derivatives_of_digamma(order: int):
    x = torch.linspace(-5.3, 40, 77, dtype=torch.float64)
    made, want = run("polygamma", order, x)
    # Of the first, PyTorch's own has fewer digits.
    torch.testing.assert_close(made, want, rtol=1e-9 if order == 1 else 1e-13, atol=1e-14)
    for dtype in (torch.float16, torch.float32, torch.int64):
        args = (order, torch.tensor([1, 2, 5, 9]).to(dtype))
        assert check("aten.polygamma.default", args, {}) == ""


def test_known_values():
    for name, x, value in (
        ("lgamma", 0.5, math.log(math.pi) / 2),
        ("digamma", 1.0, -0.5772156649015329),
        ("polygamma", 1.0, math.pi**2 / 6),
        ("polygamma", 0.5, math.pi**2 / 2),
        ("special_ndtri", 0.975, 1.959963984540054),
    ):
        given = [1] if name == "polygamma" else []
        made, _ = run(name, *given, torch.tensor([x], dtype=torch.float64))
        np.testing.assert_allclose(made.numpy(), [value], rtol=1e-14)


PAIRS = [(3.0, 4.0), (-0.0, 1.0), (1.0, -0.0), (INF, NAN), (NAN, -INF), (2.0, INF), (0.0, NAN)]


OF_TWO_FLOATS = [
    (name, dtype)
    for name in ("hypot.default", "copysign.Tensor", "nextafter.default")
    for dtype in FLOATS
    if (name, dtype) != ("nextafter.default", torch.float16)  # PyTorch has none
]


@pytest.mark.parametrize(("name", "dtype"), OF_TWO_FLOATS)
def test_functions_of_two_floats(name: str, dtype: torch.dtype):
    a, b = torch.tensor(PAIRS).to(dtype).unbind(1)
    assert check(f"aten.{name}", (a, b[:, None]), {}) == ""
    assert check(f"aten.{name}", (a[0], b), {}) == ""


def test_hypotenuse_does_not_overflow():
    made, want = run("hypot", torch.tensor([3e38, 1e-30]), torch.tensor([1e38, 1e-30]))
    torch.testing.assert_close(made, want, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
def test_signs(dtype: torch.dtype):
    x = torch.tensor([0.0, -0.0, 1, 3]).to(dtype)
    if dtype.is_signed:
        x = torch.cat([x, -x])
    assert check("aten.signbit.default", (x,), {}) == ""
    assert check("aten.copysign.Tensor", (x, x.flip(0)), {}) == ""
    assert check("aten.copysign.Scalar", (x, -2.0), {}) == ""


def test_sign_of_a_nan():
    x = torch.tensor([NAN, -NAN, -INF])
    assert check("aten.signbit.default", (torch.copysign(x, torch.tensor([1, -1, -1])),), {}) == ""


@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisors(dtype: torch.dtype):
    a = torch.tensor([0, 12, 18, 7, 120, 0, 1]).to(dtype)
    b = torch.tensor([0, 18, 12, 5, 90, 3, 100]).to(dtype)
    if dtype.is_signed:
        a, b = torch.cat([a, -a]), torch.cat([b, b])
        least = torch.tensor([torch.iinfo(dtype).min], dtype=dtype)
        a, b = torch.cat([a, least, least]), torch.cat([b, least, least * 0])
    assert check("aten.gcd.default", (a, b), {}) == ""
    assert check("aten.lcm.default", (a[:-2], b[:-2]), {}) == ""
    assert check("aten.gcd.default", (a[:-2, None], b[1].long()), {}) == ""


def test_batches_whose_size_is_known_when_it_runs():
    class Module(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return torch.lgamma(x), torch.hypot(x, y), torch.gcd(x.long(), y.long()), x.signbit()

    given = (torch.linspace(1, 9, 12).view(4, 3), torch.ones(1, 3) * 4)
    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(Module(), given, dynamic_shapes=({0: batch}, None))
    function = loomir.compile(loomir.torch.from_exported(exported))
    for x in (given[0], given[0][:2]):
        for made, want in zip(function(x, given[1]), Module()(x, given[1]), strict=True):
            torch.testing.assert_close(made, want)
