"""Load the process services of ``ir.process`` for compiled code, on first use."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Final

from loomir.codegen.llvm.jit.engine import Library, TargetMachine
from loomir.codegen.llvm.jit.object_store import load_own
from loomir.codegen.llvm.support.ir.names import HAS_STACK, MAY_LEAVE, POLL
from loomir.runtime.interrupts import connect_interrupts
from loomir.support.fork_safe import ForkSafeLock, import_module

__all__ = ["process_symbols"]

_FUNCTIONS: Final = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyErr_CheckSignals",
    "PyErr_Fetch",
    "PyErr_NormalizeException",
    "PyException_SetTraceback",
    "Py_DecRef",
)
_lock: Final = ForkSafeLock()
_loaded: Final[list[Library]] = []


def process_symbols() -> dict[str, int]:
    """Return the addresses for ``engine.load``."""
    library = _library()
    return {name: library.address(name) for name in (POLL, HAS_STACK, MAY_LEAVE)}


def _library() -> Library:
    # Checked without the lock first: in a forked child, the lock's owner may be gone.
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_load())
    return _loaded[0]


def _text() -> str:
    # Imported only if the cache has no object: the generator is slow to import.
    made: Any = import_module("loomir.codegen.llvm.support.ir.process")
    host = TargetMachine.host()
    return made.process_ir(host.triple, xsave="+avx" in host.features.split(","))


def _load() -> Library:
    symbols: dict[str, int] = {}
    for name in _FUNCTIONS:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        assert address is not None
        symbols[name] = address
    library = load_own("process", _text, symbols)
    # Never unloaded, since other code that is never unloaded calls it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    take = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(library.address("loomir_take_raised"))
    set_main = ctypes.CFUNCTYPE(None, ctypes.c_int64)(library.address("loomir_set_main"))

    def name_main() -> None:
        set_main(threading.main_thread().ident or 0)

    name_main()
    # The forking thread becomes the child's main thread.
    os.register_at_fork(after_in_child=name_main)

    def take_exception(root: int) -> BaseException | None:
        address = take(root)
        if not address:
            return None
        error_object = ctypes.cast(address, ctypes.py_object)
        error = error_object.value
        ctypes.pythonapi.Py_DecRef(error_object)
        return error if isinstance(error, BaseException) else None

    connect_interrupts(take_exception)
    return library
