"""Programs as TVM prints them are read."""

from __future__ import annotations

from loomir import relax
from loomir.ir import assert_structural_equal
from loomir.script import from_source

PRINTED = """
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), dtype="float32"), y: R.Any) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        t: R.Tensor((4,), dtype="float32") = R.match_cast(y, R.Tensor((4,), dtype="float32"))
        with R.dataflow():
            gv = R.call_tir(cls.double, (t,), out_sinfo=R.Tensor((4,), dtype="float32"))
            R.output(gv)
        return gv
"""


def test_the_module_is_named_within_functions():
    mod = from_source(PRINTED)
    direct = from_source(PRINTED.replace("        cls = Module\n", ""))
    assert_structural_equal(mod, direct)


def test_an_annotation_that_repeats_a_match_cast_binds_once():
    main = from_source(PRINTED)["main"]  # type: ignore[index]
    assert isinstance(main, relax.Function)
    assert isinstance(main.body, relax.SeqExpr)
    assert [len(block.bindings) for block in main.body.blocks] == [1, 1]
