"""Run LLVM only with enough memory and stack, since it ends the process if it runs out of them."""

from __future__ import annotations

import functools
import mmap
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from loomir.runtime.errors import RunMemoryError
from loomir.support.diagnostics import Diagnostic
from loomir.support.stack_space import call_with_stack

__all__ = ["with_memory_and_stack"]

_Called = TypeVar("_Called", bound=Callable[..., Any])


def with_memory_and_stack(function: _Called) -> _Called:
    """Wrap a function of code, so that LLVM has enough memory and stack for that code.

    Errors: RUN0207.
    """

    @functools.wraps(function)
    def call(code: Any, *args: Any, **kwargs: Any) -> Any:
        size = len(code) if isinstance(code, (str, bytes)) else sum(map(len, code))
        _need_memory(_LEAST + _EACH * size)
        return call_with_stack(functools.partial(function, code, *args, **kwargs))

    return cast("_Called", call)


_LEAST: Final = 4 << 20
"""Bytes of memory that LLVM needs for the smallest module, rounded up."""
_EACH: Final = 16
"""The most bytes of memory that LLVM needs for a byte of code; 2 to 5 were measured for IR."""


def _need_memory(size: int) -> None:
    """Check that the system grants so much memory: LLVM aborts the process if it does not."""
    try:
        mmap.mmap(-1, size).close()
    except (OSError, MemoryError):
        raise RunMemoryError(
            Diagnostic(
                "RUN0207",
                f"compiling may need {size} bytes of memory, which the system refuses",
                help="free memory, or allow the process more",
            )
        ) from None
