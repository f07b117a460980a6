"""Builtins on pointers, and those that describe arrays for calls."""

from __future__ import annotations

from typing import Final

from loomir.ir.op import Effect, Op
from loomir.support.dtype import BOOL, HANDLE, VOID, DataType
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.row import AcceptedDTypes, Args, Kind, Param, row
from loomir.tir.expr import Call, IntImm, PrimExpr, Var
from loomir.tir.types import PointerType, PrimType

__all__ = [
    "ADDRESS_OF",
    "FAMILY",
    "HANDLE_ADD_BYTE_OFFSET",
    "PTR_BYTE_OFFSET",
    "STACK_MAKE_ARRAY",
    "STACK_MAKE_SHAPE",
    "TVM_ACCESS_PTR",
    "TYPE_ANNOTATION",
    "pointer_base",
    "pointer_type",
]

FAMILY: Final = "pointers and memory"


def _pointer(args: Args) -> DataType:
    return HANDLE


def _truth(args: Args) -> DataType:
    return BOOL


def _is_handle(arg: PrimExpr) -> bool:
    return arg.dtype.is_handle


def _is_integer(arg: PrimExpr) -> bool:
    return arg.dtype.is_integer and arg.dtype.lanes == 1


def _is_element(arg: PrimExpr) -> bool:
    return isinstance(arg, BufferLoad) and all(i.dtype.lanes == 1 for i in arg.indices)


def _is_annotation(arg: PrimExpr) -> bool:
    return isinstance(arg, Call) and arg.op is TYPE_ANNOTATION


_HANDLE: Final = Kind("a pointer", _is_handle)
_INTEGER: Final = Kind("an integer", _is_integer)
_TYPE: Final = Kind("T.type_annotation(dtype)", _is_annotation)

ADDRESS_OF: Final = row(
    "address_of",
    (Param("element", Kind("an element of a buffer, as in A[i]", _is_element)),),
    AcceptedDTypes.EACH,
    _pointer,
    "a pointer to an element of a buffer",
    family=FAMILY,
    corners="the element is not read; an index outside of the buffer is an error as in a read",
)
HANDLE_ADD_BYTE_OFFSET: Final = row(
    "handle_add_byte_offset",
    (Param("handle", _HANDLE), Param("offset", _INTEGER)),
    AcceptedDTypes.EACH,
    _pointer,
    "the pointer moved by a number of bytes",
    family=FAMILY,
    corners="the offset may be negative; bounds are checked at the access",
)
PTR_BYTE_OFFSET: Final = row(
    "ptr_byte_offset",
    (Param("ptr", _HANDLE), Param("byte_offset", _INTEGER), Param("dtype", _TYPE)),
    AcceptedDTypes.EACH,
    _pointer,
    "the pointer moved by a number of bytes, to elements of a dtype",
    family=FAMILY,
    corners="the same as T.handle_add_byte_offset, but that a name for it has a type",
)
row(
    "isnullptr",
    (Param("ptr", _HANDLE),),
    AcceptedDTypes.EACH,
    _truth,
    "whether a pointer is null",
    family=FAMILY,
    corners="T.reinterpret of the int64 0 as a handle is null",
)


# -- caches ------------------------------------------------------------------------------------
def _void(args: Args) -> DataType:
    return VOID


def _make_kind(most: int) -> Kind:
    def fits(arg: PrimExpr) -> bool:
        return isinstance(arg, IntImm) and 0 <= arg.value <= most

    return Kind(f"a constant from 0 to {most}", fits)


row(
    "prefetch",
    (
        Param("address", _HANDLE),
        Param("rw", _make_kind(1)),
        Param("locality", _make_kind(3)),
        Param("cache", _make_kind(1)),
    ),
    AcceptedDTypes.EACH,
    _void,
    "a hint to load the cache line at an address into a cache",
    family=FAMILY,
    effect=Effect.OPAQUE,
    corners="the address is computed, and means nothing else; rw: to read (0) or to write (1); "
    "locality: from not again (0) to often (3); cache: of instructions (0) or of data (1)",
)


