"""Copies of statements with definitions of their own."""

from __future__ import annotations

from loomir.ir.visit import by_class
from loomir.script import from_source
from loomir.tir import Block, PrimFunc
from loomir.tir.fresh import fresh_copy


def test_what_sizes_an_allocation_stays():
    func = from_source(
        """
@T.prim_func
def f(n: T.int64, y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            A = T.alloc_buffer((n,), "float32")
            y[vi] = A[0]
"""
    )
    assert isinstance(func, PrimFunc)
    (old,) = [b for block in by_class(func.body)[Block] for b in block.alloc_buffers]
    copy = fresh_copy(func.body, {})
    (new,) = [b for block in by_class(copy).get(Block, ()) for b in block.alloc_buffers]
    assert new is not old
    assert new.data is not old.data
    assert new.shape[0] is func.params[0]
