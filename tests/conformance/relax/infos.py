"""Structural information, made by hand."""

from __future__ import annotations

from typing import Any

from loomir.ir.equality import structural_equal
from loomir.ir.module import VDevice
from loomir.relax import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    Var,
)
from loomir.relax.info.relations import Match, check_compatibility, is_subtype
from loomir.relax.struct_info import OBJECT
from loomir.tir.expr import Var as SizeVar

n, m, k = (SizeVar(name, "int64") for name in "nmk")
V0, V1 = VDevice("llvm", 0), VDevice("llvm", 1)
F32 = "float32"
NO, MAYBE, YES = Match.NO, Match.MAYBE, Match.YES
SHAPE = Var("s", ShapeStructInfo(ndim=2))


def tensor(*dims: Any, dtype: str = F32, vdevice: VDevice | None = None) -> TensorStructInfo:
    return TensorStructInfo(dims, dtype, vdevice)


def some(dtype: str = "void", ndim: int = -1, vdevice: VDevice | None = None) -> TensorStructInfo:
    """Describe a tensor of unknown extents."""
    return TensorStructInfo(None, dtype, vdevice, ndim)


def shape(*dims: Any) -> ShapeStructInfo:
    return ShapeStructInfo(dims)


def rank(ndim: int = -1) -> ShapeStructInfo:
    return ShapeStructInfo(ndim=ndim)


def prim(dtype: str = "int64", value: Any = None) -> PrimStructInfo:
    return PrimStructInfo(dtype, value)


def tuple_of(*fields: StructInfo) -> TupleStructInfo:
    return TupleStructInfo(fields)


def func(*params: StructInfo, ret: StructInfo = OBJECT, purity: bool = True) -> FuncStructInfo:
    return FuncStructInfo(params, ret, purity)


def opaque(derive: Any) -> FuncStructInfo:
    return FuncStructInfo(None, OBJECT, False, derive)


def below(a: StructInfo, b: StructInfo) -> None:
    """Check that the first is a subtype of the second, and not the reverse."""
    assert is_subtype(a, b) is YES
    assert is_subtype(b, a) is NO


def fits(a: StructInfo, b: StructInfo, wanted: Match) -> None:
    assert check_compatibility(a, b) is wanted


def equal(a: Any, b: Any) -> None:
    assert structural_equal(a, b), f"{a} is not {b}"
