"""Products read transposed matrices as they lie in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.equality import assert_structural_equal
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((3, 4), "float32")):
        n = T.int64()
        with R.dataflow():
            t = R.permute_dims(w, axes=[1, 0])
            y = R.matmul(x, t)
            R.output(y)
        return y
"""
AFTER = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((3, 4), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.call_tir(cls.NT_matmul, (x, w), out_ty=R.Tensor((n, 3), "float32"))
            R.output(y)
        return y

    @T.prim_func(private=True)
    def NT_matmul(x_handle: T.handle, w: T.Buffer((3, 4), "float32"), y_handle: T.handle):
        T.func_attr({"op": "relax.matmul"})
        n = T.int64()
        x = T.match_buffer(x_handle, (n, 4), "float32")
        y = T.match_buffer(y_handle, (n, 3), "float32")
        for i0, i1, k in T.grid(n, 3, 4):
            with T.sblock("matmul"):
                i, j, s = T.axis.remap("SSR", [i0, i1, k])
                with T.init():
                    y[i, j] = T.float32(0)
                y[i, j] = y[i, j] + x[i, s] * w[j, s]
"""


def test_a_transposed_matrix_is_not_made():
    x, w = random(2, 4), random(3, 4)
    made = applied("FuseTransposeMatmul", module(BEFORE), x, w)
    assert_structural_equal(made, module(AFTER))
    before = loomir.compile(module(BEFORE), opt_level=0)["main"](x, w)
    after = loomir.compile(made, opt_level=0)["main"](x, w)
    assert np.array_equal(before, after)  # all bits


@pytest.mark.parametrize(
    ("body", "shapes", "name"),
    [
        ("R.matmul(R.permute_dims(a), b)", ((4, 2), (4, 3)), "TN_matmul"),
        ("R.matmul(R.permute_dims(a), R.permute_dims(b))", ((4, 2), (3, 4)), "TT_matmul"),
        ('R.matmul(a, R.permute_dims(b, axes=[0, -1, 1]), out_dtype="float64")', ((2, 4), (5, 3, 4)), "NT_matmul"),
        ("R.matmul(R.permute_dims(a, axes=[0, 1, 3, 2]), b)", ((1, 5, 4, 2), (3, 1, 4, 3)), "TN_matmul"),
        ("R.matmul(a, R.permute_dims(b))", ((4,), (3, 4)), "NT_matmul"),
    ],
)  # fmt: skip
def test_either_operand_of_any_rank(body: str, shapes: Any, name: str):
    mod = module(f"""
    @R.function
    def main(a: R.Tensor({shapes[0]}, "float32"), b: R.Tensor({shapes[1]}, "float32")):
        with R.dataflow():
            y = {body}
            R.output(y)
        return y
    """)
    made = applied("FuseTransposeMatmul", mod, random(*shapes[0]), random(*shapes[1]))
    assert sorted(made) == [name, "main"]
    assert "permute_dims" not in made.script()


def test_two_products_use_one_matrix_without_a_copy():
    text = BEFORE.replace(
        "y = R.matmul(x, t)", "z = R.matmul(x, t)\n            y = R.add(z, R.matmul(x, t))"
    )
    made = applied("FuseTransposeMatmul", module(text), random(2, 4), random(3, 4))
    assert "permute_dims" not in made.script()
    assert sorted(made) == ["NT_matmul", "main"]


@pytest.mark.parametrize(
    "change",
    [
        ("R.matmul(x, t)", "R.add(R.matmul(x, t), R.sum(t))"),  # used otherwise too
        ("R.output(y)", "R.output(y, t)"),  # leaves the block
        ("            y =", "            R.output(t)\n        with R.dataflow():\n            y ="),
        ("(3, 4)", '(3, "k")'),  # whether extents fit is checked as it runs
    ],
)  # fmt: skip
def test_others_stay(change: Any):
    assert change[0] in BEFORE
    mod = module(BEFORE.replace(*change))
    assert applied("FuseTransposeMatmul", mod) is mod


def test_axes_that_stay_are_no_transposition():
    mod = module(BEFORE.replace("[1, 0]", "[0, 1]").replace("(3, 4)", "(4, 3)"))
    assert applied("FuseTransposeMatmul", mod) is mod
