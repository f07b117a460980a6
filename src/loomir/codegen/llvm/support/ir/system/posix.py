"""Threads, sleep and clocks by POSIX only: any Unix, such as macOS.

A queue is a mutex and a condition variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Module
from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR, array, vector
from loomir.codegen.llvm.assembler.values import NULL, Value, const, zero
from loomir.codegen.llvm.support.ir.system.interface import LockedQueue, System, WaitQueue

__all__ = ["NUMBERS", "Numbers", "PosixSystem", "read_clock", "write_deadline"]

_STACK: Final = 8 << 20
"""Bytes of a worker's stack: macOS gives 512 KB, in which large kernels have no room."""
_ROOM: Final = 128
"""Bytes for a mutex, a condition variable or attributes; the largest known has 64."""
_WALL_CLOCK: Final = 0
"""CLOCK_REALTIME, by which condition variables count on every system."""
_FAULTS: Final = (4, 5, 6, 8, 11)
"""The signals that faults of a thread itself raise: SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGSEGV."""


class Numbers(NamedTuple):
    """Numbers that systems define as they like."""

    monotonic: int
    """CLOCK_MONOTONIC."""
    set_mask: int
    """SIG_SETMASK."""
    bus_error: int
    """SIGBUS."""
    processors: int
    """_SC_NPROCESSORS_ONLN."""


NUMBERS: Final[Mapping[str, Numbers]] = {
    "linux": Numbers(1, 2, 7, 84),
    "darwin": Numbers(6, 3, 10, 58),
    "freebsd": Numbers(4, 3, 10, 58),
}
"""From the headers of each system, by its name."""


def read_clock(b: Builder, module: Module, clock: int) -> Value:
    """Return the nanoseconds of a clock, an ``i64``."""
    time = b.alloca(I64, 2)
    b.call(module.declare("clock_gettime", I32, [I32, PTR]), [const(I32, clock), time])
    seconds = b.mul(b.load(I64, time), const(I64, 1_000_000_000))
    return b.add(seconds, b.load(I64, b.gep(I64, time, const(I64, 1))))


def write_deadline(b: Builder, module: Module, clock: int, nanoseconds: int) -> Value:
    """Write when so much time will have passed by a clock, and return the address."""
    until = b.alloca(I64, 2)
    second = const(I64, 1_000_000_000)
    then = b.add(read_clock(b, module, clock), const(I64, nanoseconds))
    b.store(b.udiv(then, second), until)
    b.store(b.urem(then, second), b.gep(I64, until, const(I64, 1)))
    return until


def _call(b: Builder, name: str, *given: Value) -> None:
    b.call(b.module.declare(name, I32, [PTR] * len(given)), given)


class _ConditionQueue(LockedQueue):
    """A mutex and a condition variable."""

    def __init__(self, module: Module, name: str, word: Value) -> None:
        super().__init__(module, word)
        room = array(I8, _ROOM)
        self.mutex = module.define_global(f"{name}.mutex", zero(room), align=64)
        self.condition = module.define_global(f"{name}.condition", zero(room), align=64)

    def prepare(self, b: Builder) -> None:
        """Make the queue empty, whatever it was; no other thread uses it."""
        _call(b, "pthread_mutex_init", self.mutex, NULL)
        _call(b, "pthread_cond_init", self.condition, NULL)

    def lock(self, b: Builder) -> None:
        """Take the mutex."""
        _call(b, "pthread_mutex_lock", self.mutex)

    def unlock(self, b: Builder) -> None:
        """Release the mutex."""
        _call(b, "pthread_mutex_unlock", self.mutex)

    def sleep(self, b: Builder, nanoseconds: int | None) -> None:
        """Release the mutex and sleep, until woken or the time is up; then take the mutex."""
        if nanoseconds is None:
            _call(b, "pthread_cond_wait", self.condition, self.mutex)
            return
        until = write_deadline(b, self.module, _WALL_CLOCK, nanoseconds)
        _call(b, "pthread_cond_timedwait", self.condition, self.mutex, until)

    def wake_all(self, b: Builder) -> None:
        """Wake all threads that sleep."""
        _call(b, "pthread_cond_broadcast", self.condition)


class PosixSystem(System):
    """A Unix, by its numbers."""

    def __init__(self, module: Module, numbers: Numbers) -> None:
        super().__init__(module)
        self.numbers = numbers

    def wait_queue(self, name: str, word: Value) -> WaitQueue:
        """Define a queue of threads that wait for a word."""
        return _ConditionQueue(self.module, name, word)

    def now(self, b: Builder) -> Value:
        """Return the nanoseconds of a clock that never goes back, an ``i64``."""
        return read_clock(b, self.module, self.numbers.monotonic)

    def count_cpus(self, b: Builder) -> Value:
        """Return how many CPUs are in use: POSIX does not know which of them a process may use."""
        ask = self.module.declare("sysconf", I64, [I32])
        return b.trunc(b.call(ask, [const(I32, self.numbers.processors)]), I32)

    def create_thread(self, b: Builder, place: Value, body: Callee, argument: Value) -> Value:
        """Start a thread, and store which it is; return an ``i32``, 0 if it was started."""
        attributes = b.alloca(I8, _ROOM, align=16)
        _call(b, "pthread_attr_init", attributes)
        resize = self.module.declare("pthread_attr_setstacksize", I32, [PTR, I64])
        b.call(resize, [attributes, const(I64, _STACK)])
        create = self.module.declare("pthread_create", I32, [PTR, PTR, PTR, PTR])
        failed = b.call(create, [place, attributes, body, argument])
        _call(b, "pthread_attr_destroy", attributes)
        return failed

    def join_thread(self, b: Builder, thread: Value) -> None:
        """Wait until a thread has ended."""
        b.call(self.module.declare("pthread_join", I32, [I64, PTR]), [thread, NULL])

    def block_signals(self, b: Builder) -> Callable[[], None]:
        """Let only signals that a fault of the thread itself raises reach threads that start."""
        faults = sum(1 << (signal - 1) for signal in (*_FAULTS, self.numbers.bus_error))
        mask, old = b.alloca(I64, 16, align=16), b.alloca(I64, 16, align=16)
        b.store(const(vector(I64, 16), -1), mask, align=16)
        b.store(const(I64, ~faults), mask)
        change = self.module.declare("pthread_sigmask", I32, [I32, PTR, PTR])
        how = const(I32, self.numbers.set_mask)
        b.call(change, [how, mask, old])

        def unblock() -> None:
            b.call(change, [how, old, NULL])

        return unblock
