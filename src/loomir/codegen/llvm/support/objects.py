"""Load the functions on values of graphs (objects), once for the process."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from loomir.codegen.llvm.jit.engine import Library
from loomir.codegen.llvm.jit.object_store import load_own
from loomir.codegen.llvm.support.ir.names import FAST_CALL
from loomir.runtime.graph.fast_call import host_symbols
from loomir.support.fork_safe import ForkSafeLock, import_module

__all__ = ["count_objects", "fast_call_address", "live_objects", "object_symbols"]

_lock: Final = ForkSafeLock()
_loaded: Final[list[Library]] = []
_fast_calls: Final[list[int]] = []


def object_symbols() -> dict[str, int]:
    """Return the addresses of the functions on objects, for ``engine.load`` and for Python."""
    library = _objects()
    return {name: library.address(name) for name in library.symbols}


def count_objects(on: bool) -> None:
    """Start counting objects from 0, or stop; tests for leaks use it. Counting costs time."""
    symbol = _objects().address("loomir_count_objects")
    ctypes.CFUNCTYPE(None, ctypes.c_int32)(symbol)(int(on))


def live_objects() -> int:
    """Return how many objects were created and not freed since counting began."""
    return ctypes.CFUNCTYPE(ctypes.c_int64)(_objects().address("loomir_live_objects"))()


def fast_call_address() -> int:
    """Return the address of the fast entry into graphs; 0 if this process has none."""
    if not _fast_calls:
        symbols = host_symbols()
        own = object_symbols()
        with _lock:
            if not _fast_calls:
                known = (
                    None
                    if symbols is None
                    else _load("fast_call", "fast_call_module", {**symbols, **own})
                )
                _fast_calls.append(0 if known is None else known.address(FAST_CALL))
    return _fast_calls[0]


def _objects() -> Library:
    # Checked without the lock first: in a forked child, the lock's owner may be gone.
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_load("objects", "objects_module", {}))
    return _loaded[0]


def _load(module: str, function: str, symbols: dict[str, int]) -> Library:
    def text() -> str:
        # Imported only if the cache has no object, since it imports the assembler.
        made: Any = import_module(f"loomir.codegen.llvm.support.ir.{module}")
        return getattr(made, function)().render()

    library = load_own(module, text, symbols)
    # Never unloaded, since objects may be freed at the very end of the process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    return library
