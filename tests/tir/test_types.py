from __future__ import annotations

import pytest

from loomir.ir import structural_equal
from loomir.support.dtype import DataType
from loomir.tir import PointerType, PrimType, TupleType
from loomir.tir.types import VOID_TYPE, dtype_of_type
from tests.clause import clauses
from tests.tir.refusal import refused

FLOAT = PrimType(DataType("float32"))


@clauses("TIR-GRAM-02")
def test_a_type_is_a_dtype_a_pointer_or_a_tuple():
    assert FLOAT.dtype == "float32"
    pointer = PointerType(FLOAT, "shared")
    assert pointer.element_type is FLOAT
    assert pointer.storage_scope == "shared"
    assert TupleType((FLOAT,)).fields == (FLOAT,)
    assert VOID_TYPE.fields == ()


@clauses("TIR-TY-03")
def test_a_pointer_points_to_a_dtype():
    with refused("TIR0111"):
        PointerType(PointerType(FLOAT))
    with refused("TIR0111"):
        PointerType(VOID_TYPE)


@clauses("TIR-TY-04", "TIR-VAL-09")
@pytest.mark.parametrize("scope", ["global", "shared", "shared.dyn", "local"])
def test_a_storage_scope_is_any_string_and_compared(scope: str):
    pointer = PointerType(FLOAT, scope)
    assert pointer.storage_scope == scope
    assert structural_equal(pointer, PointerType(FLOAT, scope))
    assert not structural_equal(pointer, PointerType(FLOAT, "elsewhere"))


@clauses("TIR-TY-05")
def test_only_the_empty_tuple_annotates_a_variable():
    assert dtype_of_type(VOID_TYPE).is_void
    with refused("TIR0111"):
        dtype_of_type(TupleType((FLOAT,)))
