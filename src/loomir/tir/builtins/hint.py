"""Builtins that only inform the compiler.

Those of ``EXPR_ANNOTATION`` are equal to their argument. Those of ``EMBED_INFO`` have no value, and
their arguments are never evaluated.
"""

from __future__ import annotations

import math
from typing import Final

from loomir.ir.op import Effect
from loomir.support.dtype import VOID, DataType
from loomir.tir.builtins.row import AcceptedDTypes, Args, read_first_dtype, row

__all__ = ["ASSUME", "FAMILY", "LIKELY", "UNDEF", "choose_undefined_value"]

FAMILY: Final = "hints"


def _nothing(args: Args) -> DataType:
    return VOID


LIKELY: Final = row(
    "likely",
    "x",
    AcceptedDTypes.ANY,
    read_first_dtype,
    "x, expected to hold",
    family=FAMILY,
    effect=Effect.EXPR_ANNOTATION,
    corners="the value is x, even if the hint is wrong",
)
row(
    "ignore_loop_partition",
    "predicate",
    AcceptedDTypes.ANY,
    read_first_dtype,
    "the predicate, for which no loop is partitioned",
    family=FAMILY,
    effect=Effect.EXPR_ANNOTATION,
    corners="the value is the predicate",
)
ASSUME: Final = row(
    "assume",
    "condition",
    AcceptedDTypes.TRUTH,
    _nothing,
    "a statement that the condition holds here, guaranteed by the author",
    family=FAMILY,
    effect=Effect.EMBED_INFO,
    corners="the condition is never evaluated, so that it neither fails nor costs time",
)
row(
    "tvm_tuple",
    "*values",
    AcceptedDTypes.ANY,
    _nothing,
    "several values as one, only for the value of T.attr",
    family=FAMILY,
    effect=Effect.EMBED_INFO,
    corners="the values are never evaluated",
)


def _is_number(args: Args, result: DataType) -> str | None:
    if result.is_handle or result.is_void:
        return f"gives numbers, not {result}"
    return None


def _int32(args: Args) -> DataType:
    return DataType("int32")


UNDEF: Final = row(
    "undef",
    "",
    AcceptedDTypes.ANY,
    _int32,
    "an undefined value",
    family=FAMILY,
    effect=Effect.READ_STATE,
    corners="in this version NaN, or bytes of 0xCD, or true; the dtype is int32 if left out",
    takes_dtype=True,
    check=_is_number,
)


def choose_undefined_value(dtype: DataType) -> int | float:
    """Return the value of ``T.undef`` in each lane of a dtype; new memory contains it too."""
    if dtype.is_float:
        return math.nan
    if dtype.is_bool:
        return 1
    return int.from_bytes(b"\xcd" * (dtype.bits // 8), "little", signed=dtype.is_int)
