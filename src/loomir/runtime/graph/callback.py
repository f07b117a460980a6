"""Call Python from compiled graphs, through one C function that takes the GIL.

Compiled graphs call ``i32 loomir_call_object(token, function, args, count, result)``. The token
identifies the enclosing call from Python, whose object handles the callback. The result is 0, or
``STATUS_RAISED`` if Python raised an exception, which that object keeps.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Final, Protocol

from loomir.runtime.graph.object_layout import STATUS_RAISED
from loomir.runtime.packed.callback import is_deep

__all__ = ["Caller", "begin", "end", "graph_symbols"]


class Caller(Protocol):
    """A running call of a compiled graph."""

    error: BaseException | None

    def answer(self, function: int, args: int, count: int) -> int:
        """Call a function object; return its result, an owned reference."""
        ...


_tokens: Final = itertools.count(1)
_active: Final[dict[int, Caller]] = {}
_VOID: Final = ctypes.c_void_p
_PROTOTYPE: Final = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, _VOID, _VOID, ctypes.c_int64, _VOID
)


def begin(caller: Caller) -> int:
    """Register a call, and return its token."""
    token = next(_tokens)
    _active[token] = caller
    return token


def end(token: int) -> None:
    """Forget a call that has ended."""
    _active.pop(token, None)


def _answer(token: int, function: int, args: int, count: int, result: int) -> int:
    caller = None
    try:
        if is_deep():
            return STATUS_RAISED
        caller = _active[token]
        made = caller.answer(function, args or 0, count)
        ctypes.c_int64.from_address(result).value = made
    except BaseException as error:  # noqa: BLE001  # it is raised again where compiled code ends
        if caller is not None:
            caller.error = error
        return STATUS_RAISED
    return 0


_callback: Final = _PROTOTYPE(_answer)


def graph_symbols() -> dict[str, int]:
    """Return the address of the C function that compiled graphs call."""
    address = ctypes.cast(_callback, ctypes.c_void_p).value
    assert address is not None
    return {"loomir_call_object": address}
