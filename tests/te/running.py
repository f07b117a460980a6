"""Run what tensor expressions become, in every way that must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import loomir
from loomir import te
from loomir.ir import assert_structural_equal
from loomir.tir.function import PrimFunc


def checked(args: Sequence[Any], name: str = "main") -> PrimFunc:
    """Make a function, which is well-formed, and whose text reads back as the same program."""
    func = te.create_prim_func(args, name=name)
    assert loomir.verify(func) == ()
    assert_structural_equal(func, loomir.script.from_source(func.script()))
    return func


def same(actual: np.ndarray[Any, Any], expected: Any, rtol: float = 1e-5) -> None:
    """Compare an output with NumPy's: bits for integers, nearly so for floats, and no lost NaN."""
    wanted = np.asarray(expected)
    assert actual.shape == wanted.shape
    if actual.dtype.kind == "f":
        slack = 5e-3 if actual.dtype == np.float16 else rtol
        np.testing.assert_allclose(
            actual.astype("float64"), wanted.astype("float64"), rtol=slack, atol=slack * 1e-2
        )
    else:
        np.testing.assert_array_equal(actual, wanted)


def run_both(args: Sequence[Any], given: Sequence[Any], expected: Sequence[Any]) -> PrimFunc:
    """Compile and interpret a function of ``args``: what is given comes first, then the outputs."""
    func = checked(args)
    for engine in ("native", "interpreter"):
        outputs = [np.full(np.shape(e), 99).astype(np.asarray(e).dtype) for e in expected]
        inputs = [np.array(g) if isinstance(g, np.ndarray) else g for g in given]
        if engine == "native":
            loomir.compile(func, opt_level=1)(*inputs, *outputs)
        else:
            loomir.interpret(func, *inputs, *outputs)
        for actual, wanted in zip(outputs, expected, strict=True):
            same(actual, wanted)
        for now, before in zip(inputs, given, strict=True):
            np.testing.assert_array_equal(now, before)
    return func
