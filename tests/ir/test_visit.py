"""Walks over programs."""

from __future__ import annotations

from loomir.ir.visit import nodes_outside, pre_order
from loomir.script import from_source
from loomir.tir.expr import BinaryOp, PrimExpr
from loomir.tir.function import PrimFunc

PROGRAM = """
from loomir.script import tir as T

@T.prim_func
def main(x: T.Buffer((8, 8), "float32"), n: T.int32):
    for i, j in T.grid(8, 8):
        with T.block("sum"):
            vi, vj = T.axis.remap("SS", [i, j])
            with T.init():
                x[vi, vj] = T.float32(0)
            if vi + vj < n:
                x[vi, vj] = x[vi, vj] * T.float32(2) + T.if_then_else(vi > 0, x[vi - 1, vj], 0.0)
    for k in T.serial(n + 1, annotations={"note": 1}):
        T.evaluate(k * k)
"""


def _is_in_expression(func: PrimFunc) -> set[int]:
    return {
        id(part) for e in pre_order(func.body) if isinstance(e, PrimExpr) for part in pre_order(e)
    }


def test_statements_are_what_is_outside_of_expressions_in_order() -> None:
    func = from_source(PROGRAM)
    assert isinstance(func, PrimFunc)
    hidden = _is_in_expression(func)
    expected = [part for part in pre_order(func.body) if id(part) not in hidden]
    listed = nodes_outside(func.body, PrimExpr)
    assert [id(part) for part in listed] == [id(part) for part in expected]
    assert len(listed) < len(list(pre_order(func.body))) / 2


def test_each_kind_hides_its_own() -> None:
    func = from_source(PROGRAM)
    assert isinstance(func, PrimFunc)
    listed = nodes_outside(func.body, BinaryOp)
    assert any(isinstance(part, PrimExpr) for part in listed)
    assert not any(isinstance(part, BinaryOp) for part in listed)
    assert nodes_outside(func.body, type(func.body)) == []
