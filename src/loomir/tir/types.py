"""Types of variables and return values that say more than a dtype, such as pointers."""

from __future__ import annotations

from typing import Final

from loomir.ir.node import Node, attr, child, node
from loomir.support.dtype import HANDLE, VOID, DataType
from loomir.tir.rules import refuse

__all__ = [
    "VOID_TYPE",
    "PointerType",
    "PrimType",
    "TupleType",
    "Type",
    "dtype_of_type",
    "pointer_type",
    "prim_type",
]


class Type(Node):
    """The base class of types."""

    __slots__ = ()


@node
class PrimType(Type):
    """A scalar or vector of ``dtype``."""

    dtype: DataType = attr()


@node
class PointerType(Type):
    """A pointer to elements of a known type in memory of a named kind.

    Errors: TIR0111 if the element type is not a ``PrimType``.
    """

    element_type: Type = child()
    storage_scope: str = attr(default="global")

    def __post_init__(self) -> None:
        if not isinstance(self.element_type, PrimType):
            refuse(
                "TIR0111",
                "a pointer's element type must be a PrimType",
                help="point to a dtype, as in PointerType(PrimType(float32))",
            )


@node
class TupleType(Type):
    """The type of no value: a tuple without fields, the only one in the language."""

    fields: tuple[Type, ...] = child(default=())


VOID_TYPE = TupleType(())
_PRIM_TYPES: Final[dict[DataType, PrimType]] = {}
_POINTER_TYPES: Final[dict[tuple[DataType, str], PointerType]] = {}


def prim_type(dtype: DataType) -> PrimType:
    """Return the type of values of a dtype, one object for each."""
    found = _PRIM_TYPES.get(dtype)
    if found is None:
        found = _PRIM_TYPES[dtype] = PrimType(dtype)
    return found


def pointer_type(dtype: DataType, scope: str = "global") -> PointerType:
    """Return the type of pointers to elements of a dtype, one object for each kind of memory."""
    found = _POINTER_TYPES.get((dtype, scope))
    if found is None:
        found = _POINTER_TYPES[dtype, scope] = PointerType(prim_type(dtype), scope)
    return found


def dtype_of_type(annotation: Type) -> DataType:
    """Return the dtype of a variable annotated so.

    Errors: TIR0111 for a tuple that has fields.
    """
    if isinstance(annotation, PrimType):
        return annotation.dtype
    if isinstance(annotation, PointerType):
        return HANDLE
    if isinstance(annotation, TupleType) and not annotation.fields:
        return VOID
    return refuse(
        "TIR0111",
        "this type cannot annotate a variable",
        help="use a PrimType, a PointerType, or the empty TupleType for no value",
    )
