"""Fields of tuples are passed one by one."""

from __future__ import annotations

from loomir import relax
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

TEXT = """
    @R.function
    def main(x: R.Tensor((3,), "float32"), t: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))) -> R.Tensor((3,), "float32"):
        y: R.Tensor((3,), "float32") = Module.other((x, t))
        return y
    @R.function(private=True)
    def other(a: R.Tuple(R.Tensor((3,), "float32"), R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32")))) -> R.Tensor((3,), "float32"):
        b = a[0]
        c = a[1]
        d = c[1]
        with R.dataflow():
            e: R.Tensor((3,), "float32") = R.subtract(b, d)
            R.output(e)
        return e
"""


def test_tuples_in_tuples_are_expanded():
    args = random(3), (random(3) + 1, random(3) * 2)
    made = applied("ExpandTupleArguments", module(TEXT), *args)
    func = made["other"]
    assert isinstance(func, relax.Function)
    assert [p.name_hint for p in func.params] == ["a_0", "a_1_0", "a_1_1"]
    main = made["main"]
    assert isinstance(main, relax.Function)
    assert len(main.params) == 2
