"""The table of TIR's builtins: effect, operands and result of each.

A row answers every question of a constructor; the parser, the printer, the interpreter and code
generation look operators up here. ``row`` defines the fields.
"""

from __future__ import annotations

from typing import Final

from loomir.tir.builtins import bits, control, hint, math, memory, tiles, vector, watch
from loomir.tir.builtins.control import (
    BREAK_LOOP,
    CHECK,
    CHECKED_INDEX,
    CONTINUE_LOOP,
    IF_THEN_ELSE,
    RET,
)
from loomir.tir.builtins.hint import ASSUME, LIKELY, UNDEF
from loomir.tir.builtins.memory import (
    ADDRESS_OF,
    HANDLE_ADD_BYTE_OFFSET,
    PTR_BYTE_OFFSET,
    STACK_MAKE_ARRAY,
    STACK_MAKE_SHAPE,
    TVM_ACCESS_PTR,
    TYPE_ANNOTATION,
    pointer_base,
    pointer_type,
)
from loomir.tir.builtins.row import BUILTINS, AcceptedDTypes, Builtin, call_builtin, effect_of
from loomir.tir.builtins.watch import (
    WATCH_ESCAPE,
    WATCH_ITERATION,
    WATCH_LOOP,
    WATCH_MEMORY,
    WATCH_READ,
    WATCH_START,
    WATCH_WRITE,
)

__all__ = [
    "ADDRESS_OF",
    "ASSUME",
    "BREAK_LOOP",
    "BUILTINS",
    "CHECK",
    "CHECKED_INDEX",
    "CONTINUE_LOOP",
    "FAMILIES",
    "HANDLE_ADD_BYTE_OFFSET",
    "IF_THEN_ELSE",
    "LIKELY",
    "PTR_BYTE_OFFSET",
    "RET",
    "STACK_MAKE_ARRAY",
    "STACK_MAKE_SHAPE",
    "TVM_ACCESS_PTR",
    "TYPE_ANNOTATION",
    "UNDEF",
    "WATCH_ESCAPE",
    "WATCH_ITERATION",
    "WATCH_LOOP",
    "WATCH_MEMORY",
    "WATCH_READ",
    "WATCH_START",
    "WATCH_WRITE",
    "AcceptedDTypes",
    "Builtin",
    "call_builtin",
    "effect_of",
    "pointer_base",
    "pointer_type",
]

FAMILIES: Final = tuple(
    module.FAMILY
    for module in (
        math,
        bits,
        vector,
        tiles,
        control,
        memory,
        hint,
        watch,
    )
)
"""The families, in the order of the reference."""
