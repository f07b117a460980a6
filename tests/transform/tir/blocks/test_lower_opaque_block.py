"""Blocks go; what they allocate is allocated where they stood."""

from __future__ import annotations

from loomir.ir.module import GlobalVar, IRModule
from loomir.support.dtype import DataType
from loomir.tir import (
    TRUE,
    BufferRealize,
    BufferStore,
    PrimFunc,
    Range,
    Var,
    const,
    convert,
    decl_buffer,
    seq,
)
from loomir.transform.tir.blocks.lower_opaque_block import lower_opaque_block
from tests.clause import clauses
from tests.transform.meaning import assert_becomes, assert_same_meaning, check, lowered


@clauses("TIR-STMT-18a", "TIR-STMT-18k")
def test_allocations_of_a_block():
    assert_becomes(
        lower_opaque_block,
        """
@T.prim_func
def main(B: T.Buffer((4, 2), "int32")):
    for i in range(4):
        with T.sblock("b"):
            T.reads()
            T.writes(B[i, 0:2])
            t = T.alloc_buffer((2, 3), "int32")
            u = T.alloc_buffer((1,), "float32", scope="local")
            t[1, 2] = i
            B[i, 0] = t[1, 2]
""",
        """
@T.prim_func
def main(B: T.Buffer((4, 2), "int32")):
    for i in range(4):
        t_data = T.allocate([2, 3], "int32", "global")
        t = T.decl_buffer((2, 3), "int32", data=t_data)
        u_data = T.allocate([1], "float32", "local")
        u = T.decl_buffer((1,), "float32", data=u_data, scope="local")
        t[1, 2] = i
        B[i, 0] = t[1, 2]
""",
    )


def test_strides_and_an_offset_need_more_memory():
    made = check(
        """
@T.prim_func
def main(B: T.Buffer((4, 2), "int32")):
    with T.sblock("b"):
        t = T.alloc_buffer((4, 2), "int32", strides=[10, 3], elem_offset=5)
        for i, j in T.grid(4, 2):
            t[i, j] = i * 2 + j
        for i, j in T.grid(4, 2):
            B[i, j] = t[i, j]
"""
    )
    assert "T.allocate([T.int64(39)]" in made.script()  # 5 + 3 * 10 + 1 * 3 + 1


@clauses("TIR-STMT-06", "TIR-STMT-06a")
def test_a_realized_buffer_is_allocated_whole_and_binds_its_names():
    out = decl_buffer((2,), "int32", "B")
    n, s, o = Var("n", "int32"), Var("s", "int32"), Var("o", "int32")
    buffer = decl_buffer((3, n), "int32", "t", strides=(s, 1), elem_offset=o)
    body = seq(
        (
            BufferStore(buffer, const(7, "int32"), (convert(2), convert(4))),
            BufferStore(out, buffer[2, 4], (convert(0),)),
            BufferStore(out, n + s * 10 + o * 100, (convert(1),)),
        )
    )
    bounds = (Range(convert(0), convert(3)), Range(convert(0), convert(5)))
    handle = Var("b", DataType("handle"))
    func = PrimFunc(
        (handle,),
        BufferRealize(buffer, bounds, TRUE, body),
        buffer_map={handle: out},
        attrs={"global_symbol": "main"},
    )
    mod = IRModule({GlobalVar("main"): func})
    assert_same_meaning(mod, lowered(mod))
