"""What the thread pool needs of a system: threads that sleep and wake, a clock, a count of CPUs.

Emitters of IR: each method emits its instructions at the builder's place, and may go on in a new
block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Module
from loomir.codegen.llvm.assembler.types import I32
from loomir.codegen.llvm.assembler.values import Value
from loomir.codegen.llvm.support.ir.placement import Placement

__all__ = ["LockedQueue", "System", "WaitQueue"]


class WaitQueue(ABC):
    """The threads that sleep until a word of 32 bits changes.

    Who changes the word does so with ``seq_cst`` before waking, and a thread that has announced
    itself with ``seq_cst`` is woken, or sees the change before it sleeps. Threads may also wake
    without a reason, and look at the word again.
    """

    def __init__(self, module: Module, word: Value) -> None:
        self.module = module
        self.word = word

    @abstractmethod
    def prepare(self, b: Builder) -> None:
        """Make the queue empty, whatever it was; no other thread uses it."""

    @abstractmethod
    def wait(self, b: Builder, value: Value, bits: Value, nanoseconds: int | None = None) -> None:
        """Sleep if the word is ``value``, until a thread wakes these ``bits`` or the time is up."""

    @abstractmethod
    def wake(self, b: Builder, count: Value, bits: Value) -> None:
        """Wake at least ``count`` of the threads that wait with one of these bits."""


class LockedQueue(WaitQueue):
    """A lock and a condition variable.

    A thread looks at the word with the lock taken; who wakes others takes the lock after changing
    the word, so that nobody misses it.
    """

    def wait(self, b: Builder, value: Value, bits: Value, nanoseconds: int | None = None) -> None:
        """Sleep if the word is ``value``, until a thread wakes this queue or the time is up."""
        still, woken = b.append("still"), b.append("woken")
        self.lock(b)
        b.condbr(b.icmp("eq", b.load_atomic(I32, self.word, "seq_cst"), value), still, woken)
        b.position_at_end(still)
        self.sleep(b, nanoseconds)
        b.br(woken)
        b.position_at_end(woken)
        self.unlock(b)

    def wake(self, b: Builder, count: Value, bits: Value) -> None:
        """Wake all threads: a condition variable does not know who waits."""
        self.lock(b)
        self.unlock(b)
        self.wake_all(b)

    @abstractmethod
    def lock(self, b: Builder) -> None:
        """Take the lock."""

    @abstractmethod
    def unlock(self, b: Builder) -> None:
        """Release the lock."""

    @abstractmethod
    def sleep(self, b: Builder, nanoseconds: int | None) -> None:
        """Release the lock and sleep, until woken or the time is up; then take the lock."""

    @abstractmethod
    def wake_all(self, b: Builder) -> None:
        """Wake all threads that sleep."""


class System(ABC):
    """The functions of a system."""

    has_quotas: ClassVar[bool] = False
    """Whether files of the system say how many CPUs a container pays for."""

    def __init__(self, module: Module) -> None:
        self.module = module

    @abstractmethod
    def wait_queue(self, name: str, word: Value) -> WaitQueue:
        """Define a queue of threads that wait for a word."""

    @abstractmethod
    def now(self, b: Builder) -> Value:
        """Return the nanoseconds of a clock that never goes back, an ``i64``."""

    @abstractmethod
    def count_cpus(self, b: Builder) -> Value:
        """Return how many CPUs the process may use, an ``i32``; below 1 if that is unknown."""

    @abstractmethod
    def create_thread(self, b: Builder, place: Value, body: Callee, argument: Value) -> Value:
        """Start a thread, and store which it is; return an ``i32``, 0 if it was started."""

    @abstractmethod
    def join_thread(self, b: Builder, thread: Value) -> None:
        """Wait until a thread has ended."""

    def block_signals(self, b: Builder) -> Callable[[], None]:
        """Keep signals of the program from threads that start; return what undoes it."""
        return lambda: None

    def placement(self) -> Placement | None:
        """Return what pins threads to CPUs, if the system lets programs do so."""
        return None
