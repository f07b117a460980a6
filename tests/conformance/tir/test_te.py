"""Nodes of tensor expressions, and nodes that are gone."""

from __future__ import annotations

import pytest

from loomir import tir
from loomir.ir.node import NODE_CLASSES
from tests.conformance.both import refused

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
