"""Kernels of open sizes are copied for the sizes that calls know."""

from __future__ import annotations

from typing import Any

import numpy as np

import loomir
from loomir.ir.passes import PASSES, apply
from tests.transform.relax.modules import applied, module

KERNEL = """
    @T.prim_func(private=True)
    def scale(a: T.handle, k: T.int64, b: T.handle):
        m = T.int64()
        n = T.int64()
        A = T.match_buffer(a, (m, n), "float32")
        B = T.match_buffer(b, (m, n), "float32")
        C = T.alloc_buffer((m, n), "float32")
        for i, j in T.grid(m, n):
            with T.sblock("c"):
                x, y = T.axis.remap("SS", [i, j])
                C[x, y] = A[x, y] * T.Cast("float32", k)
        for i, j in T.grid(m, n):
            with T.sblock("b"):
                x, y = T.axis.remap("SS", [i, j])
                B[x, y] = C[x, y] + T.Cast("float32", n)
"""
CALLS = """
    @R.function
    def main(x: R.Tensor((4, 3), "float32"), y: R.Tensor(("p", 3), "float32"), z: R.Tensor(("p", "q"), "float32")):
        cls = Module
        p, q = T.int64(), T.int64()
        a = R.call_tir(cls.scale, (x,), R.Tensor((4, 3), "float32"), tir_vars=[2])
        b = R.call_tir(cls.scale, (a,), R.Tensor((4, 3), "float32"), tir_vars=[5])
        c = R.call_tir(cls.scale, (y,), R.Tensor((p, 3), "float32"), tir_vars=[3])
        d = R.call_tir(cls.scale, (z,), R.Tensor((p, q), "float32"), tir_vars=[3])
        return (b, c, d)
"""


def test_calls_that_know_the_same_share_a_kernel():
    before = module(KERNEL + CALLS)
    after = applied("SpecializePrimFuncBasedOnCallSite", before)
    names = sorted(var.name_hint for var in after.functions)
    assert names == ["main", "scale", "scale_sized", "scale_sized1"]
    text = after.script()
    assert text.count("cls.scale_sized,") == 2
    assert text.count("cls.scale_sized1,") == 1
    assert text.count("cls.scale,") == 1
    assert '(T.int64(4), T.int64(3)), "float32")' in text or '(4, 3), "float32")' in text
    assert loomir.verify(after) == ()
    given: list[Any] = [np.ones(s, "float32") for s in ((4, 3), (5, 3), (5, 2))]
    wanted = [np.full((4, 3), 28), np.full((5, 3), 6), np.full((5, 2), 5)]
    compiled = loomir.compile(after)["main"]
    for run in (lambda *a: loomir.interpret(after, "main", *a), compiled):
        for got, want in zip(run(*given), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_nothing_is_known():
    text = """
    @R.function
    def main(z: R.Tensor(("p", "q"), "float32")):
        cls = Module
        p, q = T.int64(), T.int64()
        return R.call_tir(cls.scale, (z,), R.Tensor((p, q), "float32"), tir_vars=[3])
"""
    before = applied("Normalize", module(KERNEL + text))
    assert apply(PASSES["relax.SpecializePrimFuncBasedOnCallSite"], before) is before
