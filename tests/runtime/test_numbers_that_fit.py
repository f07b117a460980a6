"""Numbers that a dtype cannot hold are refused: as arguments of kernels, and as constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import relax
from loomir.script import from_source

TEXT = """
@T.prim_func
def f(c: T.{dtype}, y: T.Buffer((1,), "float64")):
    y[0] = T.cast(c, "float64")
"""
LARGE = {"float16": 65519.99, "bfloat16": 3.39e38, "float32": 3.4028235e38, "float64": 1.7e308}
BEYOND = {"float16": 65520.0, "bfloat16": 3.4e38, "float32": 3.4028236e38}


@pytest.mark.parametrize("dtype", LARGE)
def test_floats_that_round_to_an_infinity_are_refused(dtype: str):
    func = from_source(TEXT.format(dtype=dtype))
    run = loomir.compile(func)
    interpret = lambda *args: loomir.interpret(func, "f", *args)  # noqa: E731
    for call in (run, interpret):
        for number in (LARGE[dtype], -LARGE[dtype], 0.0, 1e-300, math.inf, -math.inf):
            y = np.zeros(1)
            call(number, y)
            assert math.isinf(y[0]) == math.isinf(number)
        y = np.zeros(1)
        call(math.nan, y)
        assert math.isnan(y[0])
        for number in (BEYOND[dtype], -BEYOND[dtype], 10**39) if dtype in BEYOND else ():
            with pytest.raises(OverflowError, match=f"which does not fit {dtype}") as caught:
                call(number, y)
            error: Any = caught.value
            assert error.diagnostics[0].code == "RUN0009"


@pytest.mark.parametrize(
    ("value", "dtype", "first"),
    [
        (1.5, "int32", "1.5"),
        (1e39, "float32", "1e+39"),
        (np.array([7, 300]), "uint8", "300"),
        (np.float64(1e6), "float16", "1000000.0"),
        ([1.0, 2.5], "int8", "2.5"),
    ],
)
def test_constants_keep_what_they_are_given(value: Any, dtype: str, first: str):
    with pytest.raises(loomir.CompileError) as caught:
        relax.const(value, dtype)
    (only,) = caught.value.diagnostics
    assert (only.code, only.message) == ("RLX0005", f"{dtype} cannot hold {first}")


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(2.0, "int32"), (math.inf, "float16"), (0.1, "float16"), (3, "bool"), (math.nan, "float32")],
)
def test_rounding_and_truth_are_no_loss(value: Any, dtype: str):
    assert relax.const(value, dtype).data.dtype == dtype


def test_constants_in_texts_too():
    text = '@R.function\ndef f(x: R.Tensor((4,), "int32")):\n    return R.add(x, R.const(1.5, "int32"))\n'
    with pytest.raises(loomir.CompileError, match="int32 cannot hold"):
        from_source(text)
