"""Lanes at a distance of a few elements are loaded together, and nothing beyond the last."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.script import tir as T


def gaps(stride: int, lanes: int, dtype: str):
    size = (lanes - 1) * stride + 2

    @T.prim_func
    def func(a: T.Buffer((size,), dtype), b: T.Buffer((lanes,), dtype)):
        b[T.Ramp(0, 1, lanes)] = a[T.Ramp(T.int64(1), T.int64(stride), lanes)]

    return func


@pytest.mark.parametrize("stride", [2, 3, 4, 5])
@pytest.mark.parametrize(("lanes", "dtype"), [(2, "int64"), (8, "float32"), (16, "int8")])
def test_a_strided_load(stride: int, lanes: int, dtype: str):
    source = np.arange(1, (lanes - 1) * stride + 3).astype(dtype)
    out = np.zeros(lanes, dtype)
    loomir.compile(gaps(stride, lanes, dtype), cache=False)(source, out)
    np.testing.assert_array_equal(out, source[1::stride])
