"""Copies of statements with definitions of their own."""

from __future__ import annotations

from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class
from loomir.script import from_source
from loomir.tir import Block, PrimFunc
from loomir.tir.analysis.copy_statement import definitions_in, fresh_copies, fresh_copy
from loomir.tir.expr import IntImm
from loomir.tir.stmt import BlockRealize, For


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


def test_each_of_several_copies_has_definitions_of_its_own():
    func = from_source(
        """
@T.prim_func
def f(y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            A = T.alloc_buffer((2,), "float32")
            A[0] = y[vi]
            y[vi] = A[0]
"""
    )
    assert isinstance(func, PrimFunc)
    (loop,) = by_class(func.body)[For]
    values = [IntImm(k, loop.loop_var.dtype) for k in range(3)]
    copies = list(fresh_copies(loop.body, [{loop.loop_var: v} for v in values]))
    names = [definitions_in(part) for part in (loop.body, *copies)]
    assert len({id(name) for row in names for name in row}) == sum(map(len, names))
    for copy, value in zip(copies, values, strict=True):
        (made,) = by_class(copy)[BlockRealize]
        assert made.iter_values == (value,)
        assert structural_equal(copy, fresh_copy(loop.body, {loop.loop_var: value}))
