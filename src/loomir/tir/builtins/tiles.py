"""Builtins on tiles of matrices."""

from __future__ import annotations

from typing import Final

from loomir.ir.op import Effect, Op
from loomir.support.dtype import BOOL, VOID, DataType
from loomir.tir.builtins.memory import TYPE_ANNOTATION
from loomir.tir.builtins.row import AcceptedDTypes, Args, Kind, Param, row
from loomir.tir.expr import Call, IntImm, PrimExpr

__all__ = ["DOT_TILES", "FAMILY", "TILE", "TILE_BYTES", "sum_dtype"]

FAMILY: Final = "tiles of matrices"

TILE: Final = 16
"""The number of rows of a tile, and of sums in each of its rows."""

TILE_BYTES: Final = 64
"""The bytes of a row of a tile."""

_INT8: Final = DataType("int8")
_UINT8: Final = DataType("uint8")
_BFLOAT16: Final = DataType("bfloat16")


def sum_dtype(left: DataType, right: DataType) -> DataType | None:
    """Return the dtype of sums of products, None if tiles cannot hold such factors."""
    if left in (_INT8, _UINT8) and right in (_INT8, _UINT8):
        return DataType("int32")
    return DataType("float32") if left is right is _BFLOAT16 else None


def _is_handle(arg: PrimExpr) -> bool:
    return arg.dtype.is_handle


def _is_integer(arg: PrimExpr) -> bool:
    return arg.dtype.is_integer and arg.dtype.lanes == 1


def _is_size(arg: PrimExpr) -> bool:
    return isinstance(arg, IntImm) and arg.value in (TILE, 2 * TILE)


def _is_flag(arg: PrimExpr) -> bool:
    return isinstance(arg, IntImm) and arg.dtype is BOOL


def _is_annotation(arg: PrimExpr) -> bool:
    return isinstance(arg, Call) and arg.op is TYPE_ANNOTATION


def _nothing(args: Args) -> DataType:
    return VOID


def _factors_fit(args: Args, result: DataType) -> str | None:
    left, right = args[6].dtype, args[7].dtype
    if sum_dtype(left, right) is None:
        return f"takes factors of int8 and uint8, or of bfloat16, not {left} and {right}"
    return None


_POINTER: Final = Kind("a pointer", _is_handle)
_SIZE: Final = Kind("the constant 16 or 32", _is_size)
_TYPE: Final = Kind("T.type_annotation(dtype)", _is_annotation)

DOT_TILES: Final[Op] = row(
    "dot_tiles",
    (
        Param("sums", _POINTER),
        Param("left", _POINTER),
        Param("right", _POINTER),
        Param("steps", Kind("an integer", _is_integer)),
        Param("rows", _SIZE),
        Param("columns", _SIZE),
        Param("left_dtype", _TYPE),
        Param("right_dtype", _TYPE),
        Param("fresh", Kind("a constant bool", _is_flag)),
    ),
    AcceptedDTypes.EACH,
    _nothing,
    "to rows x columns sums, int32 or float32, add the products of left and right; where fresh, "
    "the sums start from 0",
    family=FAMILY,
    effect=Effect.UPDATE_STATE,
    corners="each step of left is rows of 64 bytes, each step of right 16 rows of 4 bytes for each "
    "column, which go with the next 4 bytes of left; bytes: exact, and wraps; bfloat16: in each "
    "step, first and second of each pair are added up by fma from 0 on, in order, then both sums, "
    "then that is added; subnormals are zeros of their sign, before and after each operation",
    check=_factors_fit,
)
