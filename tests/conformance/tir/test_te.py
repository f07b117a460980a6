"""Nodes of tensor expressions, and nodes that are gone."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import te, tir
from loomir.check.tir.verify import verify
from loomir.ir.node import NODE_CLASSES
from loomir.ir.visit import post_order
from loomir.support.diagnostics import CompileError
from loomir.tir.buffer import Range, decl_buffer
from loomir.tir.expr import StringImm, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import AttrStmt, Evaluate
from tests.conformance.compare_engines import refused

const = te.const
KINDS = {c.__name__ for c in NODE_CLASSES.values() if c.__module__.startswith("loomir.tir")}


@pytest.mark.parametrize("name", ["CommReducer", "Reduce", "Prefetch"])
def test_TIR_TE_01_tensor_expressions(name: str):
    """Reducers, reductions and prefetches are not part of loop programs: there is no such node."""
    assert name not in KINDS
    assert not hasattr(tir, name)
    refused(
        "SCR0004",
        f"""
        @T.prim_func
        def main(x: T.int32):
            T.evaluate(T.{name}(x))  # <--
        """,
    )


@pytest.mark.parametrize("name", ["Load", "Store"])
def test_TIR_TE_02_load_and_store(name: str):
    """Load and Store are gone; buffers are read and written by BufferLoad and BufferStore."""
    assert name not in KINDS
    assert f"Buffer{name}" in KINDS
    refused(
        "SCR0004",
        f"""
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            T.evaluate(T.{name}("int32", A.data, 0))  # <--
        """,
    )


def test_TIR_TE_03_allocate_const():
    """Constants are not allocated: an allocation or an argument takes their place."""
    assert "AllocateConst" not in KINDS
    assert "Allocate" in KINDS
    refused(
        "SCR0004",
        """
        @T.prim_func
        def main(x: T.int32):
            with T.allocate_const([1, 2], "int32", [2]) as p:  # <--
                T.evaluate(x)
        """,
    )


def built_by_hand(name: str) -> PrimFunc:
    """Put a node of tensor expressions into a function."""
    a = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), name="k")
    total = te.sum(a[k], axis=k)
    assert isinstance(total, te.Reduce)
    buffer = decl_buffer((4,), "float32", "B")
    body = {
        "CommReducer": AttrStmt(total.combiner, "note", StringImm("sum"), Evaluate(const(0))),
        "Prefetch": te.prefetch(buffer, (Range(const(0), const(4)),)),
        "Reduce": Evaluate(total),
        "ReduceAxis": Evaluate(k + 1),
        "TensorLoad": Evaluate(a[0] * 2.0),
    }[name]
    handle = Var("B_handle", "handle")
    return PrimFunc((handle,), body, buffer_map={handle: buffer})


@pytest.mark.parametrize("name", ["CommReducer", "Prefetch", "Reduce", "ReduceAxis", "TensorLoad"])
def test_TIR_TE_01_built_by_hand(name: str):
    """A function that holds a node of tensor expressions is refused by that node's name."""
    func = built_by_hand(name)
    assert [d.code for d in verify(func)] == ["TIR0420"]
    for run in (loomir.compile, loomir.interpret):
        with pytest.raises(CompileError, match=rf"te\.{name} is not part of a program"):
            run(func)


def test_TIR_TE_01_lowered_before_execution():
    """What tensor expressions become holds none of their nodes, and runs."""
    a = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), name="k")
    func = te.create_prim_func([a, te.compute((), lambda: te.sum(a[k], axis=k), name="B")])
    assert verify(func) == ()
    assert not any(part.lowered_by for part in post_order(func))
    total = np.zeros((), "float32")
    loomir.compile(func)(np.arange(4, dtype="float32"), total)
    assert total == 6
