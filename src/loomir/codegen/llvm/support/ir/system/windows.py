"""Threads, sleep and clocks of Windows: slim locks and condition variables."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Module
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, VOID
from loomir.codegen.llvm.assembler.values import NULL, Value, const, zero
from loomir.codegen.llvm.support.ir.system.interface import LockedQueue, System, WaitQueue

__all__ = ["WindowsSystem"]

_FOREVER: Final = -1
_ALL_GROUPS: Final = 0xFFFF
_SECOND: Final = 1_000_000_000
_MILLISECOND: Final = 1_000_000


class _SlimQueue(LockedQueue):
    """A slim lock and a condition variable; both begin as zero."""

    def __init__(self, module: Module, name: str, word: Value) -> None:
        super().__init__(module, word)
        self.slim_lock = module.define_global(f"{name}.lock", zero(PTR), align=64)
        self.condition = module.define_global(f"{name}.condition", zero(PTR), align=64)

    def prepare(self, b: Builder) -> None:
        """Make the queue empty; no other thread uses it."""
        for it in (self.slim_lock, self.condition):
            b.store(NULL, it)

    def lock(self, b: Builder) -> None:
        """Take the lock."""
        self._call(b, "AcquireSRWLockExclusive", self.slim_lock)

    def unlock(self, b: Builder) -> None:
        """Release the lock."""
        self._call(b, "ReleaseSRWLockExclusive", self.slim_lock)

    def sleep(self, b: Builder, nanoseconds: int | None) -> None:
        """Release the lock and sleep, until woken or the time is up; then take the lock."""
        time = _FOREVER if nanoseconds is None else -(-nanoseconds // _MILLISECOND)
        rest = self.module.declare("SleepConditionVariableSRW", I32, [PTR, PTR, I32, I32])
        b.call(rest, [self.condition, self.slim_lock, const(I32, time), const(I32, 0)])

    def wake_all(self, b: Builder) -> None:
        """Wake all threads that sleep."""
        self._call(b, "WakeAllConditionVariable", self.condition)

    def _call(self, b: Builder, name: str, it: Value) -> None:
        b.call(self.module.declare(name, VOID, [PTR]), [it])


class WindowsSystem(System):
    """Windows."""

    def wait_queue(self, name: str, word: Value) -> WaitQueue:
        """Define a queue of threads that wait for a word."""
        return _SlimQueue(self.module, name, word)

    def now(self, b: Builder) -> Value:
        """Return the nanoseconds of the performance counter, an ``i64``."""
        ticks, rate = b.alloca(I64), b.alloca(I64)
        b.call(self.module.declare("QueryPerformanceCounter", I32, [PTR]), [ticks])
        b.call(self.module.declare("QueryPerformanceFrequency", I32, [PTR]), [rate])
        count, each = b.load(I64, ticks), b.load(I64, rate)
        # Whole seconds come first, since the product of all ticks would not fit 64 bits.
        seconds = b.mul(b.udiv(count, each), const(I64, _SECOND))
        return b.add(seconds, b.udiv(b.mul(b.urem(count, each), const(I64, _SECOND)), each))

    def count_cpus(self, b: Builder) -> Value:
        """Return how many CPUs are in use, an ``i32``."""
        ask = self.module.declare("GetActiveProcessorCount", I32, [I32])
        return b.call(ask, [const(I32, _ALL_GROUPS)])

    def create_thread(self, b: Builder, place: Value, body: Callee, argument: Value) -> Value:
        """Start a thread, and store its handle; return an ``i32``, 0 if it was started."""
        create = self.module.declare("CreateThread", PTR, [PTR, I64, PTR, PTR, I32, PTR])
        default = [const(I64, 0), const(I32, 0)]
        handle = b.call(create, [NULL, default[0], body, argument, default[1], NULL])
        b.store(b.ptrtoint(handle, I64), place)
        return b.zext(b.icmp("eq", handle, NULL), I32)

    def join_thread(self, b: Builder, thread: Value) -> None:
        """Wait until a thread has ended, and close its handle."""
        handle = b.inttoptr(thread, PTR)
        wait = self.module.declare("WaitForSingleObject", I32, [PTR, I32])
        b.call(wait, [handle, const(I32, _FOREVER)])
        b.call(self.module.declare("CloseHandle", I32, [PTR]), [handle])
