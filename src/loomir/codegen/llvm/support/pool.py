"""The thread pool of parallel loops: one for the process, created on first use.

``pool_symbols`` returns the addresses against which kernels are linked:

- ``i32 loomir_parallel_for(ptr fn, ptr closure, ptr ctx, i64 begin, i64 end)`` splits the range
  into contiguous shares and runs ``fn`` (``i32 (ptr ctx, ptr closure, i64 begin, i64 end)``) on
  each, with a copy of the record at ``ctx`` for every share. If shares fault (return nonzero), the
  caller gets the record and the code of the lowest of them, as in a serial run.
- ``i32 loomir_set_threads(i32)`` limits the threads, 0 removes the limit; it returns the old one.
- ``i32 loomir_get_threads()`` returns the limit; if there is none, LOOMIR_NUM_THREADS, else
  OMP_NUM_THREADS, else the cores that the process may use and its quota pays for.
- ``loomir_take_scratch`` and ``loomir_give_scratch`` keep the memory of kernels between runs.

A forked child creates its own threads on first use. Threads end before Python does.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from loomir.codegen.llvm.jit.engine import Library, TargetMachine
from loomir.codegen.llvm.jit.object_store import load_own
from loomir.codegen.llvm.support.ir.names import GIVE_SCRATCH, MAX_THREADS, TAKE_SCRATCH
from loomir.codegen.llvm.support.process import process_symbols
from loomir.runtime.packed.externs import address_in_process
from loomir.support.diagnostics import InternalError
from loomir.support.fork_safe import ForkSafeLock, import_module
from loomir.target.cpus import cpu_quota, usable_cpus

__all__ = [
    "ForkJoin",
    "cap_threads",
    "is_portable",
    "measure_fork_join",
    "pool_symbols",
    "worker_count",
]

_EXPORTS: Final = (
    "loomir_parallel_for",
    "loomir_set_threads",
    "loomir_get_threads",
    TAKE_SCRATCH,
    GIVE_SCRATCH,
)
_lock: Final = ForkSafeLock()


class ForkJoin(NamedTuple):
    """The time of an empty parallel region, in nanoseconds."""

    threads: int
    median: float
    p99: float


def pool_symbols() -> dict[str, int]:
    """Return the addresses of the pool's functions, for ``engine.load``."""
    library = _pool()
    return {name: library.address(name) for name in _EXPORTS}


def worker_count() -> int:
    """Return how many threads the pool has created in this process."""
    return ctypes.CFUNCTYPE(ctypes.c_int32)(_pool().address("loomir_pool_workers"))()


@contextmanager
def cap_threads(most: int) -> Generator[None, None, None]:
    """Limit the threads of parallel loops in the body of ``with``.

    There is one cap for the process: if several threads set one at a time, the least counts.
    """
    setter = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(_pool().address("loomir_set_threads"))
    getter = ctypes.CFUNCTYPE(ctypes.c_int32)(_pool().address("loomir_get_threads"))
    with _caps_lock:
        if _owner != [os.getpid()]:  # in a forked child, the other callers do not exist
            _owner[:] = [os.getpid()]
            _caps.clear()
        if not _caps:
            _before[:] = [getter()]
        _caps.append(most)
        setter(min(_caps + _before))
    try:
        yield
    finally:
        with _caps_lock:
            if most in _caps:
                _caps.remove(most)
                setter(min(_caps + _before))


_caps: Final[list[int]] = []
_before: Final[list[int]] = []
_owner: Final[list[int]] = []
_caps_lock: Final = ForkSafeLock()


def measure_fork_join(rounds: int = 20_000) -> ForkJoin:
    """Time empty regions one by one in generated code, after warming up.

    The result includes reading the clock, some 20 to 50 ns.
    """
    measure = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(
        _pool().address("loomir_pool_measure")
    )
    samples = (ctypes.c_int64 * rounds)()
    for _ in range(2):
        measure(rounds, ctypes.addressof(samples))
    ordered = sorted(samples)
    threads = ctypes.CFUNCTYPE(ctypes.c_int32)(_pool().address("loomir_get_threads"))()
    return ForkJoin(threads, ordered[rounds // 2], ordered[rounds * 99 // 100])


_loaded: Final[list[Library]] = []


def _pool() -> Library:
    # Checked without the lock first: in a forked child, the lock's owner may be gone.
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_load())
    return _loaded[0]


def _load() -> Library:
    name = "portable pool" if is_portable() else "pool"
    library = load_own(name, _text, process_symbols())
    # Never unloaded, since threads run this code until the process ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    set_quota = ctypes.CFUNCTYPE(None, ctypes.c_int32)(library.address("loomir_pool_set_quota"))
    # POSIX counts the CPUs of the machine, Python those that the process may use.
    limit = usable_cpus() if is_portable() else cpu_quota() or -1
    set_quota(min(limit, MAX_THREADS))
    _register_after_fork(library.address("loomir_pool_after_fork"))
    atexit.register(ctypes.CFUNCTYPE(ctypes.c_int32)(library.address("loomir_pool_stop")))
    return library


def _text() -> str:
    # Imported only if the cache has no object, since it imports the assembler.
    pool_ir: Any = import_module("loomir.codegen.llvm.support.ir.pool")
    triple = TargetMachine.host().triple
    return pool_ir.pool_module(triple, portable=is_portable()).render()


def is_portable() -> bool:
    """Whether the pool uses no system call of Linux: elsewhere, or if LOOMIR_PORTABLE is 1."""
    return sys.platform != "linux" or os.environ.get("LOOMIR_PORTABLE", "") not in ("", "0")


def _register_after_fork(handler: int) -> None:
    if not hasattr(os, "fork"):
        return
    # In glibc, `pthread_atfork` is only in the static part; it calls a function of the shared one.
    plain, inner = address_in_process("pthread_atfork"), address_in_process("__register_atfork")
    kinds = [ctypes.c_void_p] * 4
    if inner:
        failed = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(inner)(None, None, handler, None)
    elif plain:
        failed = ctypes.CFUNCTYPE(ctypes.c_int, *kinds[:3])(plain)(None, None, handler)
    else:
        raise InternalError("the C library has no pthread_atfork")
    if failed:
        raise InternalError(f"pthread_atfork failed with {failed}")