# -- parts of calls ----------------------------------------------------------------------------
def _int32(args: Args) -> DataType:
    return DataType("int32")


def _is_number(args: Args, result: DataType) -> str | None:
    return f"names a dtype of numbers, not {result}" if result.is_handle or result.is_void else None


TYPE_ANNOTATION: Final[Op] = row(
    "type_annotation",
    "",
    AcceptedDTypes.ANY,
    _int32,
    "a dtype as an argument",
    family=FAMILY,
    effect=Effect.SPECIAL_CALL_ARG,
    corners="only as an argument of T.ptr_byte_offset, T.tvm_access_ptr and T.dot_tiles",
    takes_dtype=True,
    inside=frozenset({"dot_tiles", "ptr_byte_offset", "tvm_access_ptr"}),
    check=_is_number,
)
TVM_ACCESS_PTR: Final = row(
    "tvm_access_ptr",
    (
        Param("ptype", _TYPE),
        Param("data", _HANDLE),
        Param("offset", _INTEGER),
        Param("extent", _INTEGER),
        Param("rw_mask", _INTEGER),
    ),
    AcceptedDTypes.EACH,
    _pointer,
    "a pointer to elements that a call reads (mask 1), writes (2) or both (3)",
    family=FAMILY,
    effect=Effect.SPECIAL_CALL_ARG,
    corners="an argument of other builtins only; extent and mask are never evaluated",
    inside=frozenset(
        {
            "call_extern",
            "call_llvm_intrin",
            "call_llvm_pure_intrin",
            "call_pure_extern",
            "dot_tiles",
            "handle_add_byte_offset",
            "isnullptr",
            "ptr_byte_offset",
            "tvm_call_cpacked",
            "tvm_call_packed",
        }
    ),
)
STACK_MAKE_SHAPE: Final = row(
    "tvm_stack_make_shape",
    "*extents",
    AcceptedDTypes.ANY,
    _pointer,
    "a shape for a call",
    family=FAMILY,
    effect=Effect.SPECIAL_CALL_ARG,
    corners="only as an argument of T.tvm_stack_make_array",
    inside=frozenset({"tvm_stack_make_array"}),
)
STACK_MAKE_ARRAY: Final = row(
    "tvm_stack_make_array",
    "data shape strides ndim element elem_offset",
    AcceptedDTypes.ANY,
    _pointer,
    "an array argument for a call: data, shape, strides, rank, an element, offset",
    family=FAMILY,
    effect=Effect.SPECIAL_CALL_ARG,
    corners="only as an argument of a function call; inserted by lowering",
    inside=frozenset({"tvm_call_packed", "tvm_call_cpacked"}),
)


def pointer_type(value: PrimExpr) -> PointerType | None:
    """Return the type of a pointer, None if it is unknown what lies there."""
    kind: PrimExpr | None = None
    while isinstance(value, Call):
        if value.op is ADDRESS_OF:
            element = value.args[0]
            assert isinstance(element, BufferLoad)
            value = element.buffer.data
            break
        if value.op is PTR_BYTE_OFFSET:
            kind = kind or value.args[2]
        elif value.op is not HANDLE_ADD_BYTE_OFFSET:
            break
        value = value.args[0]
    found = value.type_annotation if isinstance(value, Var) else None
    known = found if isinstance(found, PointerType) else None
    if kind is None:
        return known
    return PointerType(PrimType(kind.dtype), "global" if known is None else known.storage_scope)


def pointer_base(value: PrimExpr) -> Var | None:
    """Return the pointer from which an address was computed, None if that is not obvious."""
    while isinstance(value, Call):
        if value.op is ADDRESS_OF:
            element = value.args[0]
            return element.buffer.data if isinstance(element, BufferLoad) else None
        if value.op is TVM_ACCESS_PTR:
            value = value.args[1]
        elif value.op is PTR_BYTE_OFFSET or value.op is HANDLE_ADD_BYTE_OFFSET:
            value = value.args[0]
        else:
            return None
    return value if isinstance(value, Var) else None
