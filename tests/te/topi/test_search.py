"""Places in sorted tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.te import topi
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused


def draw(dtype: Any, count: int) -> np.ndarray:
    """Return values with ties, all special ones among them where the dtype has such."""
    found = np.random.default_rng(count).integers(-20, 20, count)
    if np.dtype(dtype).kind == "u":
        found = abs(found)
    made = found.astype(dtype)
    if np.dtype(dtype).kind not in "iu" and count > 5:
        made[:6] = [np.nan, np.inf, -np.inf, -0.0, 0.0, np.nan]
    return made


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 37])
def test_searchsorted(size: int, right: bool, symbolic: bool):
    side = "right" if right else "left"
    values = draw("float32", 53)
    steps = np.sort(draw("float32", size))
    # NumPy puts NaN in front of those that the sequence ends in; here it is above all.
    expected = np.where(np.isnan(values), size, np.searchsorted(steps, values, side))
    check(
        [steps, values],
        [(lambda s, v: topi.searchsorted(s, v, right), expected)],
        symbolic=symbolic,
    )


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int64", "uint64", "float16", BFLOAT16, "float64"], ids=str
)
def test_dtypes(dtype: Any):
    values, steps = draw(dtype, 24).reshape(2, 3, 4), np.sort(draw(dtype, 5))
    expected = np.searchsorted(steps.astype("float64"), values.astype("float64")).astype("int32")
    if np.dtype(dtype).kind not in "iu":
        expected[np.isnan(values.astype("float64"))] = 5
    made = [(lambda s, v: topi.searchsorted(s, v, dtype="int32"), expected)]
    check([steps, values], made)
    check([steps, values], made, symbolic=True)


def test_what_is_not_sorted_stays_inside():
    steps = np.array([5, 1, 9, 2, 7, 3], "float32")
    found = np.searchsorted(steps, np.array([], "float32"))
    check([steps, np.array([], "float32")], [(topi.searchsorted, found)])
    for symbolic in (False, True):
        check(
            [steps, np.array([-1, 99], "float32")],
            [(topi.searchsorted, np.array([0, 6]))],
            symbolic=symbolic,
        )


def test_mistakes():
    x, y = te.placeholder((2, 3)), te.placeholder((4,))
    with refused("TE0104", "the sequence has 2 axes"):
        topi.searchsorted(x, y)
    with refused("TE0104", "places cannot be float32"):
        topi.searchsorted(y, x, dtype="float32")
    with refused("TE0103"):
        topi.searchsorted(te.placeholder((4,), "int32"), x)
