"""Plain loops that combine integers: these wrap, so that any order gives the same."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.script import from_source
from tests.autoschedule.agreement import agrees, scheduled

RANDOM = np.random.default_rng(11)

ROWS = """
from loomir.script import tir as T

@T.prim_func
def rows(A: T.Buffer(({m}, {n}), "{dtype}"), C: T.Buffer(({m},), "{dtype}")):
    for i in range({m}):
        {start}
        for j in range({n}):
            C[i] = {step}
"""


@pytest.mark.parametrize("size", [(3, 0), (5, 67)])
@pytest.mark.parametrize(
    ("dtype", "step"),
    [
        ("int8", "C[i] + A[i, j]"),
        ("uint16", "A[i, j] * C[i]"),
        ("int32", "T.max(C[i], A[i, j])"),
        ("int64", "C[i] + A[i, j]"),
    ],
)
def test_rows(dtype: str, size: tuple[int, int], step: str):
    m, n = size
    start = "C[i] = T.Cast(C.dtype, 3)".replace("C.dtype", f'"{dtype}"')
    func = from_source(ROWS.format(m=m, n=n, dtype=dtype, start=start, step=step))
    info = np.iinfo(dtype)
    data = RANDOM.integers(info.min, info.max, size, dtype, endpoint=True)
    agrees(func, [data, np.zeros(m, dtype)], rtol=0, always=False)


def test_old_values_of_the_result_are_kept():
    func = from_source(ROWS.format(m=6, n=50, dtype="int32", start="pass", step="C[i] + A[i, j]"))
    data = RANDOM.integers(-(2**31), 2**31 - 1, (6, 50), "int32")
    agrees(func, [data, np.arange(6, dtype="int32")], rtol=0, always=False)


def test_an_order_of_vectors():
    func = from_source(
        ROWS.format(m=6, n=640, dtype="int32", start="C[i] = 0", step="C[i] + A[i, j]")
    )
    assert "T.vectorized" in scheduled(func, tasks=True).func.script()
    data = RANDOM.integers(-(2**31), 2**31 - 1, (6, 640), "int32")
    agrees(func, [data, np.zeros(6, "int32")], rtol=0)
