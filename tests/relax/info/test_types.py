from __future__ import annotations

from typing import Any

import pytest

from loomir import relax as R
from loomir import tir
from loomir.relax.info.types import (
    DynTensorType,
    FuncType,
    ObjectType,
    PackedFuncType,
    PrimType,
    ShapeType,
    TupleType,
    erase_struct_info,
)
from loomir.relax.struct_info import OBJECT
from loomir.support.dtype import VOID, DataType
from tests.clause import clauses

n = tir.Var("n", "int64")
F32 = DataType("float32")
TENSOR = R.TensorStructInfo((n, 4), "float32", R.VDevice("llvm"))


@clauses("RX-TYP-01")
@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (TENSOR, DynTensorType(2, F32)),
        (R.TensorStructInfo(), DynTensorType(-1, VOID)),
        (R.ShapeStructInfo((n, 4)), ShapeType(2)),
        (R.ShapeStructInfo(), ShapeType(-1)),
        (R.PrimStructInfo("int64", n + 1), PrimType(DataType("int64"))),
        (R.TupleStructInfo((TENSOR, OBJECT)), TupleType((DynTensorType(2, F32), ObjectType()))),
        (R.TupleStructInfo(()), TupleType(())),
        (R.FuncStructInfo(None, TENSOR, derive_func="default_derive"), PackedFuncType()),
        (
            R.FuncStructInfo((TENSOR, OBJECT), R.ShapeStructInfo(ndim=1)),
            FuncType((DynTensorType(2, F32), ObjectType()), ShapeType(1)),
        ),
        (R.FuncStructInfo((), OBJECT), FuncType((), ObjectType())),
        (OBJECT, ObjectType()),
    ],
    ids=str,
)
def test_structural_information_has_a_type(info: Any, expected: Any):
    assert erase_struct_info(info) == expected


def test_a_deep_tuple_has_one():
    info, count = OBJECT, 5000
    for _ in range(count):
        info = R.TupleStructInfo((info,))
    found = erase_struct_info(info)
    for _ in range(count):
        (found,) = found.fields
    assert found == ObjectType()
