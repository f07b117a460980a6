"""Load the functions on values of graphs (objects), once for the process."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from loomir.codegen.llvm.jit.engine import Library
from loomir.codegen.llvm.jit.object_store import load_own
from loomir.codegen.llvm.support.ir.names import DOOR
from loomir.runtime.graph.fast_call import host_symbols
from loomir.support.fork_safe import ForkSafeLock, import_module

__all__ = ["count_objects", "door_address", "live_objects", "object_symbols"]

_lock: Final = ForkSafeLock()
_loaded: Final[list[Library]] = []
_doors: Final[list[int]] = []


def object_symbols() -> dict[str, int]:
    """Return the addresses of the functions on objects, for ``engine.load`` and for Python."""
    library = _objects()
    return {name: library.address(name) for name in library.symbols}


def count_objects(on: bool) -> None:
    """Count objects from 0 on, or no more. A test of leaks wants that; it takes some time."""
    symbol = _objects().address("loomir_count_objects")
    ctypes.CFUNCTYPE(None, ctypes.c_int32)(symbol)(int(on))


def live_objects() -> int:
    """Return how many objects were made and not freed since counting began."""
    return ctypes.CFUNCTYPE(ctypes.c_int64)(_objects().address("loomir_live_objects"))()


def door_address() -> int:
    """Return the address of the quick way into graphs; 0 where this process has none."""
    if not _doors:
        symbols = host_symbols()
        own = object_symbols()
        with _lock:
            if not _doors:
                known = (
                    None
                    if symbols is None
                    else _load("fast_call", "door_module", {**symbols, **own})
                )
                _doors.append(0 if known is None else known.address(DOOR))
    return _doors[0]


def _objects() -> Library:
    # Looked at without the lock, which may have no owner any more in a forked child.
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_load("objects", "objects_module", {}))
    return _loaded[0]


def _load(module: str, function: str, symbols: dict[str, int]) -> Library:
    def text() -> str:
        # Loaded where nobody has compiled it before: with it comes the assembler.
        made: Any = import_module(f"loomir.codegen.llvm.support.ir.{module}")
        return getattr(made, function)().render()

    library = load_own(module, text, symbols)
    # Objects may be freed as the very last thing that the process does: never unload it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    return library
