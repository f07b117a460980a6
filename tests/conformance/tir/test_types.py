"""Finer-grained types: what annotates a variable."""

from __future__ import annotations

import pytest

from loomir.ir import structural_equal
from loomir.support.dtype import HANDLE, VOID
from loomir.tir import (
    VOID_TYPE,
    Evaluate,
    PointerType,
    PrimFunc,
    PrimType,
    TupleType,
    Var,
    convert,
)
from tests.conformance.compare_engines import dt
from tests.tir.refusal import refused as refuses

INT = PrimType(dt("int32"))


@pytest.mark.parametrize("dtype", ["int32", "bool", "float16x4", "bfloat16", "handle"])
def test_TIR_TY_01_prim_type(dtype: str):
    """A variable's plain type says its dtype, and no other."""
    assert structural_equal(Var("x", dtype).type_annotation, PrimType(dt(dtype)))
    with refuses("TIR0111"):
        Var("x", dt(dtype), PrimType(dt("int8")))


def test_TIR_TY_02_pointers_are_handles():
    """A variable of a pointer type is a handle."""
    assert Var("p", type_annotation=PointerType(INT)).dtype is HANDLE
    for wrong in ("int64", "uint64", "void"):
        with refuses("TIR0111"):
            Var("p", dt(wrong), PointerType(INT))


def test_TIR_TY_03_element_types():
    """What a pointer points to has a plain type."""
    assert PointerType(INT).element_type is INT
    for wrong in (PointerType(INT), VOID_TYPE):
        with refuses("TIR0111"):
            PointerType(wrong)


@pytest.mark.parametrize("scope", ["global", "shared", "shared.dyn", "local"])
def test_TIR_TY_04_storage_scopes(scope: str):
    """The kind of memory is a text, kept as it is and part of the type."""
    made = PointerType(INT, scope)
    assert made.storage_scope == scope
    assert structural_equal(made, PointerType(INT, scope))
    assert structural_equal(made, PointerType(INT)) == (scope == "global")


def test_TIR_TY_05_tuples():
    """A tuple type is empty: the type of no result, or of a variable of no value."""
    assert structural_equal(PrimFunc((), Evaluate(convert(0))).ret_type, TupleType(()))
    assert Var("x", type_annotation=TupleType(())).dtype is VOID
    with refuses("TIR0111"):
        Var("x", type_annotation=TupleType((INT,)))
