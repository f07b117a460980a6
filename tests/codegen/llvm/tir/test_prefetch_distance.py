"""Loops that have caches fetch what lies further on."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loomir
from loomir.ir.module import IRModule
from loomir.script import from_source

PROGRAM = """
from loomir.script import tir as T

@T.prim_func
def main(x: T.Buffer((3, 64), "float32"), w: T.Buffer((64,), "float32"), y: T.Buffer((3, 64), "float32")):
    for r in range(3):
        for i in T.serial(4, annotations={"prefetch_distance": %s}):
            for v in T.vectorized(16):
                y[r, i * 16 + v] = x[r, i * 16 + v] * w[i * 16 + v]
            for v in T.vectorized(16):
                y[r, i * 16 + v] = y[r, i * 16 + v] + x[r, i * 16 + v]
"""


def program(distance: str) -> IRModule:
    return from_source(PROGRAM % distance)


@pytest.mark.parametrize("target", ["haswell", "x86-64", "skylake-avx512"])
def test_what_each_row_has_of_its_own_is_fetched_once_for_each_line(target: str) -> None:
    ir = loomir.compile(program("64"), target, schedule=False, cache=False, opt_level=0).llvm_ir()
    found = re.findall(r"call void @llvm\.prefetch\.p0\(ptr (%\w+), i32 (\d), i32 3, i32 1\)", ir)
    assert sorted(flag for _, flag in found) == ["0", "1"]  # x read, y written; w same for all rows
    assert all(re.search(rf"{p} = getelementptr i8, ptr %\w+, i64 256\b", ir) for p, _ in found)


@pytest.mark.parametrize("distance", ["0", "-64", "'far'"])
def test_what_is_no_distance_is_no_hint(distance: str) -> None:
    run = loomir.compile(program(distance), schedule=False, cache=False, opt_level=0)
    assert "llvm.prefetch" not in run.llvm_ir()


def test_results_are_the_same_and_nothing_beyond_the_last_row_is_touched() -> None:
    run = loomir.compile(program("1 << 30"), schedule=False, cache=False)
    x, w, y = (
        np.random.default_rng(0).random((3, 64), "float32"),
        np.arange(64.0),
        np.zeros((3, 64)),
    )
    w, y = w.astype("float32"), y.astype("float32")
    run(x, w, y)
    np.testing.assert_array_equal(y, x * w + x)
