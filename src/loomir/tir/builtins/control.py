"""Builtins that select, jump, or check."""

from __future__ import annotations

from typing import Final

from loomir.ir.op import Effect
from loomir.support.dtype import VOID, DataType
from loomir.tir.builtins.row import AcceptedDTypes, Args, read_first_dtype, row

__all__ = ["BREAK_LOOP", "CHECK", "CHECKED_INDEX", "CONTINUE_LOOP", "FAMILY", "IF_THEN_ELSE", "RET"]

FAMILY: Final = "choices and jumps"


def _second(args: Args) -> DataType:
    return args[1].dtype


def _nothing(args: Args) -> DataType:
    return VOID


IF_THEN_ELSE: Final = row(
    "if_then_else",
    "condition true_value false_value",
    AcceptedDTypes.CHOICE,
    _second,
    "the second value or the third; the other is not evaluated",
    family=FAMILY,
    corners="T.Select evaluates both, and chooses lane by lane",
)
RET: Final = row(
    "ret",
    "value",
    AcceptedDTypes.ANY,
    read_first_dtype,
    "return this value from the function",
    family=FAMILY,
    effect=Effect.CONTROL_JUMP,
    corners="not from within a parallel or vectorized loop",
)
BREAK_LOOP: Final = row(
    "break_loop",
    "",
    AcceptedDTypes.ANY,
    _nothing,
    "leave the innermost loop",
    family=FAMILY,
    effect=Effect.CONTROL_JUMP,
    corners="the same as break",
)
CONTINUE_LOOP: Final = row(
    "continue_loop",
    "",
    AcceptedDTypes.ANY,
    _nothing,
    "start the next iteration",
    family=FAMILY,
    effect=Effect.CONTROL_JUMP,
    corners="the same as continue",
)
CHECKED_INDEX: Final = row(
    "checked_index",
    "index extent buffer axis",
    AcceptedDTypes.ANY,
    read_first_dtype,
    "the index, or an error unless it is at least 0 and below the extent",
    family=FAMILY,
    effect=Effect.UPDATE_STATE,
    corners="the buffer's name and the axis are for the message; inserted by lowering",
)
CHECK: Final = row(
    "check",
    "condition fault buffer what *values",
    AcceptedDTypes.ANY,
    read_first_dtype,
    "the condition, or the error of a row of the fault table if it is false",
    family=FAMILY,
    effect=Effect.UPDATE_STATE,
    corners="the row's name, the buffer and its attribute are in the message; lowering adds it",
)
