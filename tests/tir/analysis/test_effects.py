from __future__ import annotations

from loomir.support.dtype import DataType
from loomir.tir import BUILTINS, Call, PrimExpr, Var, call_builtin, decl_buffer
from loomir.tir.analysis.effects import reads_memory

I = Var("i", "int32")  # noqa: E741, the loop of the examples


def test_reads_of_memory_and_effects_are_told():
    buffer = decl_buffer((8,), "int32")
    load = buffer[0]
    assert isinstance(load, PrimExpr)
    assert reads_memory(I + load)
    assert reads_memory(Call(DataType("int32"), BUILTINS["ret"].op, (I,)))
    assert not reads_memory(call_builtin("popcount", I))
