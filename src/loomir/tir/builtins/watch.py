"""Builtins of instrumented programs, which watch their own memory; lowering inserts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loomir.ir.op import Effect, Op
from loomir.support.dtype import HANDLE, VOID, DataType
from loomir.tir.builtins.row import AcceptedDTypes, Args, read_first_dtype, row

__all__ = [
    "FAMILY",
    "WATCH_ESCAPE",
    "WATCH_ITERATION",
    "WATCH_LOOP",
    "WATCH_MEMORY",
    "WATCH_READ",
    "WATCH_START",
    "WATCH_WRITE",
]

FAMILY: Final = "watching memory"


def _pointer(args: Args) -> DataType:
    return HANDLE


def _nothing(args: Args) -> DataType:
    return VOID


def _row(name: str, params: str, result_dtype: Callable[[Args], DataType], summary: str) -> Op:
    return row(
        name,
        params,
        AcceptedDTypes.ANY,
        result_dtype,
        summary,
        family=FAMILY,
        effect=Effect.UPDATE_STATE,
        corners="inserted by lowering",
    )


WATCH_START: Final = _row(
    "watch_start", "words", _pointer, "the given words, initialised to count iterations"
)
WATCH_LOOP: Final = _row(
    "watch_loop", "words around", _pointer, "the given words, initialised to describe a loop"
)
WATCH_ITERATION: Final = _row(
    "watch_iteration", "loop number", _nothing, "begin an iteration of a loop"
)
WATCH_MEMORY: Final = _row(
    "watch_memory",
    "words data start bytes granule stamps marks",
    _pointer,
    "the given words, initialised to describe memory: data, start, bytes, granule, stamps, marks",
)
WATCH_ESCAPE: Final = _row(
    "watch_escape", "memory", read_first_dtype, "marks memory that may now be written unwatched"
)
WATCH_READ: Final = _row(
    "watch_read",
    "value memory loop buffer *indices",
    read_first_dtype,
    "a load's value, or an error: its memory, enclosing loop, buffer, indices",
)
WATCH_WRITE: Final = _row(
    "watch_write",
    "element memory loop buffer *indices",
    _nothing,
    "checks a store, or raises an error",
)
