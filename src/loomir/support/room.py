"""Work that takes much of the stack, in a thread of its own where the caller's has too little.

Python's parser and LLVM call themselves for each level of a program, and end the process where the
stack does. Threads are made with small stacks by servers and by systems. What runs here must not
look at the frames of those who called it.
"""

from __future__ import annotations

import contextvars
import ctypes
import platform
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

__all__ = ["with_room"]

_T = TypeVar("_T")

_ENOUGH: Final = 4 << 20
_SIZES: Final = (64 << 20, 8 << 20)
"""Of the stack of a thread that is made, the second where memory for the first is refused."""
_ATTRIBUTES: Final = 128
"""Bytes of what the C library describes a thread by, and more."""
_REGISTERS: Final = 2048
_STACK_POINTER: Final = {"x86_64": 160, "aarch64": 432}
"""Where it is in what ``getcontext`` of the GNU C library writes."""


class _Stack(NamedTuple):
    """Where a thread's stack begins and ends; that of the first thread grows as it is used."""

    low: int
    top: int
    grows: bool


if sys.platform == "linux":
    import resource

_own: Final = threading.local()
_library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
_START: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def with_room(function: Callable[..., _T], *args: Any) -> _T:
    """Call a function where there are some megabytes of the stack."""
    if _library is None or _left() >= _ENOUGH:
        return function(*args)
    return _elsewhere(function, args)


def _left() -> int:
    """Measure how much of the stack is left; no less than enough where that is not known."""
    stack = getattr(_own, "stack", None)
    if stack is None:
        stack = _own.stack = _measured()
    if stack is None:
        return _ENOUGH
    low = stack.low
    if stack.grows:
        limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
        if limit != resource.RLIM_INFINITY:
            low = max(low, stack.top - limit)
    return (_here() or stack.top) - low


def _measured() -> _Stack | None:
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


def _here() -> int:
    """Return where the stack is by now, or 0 where nothing tells."""
    place = _STACK_POINTER.get(platform.machine())
    ask = getattr(_library, "getcontext", None)
    if place is None or ask is None:
        return 0
    registers = (ctypes.c_char * _REGISTERS)()
    ask(registers)
    return int.from_bytes(registers.raw[place : place + 8], sys.byteorder)


def _elsewhere(function: Callable[..., _T], args: tuple[Any, ...]) -> _T:
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
    thread = _started(start)
    if thread is None:
        return function(*args)
    try:
        with ended:
            pass
    except BaseException:
        # Interrupted while the other thread goes on, which returns to this some time.
        _endless.append(start)
        _library.pthread_detach(thread)
        raise
    _library.pthread_join(thread, None)
    if failed:
        raise failed[0]
    return found[0]


_endless: Final[list[Any]] = []


def _started(start: Any) -> ctypes.c_size_t | None:
    """Make a thread, of the first size that is granted."""
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
    _left()  # looks symbols up now, so that reading a program makes no event that auditors hear
