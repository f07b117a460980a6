"""Forward calls of emulated code to the real CPU: memory, locks, Python, errors, the clock.

A C function that keeps state in memory may be interrupted halfway when the emulator itself calls
it, which would then wait for a lock for ever. Such functions run natively, at once: they are called
through a few bytes of code that stop only the emulated CPU.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from typing import Any, Final

__all__ = ["HostFunctions", "is_pure", "library_of"]

_PURE: Final = frozenset(
    {"memchr", "memcmp", "memcpy", "memmove", "memset", "strcmp", "strlen", "strncmp"}
)
# The two low bits of a code segment are 3 in a process, and 0 where the emulator runs.
_HEAD: Final = bytes.fromhex("418ccb 41f6c303 7501 f4 49bb".replace(" ", ""))
_TAIL: Final = bytes.fromhex("41ffe3")
_HALT: Final = 9
"""Where in a stub the emulated CPU stops."""
_STUB: Final = 32
_PAGES: Final = 64
_KEPT_PAGES: Final = 64


class _Info(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def library_of(address: int) -> str:
    """Return the file name of the library that an address is in; '' where it is in none."""
    info = _Info()
    dladdr: Any = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Info)]
    if not dladdr(address, ctypes.byref(info)) or info.file is None:
        return ""
    return str(info.file.decode(errors="replace").rpartition("/")[2])


def is_pure(name: str, address: int) -> bool:
    """Whether the emulated CPU runs a function of the C library as it is: it only computes."""
    library = library_of(address)
    return library.startswith("libm.") or (library.startswith("libc.") and name in _PURE)


class HostFunctions:
    """Functions that run for real, by the addresses at which emulated code calls them."""

    def __init__(self) -> None:
        rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self._memory = mmap.mmap(-1, (_PAGES + _KEPT_PAGES) * mmap.PAGESIZE, prot=rights)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._free = self._start + _PAGES * mmap.PAGESIZE
        self._made: dict[int, int] = {}
        self._functions: list[Any] = []

    def address(self, function: int, name: str = "") -> int:
        """Return the address for emulated code of a function; on a real CPU it does the same."""
        found = self._made.get(function)
        if found is None:
            number = len(self._functions)
            if number == _PAGES * mmap.PAGESIZE // _STUB:
                raise MemoryError("too many functions are called from emulated code")
            found = self._start + number * _STUB
            code = _HEAD + struct.pack("<Q", function) + _TAIL
            ctypes.memmove(found, code, len(code))
            # What asks Python finds the interpreter's lock taken, as a callback of it would.
            kind = ctypes.PYFUNCTYPE if name.startswith("Py") else ctypes.CFUNCTYPE
            prototype = kind(ctypes.c_uint64, *[ctypes.c_uint64] * 6)
            self._functions.append(prototype(function))
            self._made[function] = found
        return found

    def keep(self, code: bytes) -> int:
        """Put code where it stays, and give its address."""
        found = self._free
        if found + len(code) > self._start + len(self._memory):
            raise MemoryError("too many instructions are rewritten")
        ctypes.memmove(found, code, len(code))
        self._free += -(-len(code) // 16) * 16
        return found

    def at(self, halted: int) -> Any:
        """Return the function whose stub stopped the CPU at an address, or None."""
        number, rest = divmod(halted - self._start, _STUB)
        if rest != _HALT or not 0 <= number < len(self._functions):
            return None
        return self._functions[number]
