"""Elements at loaded indices: each index is loaded by itself, and none is taken out of a vector."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source
from loomir.tir.function import PrimFunc

SOURCE = """
@T.prim_func
def lookup(x: T.Buffer((64,), "{index}"), t: T.Buffer((8, 300), "float32"), o: T.Buffer((64,), "float32")):
    for v in range(4):
        for lane in T.vectorized(16):
            o[v * 16 + lane] = {value}
"""


def lookup(value: str, index: str) -> PrimFunc:
    func = from_source(SOURCE.format(index=index, value=value))
    assert isinstance(func, PrimFunc)
    return func


AT = 'T.cast(x[v * 16 + lane], "int64")'


@pytest.mark.parametrize("index", ["uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (AT, lambda x: x),
        (f"255 - {AT}", lambda x: 255 - x),
        (f"{AT} // 2 + 7", lambda x: x // 2 + 7),
        (f"{AT} % 5", lambda x: x % 5),
        (f"T.min(T.max({AT}, 3), 99)", lambda x: np.clip(x, 3, 99)),
        (f"{AT} + v * 16 + lane", lambda x: x + np.arange(64)),
    ],
)
def test_each_index_is_loaded_by_itself(place: str, wanted: Any, index: str):
    x = np.random.default_rng(0).integers(0, 128, 64).astype(index)
    table = np.random.default_rng(1).standard_normal((8, 300)).astype("float32")
    func = lookup(f"t[v, {place}]", index)
    run = loomir.compile(func, schedule=False, cache=False)
    out = np.zeros(64, "float32")
    run(x, table, out)
    rows = np.arange(64) // 16
    np.testing.assert_array_equal(out, table[rows, wanted(x.astype("int64"))])
    assert not re.findall(r"extractelement <16 x i64>", run.llvm_ir())


def test_a_divisor_that_may_be_zero_is_checked_once_for_all_lanes():
    func = lookup(f"t[v, {AT} // T.max({AT}, 1)]", "int32")
    x = np.arange(64).astype("int32")
    table = np.arange(2400).reshape(8, 300).astype("float32")
    out = np.zeros(64, "float32")
    loomir.compile(func, schedule=False, cache=False)(x, table, out)
    np.testing.assert_array_equal(out, table[np.arange(64) // 16, x // np.maximum(x, 1)])
