"""Products with one left operand become one."""

from __future__ import annotations

import pytest

from loomir.ir.equality import assert_structural_equal
from loomir.transform.relax.algebra.combine_parallel_matmul import CombineParallelMatmulOptions
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), a: R.Tensor((4, 3), "float32"), b: R.Tensor((4, 2), "float32"), c: R.Tensor((4, 5), "float32")):
        n = T.int64()
        with R.dataflow():
            p = R.matmul(x, a)
            q = R.matmul(x, b)
            r = R.matmul(x, c)
            s = R.nn.relu(q)
            R.output(p, r, s)
        return (p, s, r)
"""
AFTER = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), a: R.Tensor((4, 3), "float32"), b: R.Tensor((4, 2), "float32"), c: R.Tensor((4, 5), "float32")):
        n = T.int64()
        with R.dataflow():
            w = R.concat((a, b, c), axis=1)
            y = R.matmul(x, w)
            parts = R.split(y, [3, 5], axis=1)
            p = parts[0]
            q = parts[1]
            r = parts[2]
            s = R.nn.relu(q)
            R.output(p, r, s)
        return (p, s, r)
"""
ARGS = random(3, 4), random(4, 3), random(4, 2), random(4, 5)


def test_products_are_combined():
    assert_structural_equal(applied("CombineParallelMatmul", module(BEFORE), *ARGS), module(AFTER))


def test_batches_of_matrices_are_combined():
    text = """
    @R.function
    def main(x: R.Tensor((2, 3, 4), "float32"), a: R.Tensor(("b", 1, 4, 3), "float32"), b: R.Tensor(("b", 1, 4, 2), "float32")):
        with R.dataflow():
            p = R.matmul(x, a)
            q = R.matmul(x, b)
            R.output(p, q)
        return (p, q)
    """
    args = random(2, 3, 4), random(5, 1, 4, 3), random(5, 1, 4, 2)
    made = applied("CombineParallelMatmul", module(text), *args).script()
    assert "axis=3" in made
    assert made.count("R.matmul") == 1


@pytest.mark.parametrize(
    "change",
    [
        ("R.matmul(x, b)", "R.matmul(R.add(x, x), b)"),  # another left operand
        ("R.matmul(x, b)", "R.matmul(x, R.permute_dims(R.matmul(R.permute_dims(b), R.matmul(a, R.permute_dims(a)))))"),  # after
        ("R.matmul(x, b)", 'R.matmul(x, b, out_dtype="float64")'),
        ("b: R.Tensor((4, 2)", 'b: R.Tensor((4, "m")'),
        ("b: R.Tensor((4, 2)", "b: R.Tensor((1, 4, 2)"),
        ("            q = ", "            R.output(p)\n        u = R.add(x, x)\n        with R.dataflow():\n            q = "),
    ],
)  # fmt: skip
def test_others_stay(change: tuple[str, str]):
    text = BEFORE.replace("            r = R.matmul(x, c)\n", "").replace("p, r, s", "p, s")
    text = text.replace("(p, s, r)", "(p, s)")
    assert change[0] in text
    text = text.replace(*change)
    if "output(p)" in text:
        text = text.replace("R.output(p, s)", "R.output(s)")
    mod = module(text)
    assert applied("CombineParallelMatmul", mod) is mod


def test_a_check_decides():
    mod = module(BEFORE)
    seen: list[int] = []

    def check(left: object, rights: object) -> bool:
        seen.append(len(rights))  # type: ignore[arg-type]
        return False

    options = CombineParallelMatmulOptions(check)
    assert applied("CombineParallelMatmul", mod, options=options) is mod
    assert seen == [3]
