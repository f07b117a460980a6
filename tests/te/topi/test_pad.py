"""Padding at the ends of axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.te import topi
from tests.te.topi.compare_with_numpy import check_both
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused

MODES = ["edge", "reflect", "symmetric", "wrap"]


def cases(x: Any, widths: Any):
    made = [(lambda a, m=m: topi.pad(a, widths, m), np.pad(x, widths, m)) for m in MODES]
    made.append((lambda a: topi.pad(a, widths), np.pad(x, widths)))
    made.append((lambda a: topi.pad(a, widths, value=1), np.pad(x, widths, constant_values=1)))
    return made


@pytest.mark.parametrize(
    "dtype", ["float16", BFLOAT16, "float32", "float64", "int8", "uint64", "bool"], ids=str
)
def test_dtypes(dtype: Any):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    check_both([x], cases(x, [(1, 0), (2, 1)]))


WIDTHS = [
    ((5,), [(0, 0)]),
    ((5,), [(4, 4)]),
    ((5,), [(5, 2)]),
    ((3,), [(11, 17)]),
    ((1,), [(3, 2)]),
    ((2,), [(0, 7)]),
    ((2, 3, 4), [(0, 0), (2, 1), (0, 3)]),
    ((1, 4), [(2, 2), (0, 0)]),
    ((0, 2), [(0, 0), (1, 1)]),
]


@pytest.mark.parametrize(("shape", "widths"), WIDTHS)
def test_shapes(shape: Any, widths: Any):
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    check_both([x], cases(x, widths))


def test_a_single_element():
    x = np.array(3, "float32")
    check_both([x], [(lambda a, m=m: topi.pad(a, [], m), x) for m in ["constant", *MODES]])


def test_empty_axes_take_constants():
    x = np.zeros((0, 2), "float32")
    expected = np.full((3, 2), 4, "float32")
    check_both([x], [(lambda a: topi.pad(a, [(1, 2), (0, 0)], value=4), expected)])


def test_special_values():
    x = np.array([np.nan, 1, np.inf, -np.inf], "float32")
    check_both([x], cases(x, [(3, 3)]))
    nan = float("nan")
    expected = np.pad(x, 1, constant_values=nan)
    check_both([x], [(lambda a: topi.pad(a, [(1, 1)], value=nan), expected)])


@pytest.mark.parametrize("shape", [(3, 4), (2, 1), (5, 7)])
def test_symbolic_shapes(shape: tuple[int, ...]):
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    check_both([x], cases(x, [(1, 0), (4, 5)]), symbolic=True)


def test_symbolic_widths():
    x = np.arange(3, dtype="float32")
    y = np.zeros(4, "float32")
    expected = [np.pad(x, (4, 1)), np.pad(x, (4, 1), "reflect"), np.pad(x, (4, 1), "edge")]
    modes = ["constant", "reflect", "edge"]
    check(
        [x, y],
        [
            (lambda a, b, m=m: topi.pad(a, [(b.shape[0], 1)], m), e)
            for m, e in zip(modes, expected, strict=True)
        ],
        symbolic=True,
    )


def test_mistakes():
    x = te.placeholder((3, 0), name="x")
    with refused("TE0104", "'mirror'", "test_pad.py"):
        topi.pad(x, [(0, 0), (0, 0)], "mirror")
    with refused("TE0104", "give 2 pairs", "test_pad.py"):
        topi.pad(x, [(1, 1)])
    with refused("TE0104", "negative", "slice"):
        topi.pad(x, [(-1, 1), (0, 0)])
    with refused("TE0104", "empty axis"):
        topi.pad(x, [(0, 0), (1, 0)], "edge")
