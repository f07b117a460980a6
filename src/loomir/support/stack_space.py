"""Run deeply recursive work with enough stack, in a new thread if the caller has too little.

Python's parser and LLVM recurse over the nesting of a program, and end the process on a stack
overflow. Servers and operating systems often create threads with small stacks. Work that runs here
must not inspect the frames of its callers.
"""

from __future__ import annotations

import contextvars
import ctypes
import platform
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

__all__ = ["call_with_stack"]

_T = TypeVar("_T")

_ENOUGH: Final = 4 << 20
_SIZES: Final = (64 << 20, 8 << 20)
"""Sizes of the stack of a new thread; the second is used if the system refuses the first."""
_ATTRIBUTES: Final = 128
"""Bytes for the C library's attributes of a thread, with a margin."""
_REGISTERS: Final = 2048
_STACK_POINTER: Final = {"x86_64": 160, "aarch64": 432}
"""The offset of the stack pointer in the structure that glibc's ``getcontext`` writes."""


class _Stack(NamedTuple):
    """The bounds of a thread's stack; that of the main thread grows on use."""

    low: int
    top: int
    grows: bool


if sys.platform == "linux":
    import resource

_own: Final = threading.local()
_library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
_START: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def call_with_stack(function: Callable[..., _T], *args: Any) -> _T:
    """Call a function with at least some megabytes of stack."""
    if _library is None or _measure_left() >= _ENOUGH:
        return function(*args)
    return _run_in_thread(function, args)


def _measure_left() -> int:
    """Measure how much of the stack is left; if that is unknown, assume that it is enough."""
    stack = getattr(_own, "stack", None)
    if stack is None:
        stack = _own.stack = _measure_stack()
    if stack is None:
        return _ENOUGH
    low = stack.low
    if stack.grows:
        limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
        if limit != resource.RLIM_INFINITY:
            low = max(low, stack.top - limit)
    return (_stack_pointer() or stack.top) - low


def _measure_stack() -> _Stack | None:
    attributes = (ctypes.c_char * _ATTRIBUTES)()
    low, size, guard = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
    try:
        own = ctypes.c_size_t(threading.get_ident())
        if _library.pthread_getattr_np(own, attributes):
            return None
        _library.pthread_attr_getstack(attributes, ctypes.byref(low), ctypes.byref(size))
        _library.pthread_attr_getguardsize(attributes, ctypes.byref(guard))
        _library.pthread_attr_destroy(attributes)
    except AttributeError:
        return None
    is_first = threading.get_native_id() == _library.getpid()
    return _Stack(low.value + guard.value, low.value + size.value, is_first)


def _stack_pointer() -> int:
    """Return the stack pointer, or 0 if it is unknown."""
    place = _STACK_POINTER.get(platform.machine())
    ask = getattr(_library, "getcontext", None)
    if place is None or ask is None:
        return 0
    registers = (ctypes.c_char * _REGISTERS)()
    ask(registers)
    return int.from_bytes(registers.raw[place : place + 8], sys.byteorder)


def _run_in_thread(function: Callable[..., _T], args: tuple[Any, ...]) -> _T:
    """Call a function in a new thread, and wait for it."""
    found: list[_T] = []
    failed: list[BaseException] = []
    ended = threading.Lock()
    ended.acquire()
    context = contextvars.copy_context()

    def run(_: object) -> None:
        try:
            found.append(context.run(function, *args))
        except BaseException as error:  # noqa: BLE001  # it is raised again by who waits
            failed.append(error)
        finally:
            ended.release()

    start = _START(run)
    thread = _start_thread(start)
    if thread is None:
        return function(*args)
    try:
        with ended:
            pass
    except BaseException:
        # This thread was interrupted; the other one still runs `start`, which must stay alive.
        _endless.append(start)
        _library.pthread_detach(thread)
        raise
    _library.pthread_join(thread, None)
    if failed:
        raise failed[0]
    return found[0]


_endless: Final[list[Any]] = []


def _start_thread(start: Any) -> ctypes.c_size_t | None:
    """Start a thread with the largest stack that the system grants."""
    for size in _SIZES:
        attributes = (ctypes.c_char * _ATTRIBUTES)()
        thread = ctypes.c_size_t()
        _library.pthread_attr_init(attributes)
        _library.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size))
        failed = _library.pthread_create(ctypes.byref(thread), attributes, start, None)
        _library.pthread_attr_destroy(attributes)
        if not failed:
            return thread
    return None


if _library is not None:
    _measure_left()  # looks symbols up now, so that parsing a program triggers no audit event
