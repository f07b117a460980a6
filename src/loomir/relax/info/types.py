"""Static types: structural information without expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from loomir.ir.visit import fold
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.dtype import DataType

__all__ = [
    "DynTensorType",
    "FuncType",
    "ObjectType",
    "PackedFuncType",
    "PrimType",
    "ShapeType",
    "TupleType",
    "Type",
    "erase_struct_info",
]


class Type:
    """The root of types; compared by value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DynTensorType(Type):
    """A tensor of a rank and a dtype; -1 and void are unknown ones."""

    ndim: int
    dtype: DataType


@dataclass(frozen=True, slots=True)
class ShapeType(Type):
    """A shape of a rank; -1 is an unknown one."""

    ndim: int


@dataclass(frozen=True, slots=True)
class PrimType(Type):
    """A scalar of a dtype."""

    dtype: DataType


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """A tuple."""

    fields: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class PackedFuncType(Type):
    """A packed function."""


@dataclass(frozen=True, slots=True)
class FuncType(Type):
    """A closure."""

    arg_types: tuple[Type, ...]
    ret_type: Type


@dataclass(frozen=True, slots=True)
class ObjectType(Type):
    """Any value."""


def erase_struct_info(info: StructInfo) -> Type:
    """Return the type of what is described.

    Source: relax.md, Traditional Types.
    """
    return fold(info, _type_of)


def _type_of(node: Any, parts: list[Type]) -> Type:
    if isinstance(node, TensorStructInfo):
        return DynTensorType(node.ndim, node.dtype)
    if isinstance(node, ShapeStructInfo):
        return ShapeType(node.ndim)
    if isinstance(node, PrimStructInfo):
        return PrimType(node.dtype)
    if isinstance(node, TupleStructInfo):
        return TupleType(tuple(parts))
    if isinstance(node, FuncStructInfo):
        if node.params is None:
            return PackedFuncType()
        return FuncType(tuple(parts[:-1]), parts[-1])
    return cast("Type", ObjectType())
