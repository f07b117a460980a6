"""Extents of the tensors that operators make."""

from __future__ import annotations

from typing import Any

import pytest

from loomir.arith.analyzer import Analyzer
from loomir.op import arange, eye, full, hamming_window
from loomir.relax.expr import Call, PrimValue, Var
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import op_def
from loomir.relax.struct_info import PrimStructInfo, ShapeStructInfo
from loomir.support.dtype import DataType
from loomir.tir.expr import Var as ShapeVar
from tests.op.running import info_of

INT64 = DataType("int64")
N = ShapeVar("n", INT64)


def infer(call: Call) -> Any:
    infos = [info_of(a) for a in call.args]
    context = OpContext(call, infos, Analyzer(), lookup=info_of, warn=lambda d: None)
    return op_def(call.op).infer(context)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (arange(N), N),
        (arange(2, N + 2), N),
        (arange(N, 0, -1), N),
        (arange(0, N, 2), (N + 1) // 2),
        (arange(N, N + 3), 3),
        (arange(N, dtype="float32"), N),
        (hamming_window(N), N),
    ],
)
def test_rows_of_symbolic_extents(call: Call, wanted: Any):
    (extent,) = infer(call).dims
    analyzer = Analyzer()
    analyzer.assume_size(N)
    assert analyzer.can_prove_equal(extent, wanted)


def test_a_row_is_not_of_negative_extent():
    (extent,) = infer(arange(N - 2)).dims
    analyzer = Analyzer()
    analyzer.assume_size(N)
    assert analyzer.can_prove_greater_equal(extent, 0)


def test_extents_that_no_number_gives_are_unknown():
    n = Var("n", PrimStructInfo(INT64))
    for call in (arange(n), arange(0, 5, n), arange(0.5, PrimValue(N)), hamming_window(n)):
        assert (infer(call).ndim, infer(call).dims) == (1, None)
    assert (infer(eye(n)).ndim, infer(eye(n)).dims) == (2, None)
    shape = Var("s", ShapeStructInfo(ndim=2))
    assert infer(full(shape, 1.0)).shape is shape


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (arange(5), "int64"),
        (arange(0.0, 5), "float32"),
        (arange(0.0, 5, dtype="int8"), "int8"),
        (full((2,), 1), "int64"),
        (full((2,), 1.0), "float32"),
        (full((2,), True), "bool"),
        (full((2,), 1, "float16"), "float16"),
        (eye(2), "float32"),
    ],
)
def test_dtypes_of_numbers(call: Call, dtype: str):
    assert infer(call).dtype == dtype
