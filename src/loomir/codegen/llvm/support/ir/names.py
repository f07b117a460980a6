"""The names of functions of the native run-time library that are asked for, and a limit of it."""

from __future__ import annotations

from typing import Final

__all__ = [
    "FAST_CALL",
    "GIVE_SCRATCH",
    "HAS_STACK",
    "MAX_THREADS",
    "MAY_LEAVE",
    "POLL",
    "TAKE_SCRATCH",
]

POLL: Final = "loomir_poll"
"""The function that compiled code calls to check for interrupts."""
HAS_STACK: Final = "loomir_has_stack"
MAY_LEAVE: Final = "loomir_may_leave"
TAKE_SCRATCH: Final = "loomir_take_scratch"
GIVE_SCRATCH: Final = "loomir_give_scratch"
FAST_CALL: Final = "loomir_fast_call"
MAX_THREADS: Final = 256
"""The most threads of the pool."""
