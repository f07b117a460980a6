"""Load the array checks that generated code calls, once for the process."""

from __future__ import annotations

from typing import Any, Final

from loomir.codegen.llvm.jit.engine import Library
from loomir.codegen.llvm.jit.object_store import load_own
from loomir.runtime.ffi import native_symbols
from loomir.support.fork_safe import ForkSafeLock, import_module

__all__ = ["check_symbols"]

_lock: Final = ForkSafeLock()
_loaded: Final[list[Library]] = []


def check_symbols() -> dict[str, int]:
    """Return the addresses of the functions that check arguments, for ``engine.load``."""
    # Checked without the lock first: in a forked child, the lock's owner may be gone.
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(load_own("checks", _text, native_symbols()))
    return {name: _loaded[0].address(name) for name in _loaded[0].symbols}


def _text() -> str:
    # Imported only if the cache has no object: the generator is slow to import.
    made: Any = import_module("loomir.codegen.llvm.support.ir.checks")
    return made.checks_ir()
