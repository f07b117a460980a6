"""Every function gets its name as symbol."""

from __future__ import annotations

from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

TEXT = """
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = Module.other(x)
        z = R.call_tir(Module.kernel, (y,), out_ty=R.Tensor((3,), "float32"))
        return z
    @R.function(private=True)
    def other(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((3,)), B: T.Buffer((3,))):
        for i in range(3):
            B[i] = A[i] + T.float32(1)
"""


def test_functions_of_both_kinds_are_named():
    made = applied("AttachGlobalSymbol", module(TEXT), random(3))
    found = {var.name_hint: func.attrs["global_symbol"] for var, func in made.functions.items()}
    assert found == {"main": "main", "other": "other", "kernel": "kernel"}
