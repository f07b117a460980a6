"""Sizes and numbers that a program computes from dynamic dimensions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import loomir
from loomir.frontend.torch.mistakes import CannotImport
from loomir.frontend.torch.sizes import evaluate
from loomir.support.dtype import DataType
from loomir.tir.expr import PrimExpr, Var

torch = pytest.importorskip("torch")
functional = torch.nn.functional


def flat(value: Any) -> list[Any]:
    return [value] if isinstance(value, torch.Tensor) else [t for v in value for t in flat(v)]


def numbers(x: Any) -> Any:
    n = x.shape[0]
    factors = (
        n**-0.5, math.sqrt(n), math.log(n + 1.0), math.log2(n), math.exp(-n / 10), math.sin(n),
        1 / n, n**2, abs(n - 4), max(n, 4), math.trunc(n / 3), round(n * 0.7), n & 3, n | 8, n ^ 5,
        n << 1, n >> 1, float(n), math.floor(-n / 4), math.ceil(-n / 4), -(-n // 2),
    )  # fmt: skip
    return [x * factor for factor in factors]


def sizes(x: Any) -> Any:
    n = x.shape[0]
    counts = (math.ceil(n / 2), int(n * 0.5), math.floor(n * 0.75), round(n * 0.75), -(-n // 2))
    return [x[:count].sum(0) for count in counts] + [torch.ones(n << 1, math.ceil(n / 2)) * 2]


def ranks(x: Any) -> Any:
    n = x.shape[0]
    return [
        torch.median(x, 0), x.median(), torch.nanmedian(x, 0), torch.kthvalue(x, 2, 0),
        torch.kthvalue(x, 3, 0, keepdim=True), torch.eye(n) @ x, torch.eye(3, n) @ x,
        torch.eye(n, dtype=torch.int64),
    ]  # fmt: skip


@pytest.mark.parametrize("function", [numbers, sizes, ranks])
def test_programs_of_dynamic_sizes(function: Callable[[Any], Any]):
    torch._dynamo.reset()
    run = torch.compile(function, backend="loomir", dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # of graphs that PyTorch runs itself
        for n in (7, 5, 10, 33):
            x = torch.randn(n, 6)
            for got, wanted in zip(flat(run(x)), flat(function(x)), strict=True):
                torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_exported_programs_scale_by_sizes():
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * x.shape[0] ** -0.5, torch.median(x, 0), torch.eye(x.shape[0])

    dims = ({0: torch.export.Dim("b", min=0, max=1000)},)
    model = Model()
    program = torch.export.export(model, (torch.randn(7, 6),), dynamic_shapes=dims)
    run = loomir.compile(loomir.torch.from_exported(program))
    for n in (1, 2, 9):
        x = torch.randn(n, 6)
        for got, wanted in zip(flat(run(x)), flat(model(x)), strict=True):
            torch.testing.assert_close(got, wanted)
    with pytest.raises(loomir.LoomirError, match="RUN0212"):  # the median of nothing
        run(torch.randn(0, 6))


def test_functions_of_sizes():
    sympy = pytest.importorskip("sympy")
    from torch.utils._sympy import functions as known

    n = sympy.Symbol("n", integer=True, positive=True)
    size = Var("n", DataType("int64"))
    for expr, dtype in (
        (known.FloatPow(known.ToFloat(n), sympy.Float(-0.5)), "float64"),
        (known.OpaqueUnaryFn_sqrt(n), "float64"),
        (known.CeilToInt(known.IntTrueDiv(n, 3)), "int64"),
        (known.FloorToInt(known.IntTrueDiv(n, 3)), "int64"),
        (known.RoundToInt(known.IntTrueDiv(n, 3)), "int64"),
        (known.TruncToInt(known.IntTrueDiv(n, 3)), "int64"),
        (known.TruncToFloat(known.IntTrueDiv(n, 3)), "float64"),
        (known.BitwiseFn_bitwise_xor(n, 5), "int64"),
    ):
        made = evaluate(expr, lambda symbol: size)
        assert isinstance(made, PrimExpr)
        assert str(made.dtype) == dtype
        assert not isinstance(evaluate(expr, lambda symbol: 9), PrimExpr)
    with pytest.raises(CannotImport, match="gamma"):
        evaluate(sympy.gamma(n), lambda symbol: size)


def images(x: Any) -> Any:
    """Extents of images, halved, added to and given to others."""
    rows, columns = x.shape[2:]
    even = x[:, :, : rows // 2 * 2, : columns // 2 * 2]
    columns_of_3 = functional.unfold(x, 3, padding=1, stride=2)
    return [
        functional.pixel_unshuffle(even, 2),
        functional.interpolate(x, scale_factor=0.5, mode="area"),
        functional.adaptive_avg_pool2d(x, (rows * 2, 3)),
        functional.adaptive_avg_pool1d(x[0], columns // 3),
        functional.fold(columns_of_3, (rows, columns), 3, padding=1, stride=2),
        functional.interpolate(functional.max_pool2d(x, 2), size=(rows, columns), mode="bilinear"),
    ]


def test_images_of_dynamic_sizes():
    torch._dynamo.reset()
    run = torch.compile(images, backend="loomir", dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for rows, columns in ((8, 10), (7, 9), (12, 5)):
            x = torch.randn(2, 3, rows, columns)
            for got, wanted in zip(run(x), images(x), strict=True):
                torch.testing.assert_close(got, wanted)
