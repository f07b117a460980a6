"""Operators whose results are as large as contents say, in compiled programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op
from loomir.relax.expr import Var
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import DataType
from loomir.tir.expr import Var as ShapeVar
from loomir.transform.relax.kernels.legalize_ops import legalize_ops

INT32 = DataType("int32")
N = ShapeVar("n", DataType("int64"))
KNOWN = {
    "extents": TensorStructInfo((5,), INT32),
    "symbols": TensorStructInfo((N,), INT32),
    "rank": TensorStructInfo(None, INT32, ndim=1),
    "dtype": TensorStructInfo(None, INT32),
}


@pytest.mark.parametrize("known", KNOWN)
def test_what_is_known_of_the_input_does_not_matter(known: str):
    x = Var("x", KNOWN[known])
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            found = builder.emit_output(op.unique(x, return_inverse=True, return_counts=True))
            places = builder.emit_output(op.nonzero(x))
        builder.emit_func_output([found, places])
    mod = legalize_ops(builder.finalize())
    assert loomir.verify(mod) == ()
    given = np.array([3, 0, 3, 2, 0], "int32")
    compiled: Any = loomir.compile(mod, opt_level=0)
    for run in (compiled["main"], lambda *a: loomir.interpret(mod, "main", *a)):
        (values, inverse, counts), where = run(given)
        np.testing.assert_array_equal(values, [0, 2, 3])
        np.testing.assert_array_equal(inverse, [2, 0, 2, 1, 0])
        np.testing.assert_array_equal(counts, [2, 1, 2])
        np.testing.assert_array_equal(where, [[0, 2, 3]])
