"""Set up the memory of a CPU before its first instruction: page tables, gates, segments.

The emulated CPU sees the memory of this process at the same addresses, so that code, constants,
arrays and the C library need no copy and no relocation. Its physical addresses have 40 bits, too
few for that; a table maps each GiB that is accessed to the next free GiB of physical memory.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable
from typing import Final

__all__ = [
    "CODE",
    "DATA",
    "ERRORS",
    "GIB",
    "PAGE",
    "TASK",
    "Layout",
    "gate",
    "slot_address",
]

PAGE: Final = 4096
GIB: Final = 1 << 30
SLOTS: Final = 1 << 10
"""GiB of physical memory; the first is for tables."""
CODE, DATA, TASK = 0x08, 0x10, 0x18
"""Selectors of segments."""
ERRORS: Final = frozenset({8, 10, 11, 12, 13, 14, 17, 21})
"""Exceptions that push an error code."""
_VECTORS: Final = 32
_PRESENT_WRITABLE: Final = 3
_LARGE: Final = 0x80
_TABLES: Final = 1 + 256
"""Pages of the tables: one for the whole, one for each half TiB."""


def gate(handler: int, stack: int) -> bytes:
    """Encode an interrupt gate of long mode."""
    low, middle, high = handler & 0xFFFF, handler >> 16 & 0xFFFF, handler >> 32
    return struct.pack("<HHBBHII", low, CODE, stack, 0x8E, middle, high, 0)


def slot_address(slot: int, address: int) -> int:
    """Return the physical address of an address whose GiB is at a slot."""
    return slot * GIB + address % GIB


class Layout:
    """Memory that only the emulated CPU uses, and the table of GiB.

    ``insert`` maps a physical page to a page of this process.
    """

    def __init__(self, insert: Callable[[int, int], None]) -> None:
        pages = _TABLES + 1 + 4 + 8
        self._memory = mmap.mmap(-1, pages * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._tables = start
        for number in range(_TABLES):
            insert(number * PAGE, start + number * PAGE)
        for half in range(256):
            self._put(start + 8 * half, struct.pack("<Q", (1 + half) * PAGE | _PRESENT_WRITABLE))
        self._slots: dict[int, int] = {}
        self._places: list[int] = [0]
        system = start + _TABLES * PAGE
        self.segments, self.task, self.gates, self.stubs = (
            system + offset for offset in (0, 0x100, 0x200, 0x800)
        )
        self.interrupt_stack = start + (pages - 1) * PAGE
        # An exception reads all of these: they are known before the first.
        self.add(start)
        self.add(start + pages * PAGE - 1)
        self._system()

    @property
    def top(self) -> int:
        """The physical address of the tables of pages."""
        return 0

    def _put(self, place: int, data: bytes) -> None:
        ctypes.memmove(place, data, len(data))

    def _system(self) -> None:
        """Write segments, task, gates, and a ``hlt`` for each way out."""
        base, limit = self.task, 0x67
        task = limit | (base & 0xFFFFFF) << 16 | 0x89 << 40 | (base >> 24 & 0xFF) << 56
        self._put(
            self.segments,
            struct.pack("<5Q", 0, 0x00AF9B000000FFFF, 0x00CF93000000FFFF, task, base >> 32),
        )
        self._put(self.task + 0x24, struct.pack("<Q", self.interrupt_stack))
        for vector in range(_VECTORS):
            self._put(self.gates + 16 * vector, gate(self.stub(vector), 1))
        self._put(self.stubs, b"\xf4" * (_VECTORS + 2))

    def stub(self, vector: int) -> int:
        """Return the address that an exception ends at."""
        return self.stubs + vector

    @property
    def returned(self) -> int:
        """The address that a call returns to."""
        return self.stub(_VECTORS)

    @property
    def system_call(self) -> int:
        """The address that calls of the system end at."""
        return self.stub(_VECTORS + 1)

    def add(self, address: int) -> bool:
        """Make the GiB of an address known; False where it was."""
        number = address >> 30
        if number in self._slots or address >> 47:
            return False
        slot = len(self._places)
        if slot == SLOTS:
            raise MemoryError("the process uses more parts of memory than the emulator knows")
        self._places.append(number)
        self._slots[number] = slot
        entry = slot_address(slot, 0) | _PRESENT_WRITABLE | _LARGE
        table = self._tables + (1 + (number >> 9)) * PAGE
        self._put(table + 8 * (number & 511), struct.pack("<Q", entry))
        return True

    def host_address(self, physical: int) -> int:
        """Return the address in this process of a physical one."""
        slot, rest = divmod(physical, GIB)
        return self._places[slot] * GIB + rest
