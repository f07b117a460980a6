"""Running sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.te import topi
from tests.te.topi.compare_with_numpy import check_both
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused

OURS = {"cumsum": (np.add, 0), "cumprod": (np.multiply, 1)}


def running(
    name: Any, x: Any, axis: Any, exclusive: bool = False, reverse: bool = False, dtype: Any = None
):
    """Combine step by step, in the dtype that holds the steps."""
    combine, identity = OURS[name]
    wide = {"b": "int64", "i": "int64", "u": "uint64"}
    wanted = np.dtype(dtype or wide.get(x.dtype.kind, x.dtype))
    inner = np.dtype("float32") if wanted.itemsize == 2 and wanted.kind in "fV" else wanted
    rows = np.moveaxis(x.reshape(-1) if axis is None else x, axis or 0, 0).astype(inner)
    rows = rows[::-1] if reverse else rows
    made = np.empty_like(rows)
    for t in range(len(rows)):
        if exclusive:
            made[t] = identity if t == 0 else combine(made[t - 1], rows[t - 1])
        else:
            made[t] = rows[t] if t == 0 else combine(made[t - 1], rows[t])
    made = made[::-1] if reverse else made
    return np.moveaxis(made, 0, axis or 0).astype(wanted)


def cases(x: Any, axes: Any, **given: Any):
    made = []
    with np.errstate(all="ignore"):
        for name in OURS:
            for axis in axes:
                for exclusive in (False, True):
                    for reverse in (False, True):
                        given = {**given, "exclusive": exclusive, "reverse": reverse}
                        expected = running(name, x, axis, **given)
                        operator = lambda a, n=name, i=axis, g=given: getattr(topi, n)(a, i, **g)  # noqa: E731
                        made.append((operator, expected))
    return made


@pytest.mark.parametrize(
    "dtype", ["float16", BFLOAT16, "float32", "float64", "int8", "uint8", "int64"], ids=str
)
def test_dtypes(dtype: Any):
    x = np.array([[1.5, 2, 3, 100], [-2, 0.5, 4, 120], [1, 1, -1, 7]])
    if np.dtype(dtype).kind == "u":
        x = np.abs(x)
    x = x.astype(dtype)
    check_both([x], cases(x, [0, -1]))


def test_what_the_reference_means():
    x = np.array([[1, 2, 3], [4, 5, 6]], "int32")
    np.testing.assert_array_equal(running("cumsum", x, 1), np.cumsum(x, 1))
    np.testing.assert_array_equal(running("cumprod", x, None), np.cumprod(x))
    np.testing.assert_array_equal(running("cumsum", x, 1, True, True), [[5, 3, 0], [11, 6, 0]])


@pytest.mark.parametrize("shape", [(1,), (0,), (2, 3, 4), (1, 0), (0, 2), (2, 1, 3)])
def test_shapes(shape: tuple[int, ...]):
    x = np.random.default_rng(0).integers(-3, 4, shape).astype("int32")
    check([x], cases(x, [None, *range(-len(shape), len(shape))]))


def test_a_single_element():
    x = np.array(3.0, "float32")
    check_both([x], cases(x, [None]))


def test_special_values():
    x = np.array([[-0.0, 1.0, np.nan, 2.0], [np.inf, 1.0, -np.inf, 0.0]], "float32")
    check_both([x], cases(x, [0, 1]))


def test_conversion_comes_first():
    x = np.array([100, 100, 100], "int8")
    every = [c for d in ("int8", "int32", "float16") for c in cases(x, [0], dtype=d)]
    check_both([x], every)
    truths = np.array([True, True, False, True])
    check_both([truths], cases(truths, [0]))
    check_both([truths], [(topi.cumsum, np.cumsum(truths))])


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (5, 7)])
def test_symbolic_shapes(shape: tuple[int, ...]):
    x = np.random.default_rng(0).integers(-3, 4, shape).astype("int32")
    check_both([x], cases(x, [None, 0, 1]), symbolic=True)


def test_mistakes():
    x = te.placeholder((3,), name="x")
    with refused("TE0102", "axis 1", "test_scan.py"):
        topi.cumsum(x, 1)
    with refused("TE0104", "cumprod: the dtype is bool", "test_scan.py"):
        topi.cumprod(x, 0, "bool")
