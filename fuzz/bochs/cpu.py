"""Call functions of this process on an emulated CPU, in the memory of this process.

Callees run there too, including the C library; system calls are forwarded. There is one thread: a
call that would start another fails.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any, Final, NamedTuple

from fuzz.bochs.boot import CODE, DATA, ERRORS, TASK, Layout
from fuzz.bochs.gathers import LoweredGather, lowered
from fuzz.bochs.host_calls import HostFunctions
from fuzz.bochs.library import EmulatorError, load
from fuzz.bochs.tiles import TileError, Tiles

__all__ = ["Cpu"]

_REGISTERS: Final = (
    *("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
)
_ARGUMENTS: Final = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
_OF_SYSTEM: Final = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_GAP: Final = 1 << 20
"""Bytes of the stack that are left to the emulator itself."""
_INVALID, _UNAVAILABLE, _FAULT = 6, 7, 14
_NAMES: Final = {
    0: "division error",
    6: "invalid instruction",
    7: "no such unit",
    13: "general protection",
    14: "page fault",
    16: "x87 error",
    17: "misaligned access",
    19: "exception of SIMD floats",
}
_THREADS: Final = frozenset({56, 57, 58, 435})
_ARCH_PRCTL, _GET_FS = 158, 0x1003
_CONTROL: Final = {
    "cr0": 0x80050033,  # paging, protection, write protection, x87
    "cr4": 0x40620,  # SSE, its exceptions, large pages, XSAVE
    "efer": 0xD01,  # long mode, system calls, pages that hold no code
    "xcr0": 0xE7,  # SSE, AVX, AVX-512
    "rflags": 2,
    "mxcsr": 0x1F80,
    "mxcsr_mask": 0xFFFF,
    "fpcw": 0x37F,
    "fptw": 0xFFFF,
}


class _Lent(NamedTuple):
    """A vector register that a rewritten instruction has for itself."""

    halt: int
    resume: int
    register: int
    contents: list[int]


class Cpu:
    """A CPU of one of Bochs' models; a process has one."""

    def __init__(self, model: str) -> None:
        self._package, self._own, self._between = load(model)
        self._between.loomir_stack.restype = ctypes.c_void_p
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._libc.syscall.restype = ctypes.c_long
        self._layout = Layout(self._package.memory.page_insert)
        self._session = self._package.Session()
        self._session.missing_page_handler = self._missing
        self._hook = self._package.Hook()
        self._hook.hlt = lambda session, _: session.stop()
        self._mapped: list[tuple[int, int]] = []
        self._strange = 0
        self.tiles = Tiles()
        self.outside = HostFunctions()
        self._rewritten: dict[bytes, int] = {}
        self._lent = _Lent(0, 0, 0, [])
        self.system_calls: dict[int, int] = {}

    def call(self, address: int, *arguments: int) -> int:
        """Call a function with integers and pointers; return the integer that it returns.

        Errors: EmulatorError where it raises an exception of the CPU.
        """
        stack = (self._between.loomir_stack() - _GAP) // 64 * 64 - 8
        ctypes.memmove(stack, struct.pack("<Q", self._layout.returned), 8)
        self._start(address, stack, arguments)
        self._own._Z12flushICachesv()
        cpu = self._session.cpu
        while True:
            self._session.run([self._hook])
            if self._strange:
                place, self._strange = self._strange, 0
                raise EmulatorError(f"an access to {place:#x}, where there is no memory")
            stub = cpu.rip - 1
            if stub == self._layout.returned:
                return int(cpu.rax)
            function = self.outside.at(stub)
            if function is not None:
                self._leave(cpu, function)
                continue
            if stub == self._layout.system_call:
                self._ask(cpu)
            elif stub == self._lent.halt:
                self._take_back(cpu)
            else:
                self._handle(cpu, stub - self._layout.stubs)

    def _start(self, address: int, stack: int, arguments: tuple[int, ...]) -> None:
        state = self._package.State()
        for name, value in _CONTROL.items():
            setattr(state, name, value)
        state.cr3 = self._layout.top
        state.cs = self._segment(CODE, 0xA09B)
        for name in ("ds", "es", "ss", "fs", "gs"):
            setattr(state, name, self._segment(DATA, 0xC093))
        state.fs = self._segment(DATA, 0xC093, self._thread_base())
        state.tr = self._segment(TASK, 0x8B, self._layout.task, 0x67)
        state.ldtr = self._segment(0, 0x82)
        state.gdtr = self._table(self._layout.segments, 0x27)
        state.idtr = self._table(self._layout.gates, 0x1FF)
        state.star = CODE << 32
        state.lstar = self._layout.system_call
        state.rip, state.rsp = address, stack
        for name, value in zip(_ARGUMENTS, arguments):
            setattr(state, name, value & 0xFFFFFFFFFFFFFFFF)
        self._session.cpu.state = state

    def _segment(self, selector: int, kind: int, base: int = 0, limit: int = 0xFFFFFFFF) -> Any:
        made = self._package.Segment()
        made.present, made.selector, made.attr = True, selector, kind
        made.base, made.limit = base, limit
        return made

    def _table(self, base: int, limit: int) -> Any:
        made = self._package.GlobalSegment()
        made.base, made.limit = base, limit
        return made

    def _thread_base(self) -> int:
        """Return the address of the variables of this thread."""
        base = ctypes.c_uint64()
        self._libc.syscall(_ARCH_PRCTL, _GET_FS, ctypes.byref(base))
        return base.value

    # -- memory ----------------------------------------------------------------------------------
    def _missing(self, physical: int) -> None:
        """Map a physical page that is touched for the first time."""
        page = physical & ~0xFFF
        address = self._layout.host_address(page)
        if not self._exists(address):
            self._strange = self._strange or address
            self._session.stop()
            address = self._layout.stubs & ~0xFFF
        self._package.memory.page_insert(page, address)

    def _exists(self, address: int) -> bool:
        """Whether there is memory at an address."""
        for _ in range(2):
            if any(start <= address < end for start, end in self._mapped):
                return True
            self._mapped = _read_maps()
        return any(start <= address < end for start, end in self._mapped)

    # -- exceptions and the system ---------------------------------------------------------------
    def _handle(self, cpu: Any, vector: int) -> None:
        """Go on after an exception, or raise it."""
        frame = cpu.rsp + 8 * (vector in ERRORS)
        place, _, flags, stack, _ = struct.unpack("<5Q", ctypes.string_at(frame, 40))
        if vector == _FAULT and self._exists(cpu.cr2) and self._layout.add(cpu.cr2):
            pass
        elif vector == _INVALID and (found := lowered(ctypes.string_at(place, 12))):
            cpu.rip, cpu.rsp, cpu.rflags = place, stack, flags
            self._lend(cpu, place, found)
            return
        elif vector in (_INVALID, _UNAVAILABLE):
            registers = [getattr(cpu, name) for name in _REGISTERS]
            registers[4] = stack
            try:
                size = self.tiles.run(place, registers)
            except TileError as error:
                raise EmulatorError(f"{error}, at {self._near(place)}") from error
            if not size:
                raise EmulatorError(f"{_NAMES[vector]} at {self._near(place)}")
            place += size
        else:
            what = _NAMES.get(vector, f"exception {vector}")
            where = f" to {cpu.cr2:#x}" if vector == _FAULT else ""
            raise EmulatorError(f"{what}{where} at {self._near(place)}")
        cpu.rip, cpu.rsp, cpu.rflags = place, stack, flags

    def _lend(self, cpu: Any, place: int, found: LoweredGather) -> None:
        """Run another instruction in place of one that the emulator refuses."""
        state = cpu.state
        vectors = state.zmm
        self._lent = _Lent(
            self._written(found.code) + len(found.code),
            place + len(found.code),
            found.lower,
            vectors[found.lower].q,
        )
        vectors[found.lower].q = vectors[found.upper].q
        state.zmm, state.rip = vectors, self._written(found.code)
        cpu.state = state

    def _take_back(self, cpu: Any) -> None:
        state = cpu.state
        vectors = state.zmm
        vectors[self._lent.register].q = self._lent.contents
        state.zmm, state.rip = vectors, self._lent.resume
        cpu.state = state

    def _written(self, code: bytes) -> int:
        """Return the address of an instruction after which the CPU stops."""
        found = self._rewritten.get(code)
        if found is None:
            found = self._rewritten[code] = self.outside.keep(code + b"\xf4")
        return found

    def _near(self, place: int) -> str:
        """Say what stands at an address."""
        if not self._exists(place):
            return f"{place:#x}"
        return f"{place:#x}, where the bytes are {ctypes.string_at(place, 12).hex(' ')}"

    def _leave(self, cpu: Any, function: Any) -> None:
        """Call a function for real, and return from it."""
        cpu.rax = function(*[getattr(cpu, name) for name in _ARGUMENTS])
        (cpu.rip,) = struct.unpack("<Q", ctypes.string_at(cpu.rsp, 8))
        cpu.rsp += 8

    def _ask(self, cpu: Any) -> None:
        """Ask the system for what the code asks it."""
        number = cpu.rax
        if number in _THREADS:
            raise EmulatorError(f"system call {number} starts a thread or a process")
        self.system_calls[number] = self.system_calls.get(number, 0) + 1
        ctypes.set_errno(0)
        values = [ctypes.c_long(_signed(getattr(cpu, name))) for name in _OF_SYSTEM]
        result = self._libc.syscall(ctypes.c_long(number), *values)
        if result == -1 and ctypes.get_errno():
            result = -ctypes.get_errno()
        cpu.rax = result & 0xFFFFFFFFFFFFFFFF
        cpu.rip, cpu.rflags = cpu.rcx, cpu.r11


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _read_maps() -> list[tuple[int, int]]:
    """List where there is memory; the stack may grow."""
    made: list[tuple[int, int]] = []
    with open("/proc/self/maps", encoding="utf-8") as lines:
        for line in lines:
            place, rights, *rest = line.split()
            if rights.startswith("---"):
                continue
            start, end = (int(part, 16) for part in place.split("-"))
            if rest[-1] == "[stack]":
                start = end - (8 << 20)
            made.append((start, end))
    return made
