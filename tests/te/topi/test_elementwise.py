"""Element-wise operators of one operand."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.te import topi
from tests.te.topi.running import BFLOAT16, SPECIAL, check
from tests.tir.refusal import refused

OF_FLOATS = [
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "reciprocal", "square"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"),
    *("abs", "negative", "floor", "ceil", "trunc", "rint", "sign", "isnan", "isinf", "isfinite"),
]
OURS = {"rint": "round"}
# By definition, in float64.
DEFINED = {
    "erf": np.vectorize(erf, otypes=["float64"]),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(erf, otypes=["float64"])(x / np.sqrt(2))),
    "gelu_tanh": lambda x: x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
}


def ours(name: str):
    return getattr(topi, OURS.get(name, name.replace("arc", "a")))


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float32", "float64"], ids=str)
def test_functions_of_floats(dtype: Any):
    x = np.array(SPECIAL).astype(dtype)
    with np.errstate(all="ignore"):
        wide = x.astype("float64")
        cases = [(ours(n), getattr(np, n)(wide)) for n in OF_FLOATS]
        cases += [(getattr(topi, n), f(wide)) for n, f in DEFINED.items()]
        cases = [(f, e if e.dtype == bool else e.astype(dtype)) for f, e in cases]
    check([x], cases)


def test_small_arguments_keep_their_digits():
    x = np.array([1e-30, -1e-12, 3e-8, 1e-5], "float32")
    cases = [(topi.expm1, np.expm1(x)), (topi.log1p, np.log1p(x)), (topi.elu, np.where(x > 0, x, np.expm1(x)))]  # fmt: skip
    check([x], cases, slack=3e-6)
    y = np.array([-200.0, -90.0, 90.0, 200.0], "float32")
    with np.errstate(all="ignore"):
        check([y], [(topi.expm1, np.expm1(y)), (topi.softplus, np.logaddexp(y, np.float32(0)))])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_functions_of_integers(dtype: str):
    x = np.array([[0, 1, 5], [100, 127, 3]], dtype)
    if dtype.startswith("int"):
        x = np.concatenate([x, -x, [[np.iinfo(dtype).min] * 3]]).astype(dtype)
    names = ["abs", "negative", "square", "sign", "floor", "rint", "isnan", "isinf", "isfinite"]
    with np.errstate(all="ignore"):
        expected = {n: getattr(np, n)(x) for n in names}
    expected["floor"] = expected["rint"] = x
    cases = [(ours(n), e) for n, e in expected.items()]
    cases += [(topi.bitwise_not, ~x), (topi.relu, np.maximum(x, 0)), (topi.identity, x)]
    check([x], cases)


def test_truths():
    x = np.array([True, False])
    check([x], [(topi.logical_not, ~x), (topi.bitwise_not, ~x), (topi.identity, x)])


def test_parameters():
    x = np.array([-3, -0.5, 0, 2, np.nan, np.inf, -np.inf], "float32")
    with np.errstate(all="ignore"):
        soft = np.logaddexp(2 * x, 0) / 2
    check(
        [x],
        [
            (lambda a: topi.clip(a, -1, 1), np.clip(x, -1, 1)),
            (lambda a: topi.clip(a, 0), np.clip(x, 0, None)),
            (lambda a: topi.clip(a, high=0.5), np.clip(x, None, np.float32(0.5))),
            (lambda a: topi.clip(a, 2, 1), np.clip(x, 2, 1)),
            (lambda a: topi.leaky_relu(a, 0.1), np.where(x < 0, x * np.float32(0.1), x)),
            (lambda a: topi.elu(a, 2.0), np.where(x > 0, x, 2 * np.expm1(x))),
            (lambda a: topi.softplus(a, 2.0), soft),
            (lambda a: topi.softplus(a, 2.0, 3.0), np.where(x > 1.5, x, soft)),
            (lambda a: topi.prelu(a, a, 0), np.where(x < 0, x * x, x)),
        ],
    )


def test_conversions():
    x = np.array([-3.7, 0, 200.5, 1e10, -1e10, np.nan], "float32")
    check(
        [x],
        [
            (lambda a: topi.cast(a, "float64"), x.astype("float64")),
            (lambda a: topi.cast(a, "int8"), np.array([-3, 0, 127, 127, -128, 0], "int8")),
            (lambda a: topi.cast(a, "bool"), x != 0),
        ],
    )


@pytest.mark.parametrize("shape", [(), (1,), (0,), (1, 3, 1), (2, 0)])
def test_shapes(shape: tuple[int, ...]):
    x = np.full(shape, 0.5, "float32")
    check([x], [(topi.exp, np.exp(x)), (topi.negative, -x)])


@pytest.mark.parametrize("shape", [(3, 4), (0, 4)])
def test_symbolic_shapes(shape: tuple[int, ...]):
    x = np.full(shape, 0.5, "float32")
    check([x], [(topi.exp, np.exp(x)), (topi.relu, x)], symbolic=True)


def test_zeros_keep_their_signs():
    x = np.array([0.0, -0.0], "float32")
    expected = np.array([-np.inf, np.inf], "float32")
    check([x], [(lambda a: topi.reciprocal(topi.negative(a)), expected)])


def test_operators_say_what_they_are():
    for name in topi.elementwise.__all__:
        operator = getattr(topi, name)
        assert operator.__name__ in {name, "operator"}
        assert "Shapes: " in operator.__doc__


def test_mistakes():
    x = te.placeholder((2,), "int32", "x")
    with refused("TE0103", "exp takes floats, not int32", "topi.cast"):
        topi.exp(x)
    with refused("TE0103", "logical_not takes bools, not int32"):
        topi.logical_not(x)
    with refused("TE0103", "bitwise_not takes bits, not float32"):
        topi.bitwise_not(topi.cast(x, "float32"))
    with refused("TE0103", "negative takes numbers, not bool", "test_elementwise.py"):
        topi.negative(topi.cast(x, "bool"))
