"""Kernels that only reshape are called so."""

from __future__ import annotations

from typing import Any

import pytest

from loomir import op
from loomir.ir.equality import assert_structural_equal
from loomir.ir.passes import PASSES, apply
from loomir.tir import Var as ShapeVar
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import calls, described, program, random

N = ShapeVar("n", "int64")
BEFORE = """
    @T.prim_func(private=True)
    def copy(a: T.Buffer((2, 6), "float32"), b: T.Buffer((3, 4), "float32")):
        for i, j in T.grid(3, 4):
            with T.sblock("copy"):
                k, l = T.axis.remap("SS", [i, j])
                b[k, l] = a[(k * 4 + l) // 6, (k * 4 + l) % 6]

    @R.function
    def main(x: R.Tensor((2, 6), "float32")):
        with R.dataflow():
            y = R.call_tir(cls.copy, (x,), out_ty=R.Tensor((3, 4), "float32"))
            z = R.exp(y)
            R.output(z)
        return z
"""


def test_a_kernel_that_keeps_the_order():
    after = BEFORE.replace('R.call_tir(cls.copy, (x,), out_ty=R.Tensor((3, 4), "float32"))', "R.reshape(x, R.shape([3, 4]))")  # fmt: skip
    assert_structural_equal(applied("RewriteDataflowReshape", module(BEFORE), random(2, 6)), module(after))  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        ("(k * 4 + l) // 6, (k * 4 + l) % 6", "(k + l * 3) // 6, (k + l * 3) % 6"),  # another order
        ("a[(k * 4 + l) // 6, (k * 4 + l) % 6]", "a[(k * 4 + l) // 6, (k * 4 + l) % 6] + T.float32(1)"),
        ("T.grid(3, 4)", "T.grid(3, 3)"),  # not all of it
    ],
)  # fmt: skip
def test_others_stay(change: tuple[str, str]):
    assert change[0] in BEFORE
    mod = module(BEFORE.replace(*change))
    assert apply(PASSES["relax.RewriteDataflowReshape"], mod) is mod


def test_kernels_of_operators_of_symbolic_extents():
    def build(b: Any, x: Any) -> Any:
        y = b.emit(op.reshape(x, (2 * N, 6)))
        y = b.emit(op.flatten(b.emit(op.expand_dims(y, [1]))))
        return op.permute_dims(b.emit(op.reshape(y, (6, N, 2))))

    mod = apply(PASSES["relax.LegalizeOps"], program(build, [described((N, 3, 4))]))
    made = applied("RewriteDataflowReshape", mod, random(2, 3, 4))
    assert calls(made) == ["reshape", "reshape", "reshape", "reshape", "call_tir"]
