"""Reductions over axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.te import topi
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused

AXES = [None, 0, -1, (0, 2), (-2, 0), ()]


def on(operator: Any, **options: Any):
    """Return a case: the operator with options."""
    return lambda a: operator(a, **options)


def numpy_cases(x: Any, names: Any, axes: Any):
    return [
        (
            on(getattr(topi, n), axis=axis, keepdims=keep),
            getattr(np, n)(x, axis=axis, keepdims=keep),
        )
        for n in names
        for axis in axes
        for keep in (False, True)
    ]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "float32", "float64"])
def test_reductions_of_numbers(dtype: str):
    x = np.random.default_rng(0).integers(1, 4, (2, 3, 4)).astype(dtype)
    check([x], numpy_cases(x, ["sum", "prod", "min", "max"], AXES))
    check([x], numpy_cases(x, ["argmax", "argmin"], [None, 0, -1, 1]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_statistics(dtype: str):
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(dtype)
    check([x], numpy_cases(x, ["mean", "std"], [None, 0, -1, (0, 2)]))
    check([x], [(on(topi.variance, axis=a), x.var(axis=a)) for a in (None, 1, (-1, 0))])
    check([x], [(on(topi.variance, axis=1, correction=1), x.var(axis=1, ddof=1))])
    sums = np.log(np.exp(x).sum(axis=1))
    cases = [(on(topi.logsumexp, axis=1), sums)]
    cases += [(on(topi.logsumexp, axis=1, keepdims=True), sums[:, None])]
    check([x], cases)


def test_the_sum_of_a_negative_zero_is_positive_over_no_axis_too():
    x = np.float32([[-0.0, 1.0]])
    fn = te.create_prim_func([a := te.placeholder(x.shape, "float32"), topi.sum(a, axis=())])
    made = np.empty_like(x)
    loomir.compile(fn)(x, made)
    assert not np.signbit(made).any()


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16], ids=str)
def test_short_floats_are_rounded_once(dtype: Any):
    x = np.random.default_rng(0).random((4, 700)).astype(dtype)
    wide = x.astype("float64")
    cases = [(on(topi.sum, axis=1), wide.sum(axis=1)), (on(topi.mean, axis=1), wide.mean(axis=1))]
    cases += [(on(topi.std, axis=1), wide.std(axis=1)), (on(topi.max, axis=0), wide.max(axis=0))]
    check([x], [(f, e.astype(dtype)) for f, e in cases])


def test_truths():
    x = np.random.default_rng(0).random((2, 3, 4)) < 0.5
    check([x], numpy_cases(x, ["all", "any", "sum"], [None, 0, (1, 2)]))


def test_special_values():
    x = np.array([[1, np.nan, 2], [np.inf, 1, -np.inf], [3, 3, 1], [-np.inf] * 3], "float32")
    names = ["sum", "prod", "min", "max", "argmax", "argmin", "mean"]
    with np.errstate(all="ignore"):
        check([x], [(on(getattr(topi, n), axis=1), getattr(np, n)(x, axis=1)) for n in names])
        wanted = np.array([np.nan, np.inf, np.log(2 * np.exp(3) + np.exp(1)), -np.inf], "float32")
        check([x], [(on(topi.logsumexp, axis=1), wanted)])
    big = np.array([1000.0, 1001.0], "float32")
    check([big], [(topi.logsumexp, np.float32(1001.3133))])


def test_limits_of_integers_can_be_found():
    x = np.array([np.iinfo("int32").min] * 3, "int32")
    check([x, -(x + 1)], [(lambda a, _: topi.argmax(a), np.int64(0))])
    check([-(x + 1)], [(topi.argmin, np.int64(0)), (topi.max, np.int32(2**31 - 1))])


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), ()])
def test_shapes_of_few_elements(shape: tuple[int, ...]):
    x = np.ones(shape, "float32")
    check([x], [(topi.sum, x.sum()), (topi.prod, x.prod())])
    if len(shape) == 2:
        check([x], [(on(topi.sum, axis=a), x.sum(axis=a)) for a in (0, 1)])
    if not shape:
        check([x], [(topi.argmax, np.int64(0)), (topi.max, x)])


def test_a_mean_of_nothing_is_nan():
    x = np.ones((2, 0), "float32")
    check([x], [(on(topi.mean, axis=1), np.full(2, np.nan, "float32"))])


@pytest.mark.parametrize("shape", [(3, 4), (3, 0)])
def test_symbolic_shapes(shape: tuple[int, int]):
    x = np.random.default_rng(0).random(shape).astype("float32")
    with np.errstate(all="ignore"):
        mean = x.sum(axis=1) / np.float32(shape[1])
    cases = [(on(topi.sum, axis=1), x.sum(axis=1)), (on(topi.mean, axis=-1), mean)]
    check([x], cases, symbolic=True)
    if shape[1]:
        cases = [(on(topi.max, axis=0), x.max(axis=0)), (topi.argmax, x.argmax())]
        check([x], [*cases, (on(topi.std, axis=1), x.std(axis=1))], symbolic=True)


def test_the_dtype_of_sums():
    x = np.array([100, 100, 100], "int8")
    check([x], [(topi.sum, np.int64(300)), (on(topi.sum, dtype="int8"), np.int8(44))])
    check([x], [(on(topi.sum, dtype="float32"), np.float32(300))])


def test_mistakes():
    x = te.placeholder((2, 3), name="x")
    with refused("TE0102", "sum: axis 2 is outside of a tensor of 2 axes", "-2 to 1"):
        topi.sum(x, axis=2)
    with refused("TE0102", "named twice in (0, -2)"):
        topi.max(x, axis=(0, -2))
    with refused("TE0103", "mean takes floats, not int32"):
        topi.mean(topi.cast(x, "int32"))
    with refused("TE0103", "all takes bools"):
        topi.all(x)
    with refused("TE0104", "nothing to choose from"):
        topi.max(te.placeholder((2, 0)), axis=1)
