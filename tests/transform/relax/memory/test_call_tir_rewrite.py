"""Kernels are called directly, on tensors that are allocated before."""

from __future__ import annotations

from typing import Any

import numpy as np

import loomir
from loomir import op, relax
from loomir.ir.passes import PASSES, apply
from loomir.tir import Var as ShapeVar
from tests.transform.relax.modules import applied
from tests.transform.relax.test_lowering import calls, described, program, random

N = ShapeVar("n", "int64")


def test_kernels_are_called_directly():
    def build(b: Any, x: Any) -> Any:
        x = b.emit(op.concat([b.emit(op.exp(x)), x]))
        return relax.Tuple((x, b.emit(op.split(x, 2))))

    whole = program(lambda b, x, y: build(b, x), [described((4,)), described((N,))])
    lowered = apply(PASSES["relax.LegalizeOps"], whole)
    args = random(4), random(3)
    made = applied("CallTIRRewrite", lowered, *args)
    assert "call_tir" not in calls(made)
    assert calls(made).count("builtin.alloc_tensor") == 4
    func = made["main"]
    assert func.attrs["relax.force_pure"]
    wanted = loomir.interpret(whole, "main", *args)
    found = loomir.compile(made)["main"](*args)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)


def test_functions_without_kernels_stay():
    mod = program(lambda b, x: op.exp(x), [described((3,))])
    assert apply(PASSES["relax.CallTIRRewrite"], mod) is mod
