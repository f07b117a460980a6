"""Sleep in futexes, and the CPUs that a process may use, by system calls of Linux.

A futex wakes a few threads, and only those whose bits are asked for; a condition variable wakes all
of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Module
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, vector
from loomir.codegen.llvm.assembler.values import NULL, Value, const, zero
from loomir.codegen.llvm.support.ir.placement import Placement, count_cpus, read_own_cpus
from loomir.codegen.llvm.support.ir.system.interface import WaitQueue
from loomir.codegen.llvm.support.ir.system.posix import NUMBERS, PosixSystem, write_deadline

__all__ = ["FUTEX_NUMBERS", "LinuxSystem"]

FUTEX_NUMBERS: Final[Mapping[str, int]] = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
"""The number of the system call, by the kind of machine."""
_WAIT, _WAKE = 128 + 9, 128 + 10  # of one process, the operations with a bit set
_WORDS: Final = 128
"""Words of a mask of CPUs."""


class _Futex(WaitQueue):
    """A futex."""

    def __init__(self, module: Module, word: Value, number: int) -> None:
        super().__init__(module, word)
        self.number = number

    def prepare(self, b: Builder) -> None:
        """Do nothing: the system has no queue where no thread sleeps."""

    def wait(self, b: Builder, value: Value, bits: Value, nanoseconds: int | None = None) -> None:
        """Sleep if the word is ``value``, until a thread wakes these ``bits`` or the time is up."""
        until = NULL
        if nanoseconds is not None:
            clock = NUMBERS["linux"].monotonic
            until = write_deadline(b, self.module, clock, nanoseconds)
        self._call(b, _WAIT, value, bits, until)

    def wake(self, b: Builder, count: Value, bits: Value) -> None:
        """Wake ``count`` of the threads that wait with one of these bits."""
        self._call(b, _WAKE, count, bits, NULL)

    def _call(self, b: Builder, operation: int, value: Value, bits: Value, until: Value) -> None:
        syscall = self.module.declare("syscall", I64, [I64], varargs=True)
        number, kind = const(I64, self.number), const(I64, operation)
        wide = b.sext(value, I64)
        b.call(syscall, [number, self.word, kind, wide, until, NULL, b.sext(bits, I64)])


class LinuxSystem(PosixSystem):
    """Linux on a kind of machine."""

    has_quotas: ClassVar[bool] = True

    def __init__(self, module: Module, arch: str) -> None:
        super().__init__(module, NUMBERS["linux"])
        self.futex_number = FUTEX_NUMBERS[arch]

    def wait_queue(self, name: str, word: Value) -> WaitQueue:
        """Define a queue of threads that wait for a word."""
        return _Futex(self.module, word, self.futex_number)

    def count_cpus(self, b: Builder) -> Value:
        """Return how many CPUs the calling thread may use, an ``i32``; 0 if that is unknown."""
        mask = b.alloca(I64, _WORDS, align=16)
        b.store(zero(vector(I64, _WORDS)), mask, align=16)
        failed = read_own_cpus(b, mask)
        known = b.icmp("eq", failed, const(I32, 0))
        return b.select(known, count_cpus(b, mask), const(I32, 0))

    def create_thread(self, b: Builder, place: Value, body: Callee, argument: Value) -> Value:
        """Start a thread with the stack that the process limits; return 0 if it was started."""
        create = self.module.declare("pthread_create", I32, [PTR, PTR, PTR, PTR])
        return b.call(create, [place, NULL, body, argument])

    def placement(self) -> Placement | None:
        """Return what pins threads to CPUs."""
        return Placement(self.module)
