"""A part that occurs twice gets variables and buffers of its own each time."""

from __future__ import annotations

from loomir.check.tir.verify import verify
from loomir.interp import interpret
from loomir.ir.module import GlobalVar, IRModule
from loomir.support.dtype import DataType
from loomir.tir import (
    Evaluate,
    IntImm,
    Let,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Var,
    call_builtin,
)
from loomir.transform.tir.convert_ssa import convert_ssa
from tests.clause import clauses
from tests.transform.meaning import assert_same_meaning, assert_stays, only, parse

TEXT = """
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.sblock("b"):
            vi = T.axis.spatial(8, i)
            t = T.alloc_buffer((4,), "int32")
            M = T.match_buffer(A[vi], (), "int32")
            t[1] = A[vi]
            x: T.int32 = t[1] * 2
            D = T.decl_buffer((2, 2), "int32", data=t.data)
            M[()] = x + D[0, 1] + i
"""


@clauses("TIR-SCOPE-01")
def test_a_repeated_part():
    func = only(parse(TEXT))
    twice = PrimFunc(
        func.params, SeqStmt((func.body, func.body)), None, func.buffer_map, func.attrs
    )
    assert verify(twice)
    made = convert_ssa(twice)
    assert not verify(made)
    assert_same_meaning(IRModule({GlobalVar("main"): twice}), IRModule({GlobalVar("main"): made}))
    assert convert_ssa(made) is made


def test_a_variable_bound_within_its_own_scope():
    """The value of the inner binding is the outer variable."""
    x, int32 = Var("x", "int32"), DataType("int32")
    body = LetStmt(
        x,
        IntImm(3, int32),
        LetStmt(x, x * 2, Evaluate(call_builtin("ret", Let(x, x + 1, x * 10) + x))),
    )
    made = convert_ssa(PrimFunc((), body))
    assert not verify(made)
    assert interpret(made, "main") == (3 * 2 + 1) * 10 + 6


def test_what_is_bound_once_stays():
    assert_stays(convert_ssa, TEXT)


def test_two_notes_about_one_buffer():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    with T.attr(A.data, "volatile_scope", 1):
        A[0] = 1
    with T.attr(A.data, "volatile_scope", 1):
        A[1] = A[0]
"""
    assert_stays(convert_ssa, text)
