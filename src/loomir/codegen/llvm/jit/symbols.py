"""Read the symbols that an object file (ELF or Mach-O) defines and needs."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from loomir.support.diagnostics import InternalError

__all__ = ["Symbols", "symbols_of"]

_RELOCATABLE: Final = 1
_SYMTAB: Final = 2
_UNDEFINED: Final = 0
_GLOBAL, _WEAK = 1, 2
# name, kind and binding, visibility, section, value, size
_SYMBOL: Final = struct.Struct("<IBBHQQ")
# name, type, flags, address, offset, size, link, info, alignment, size of an entry
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")

_MACH_O: Final = b"\xcf\xfa\xed\xfe"
_MACH_O_HEADER: Final = 32
_MACH_O_OBJECT: Final = 1
_MACH_O_SYMTAB: Final = 2
# name, type, section, description, value
_MACH_O_SYMBOL: Final = struct.Struct("<IBBHQ")
_DEBUGGING, _KIND, _EXTERNAL = 0xE0, 0x0E, 0x01


class Symbols(NamedTuple):
    """The global symbols of an object, sorted by name, and its ELF machine number.

    The number is 0, which no machine has, if the object is not ELF.
    """

    defined: tuple[str, ...]
    undefined: tuple[str, ...]
    machine: int


def symbols_of(data: bytes) -> Symbols:
    """List the global symbols of a 64-bit little-endian object, by their names in C.

    Errors: InternalError for other data.
    """
    if data[:4] == _MACH_O:
        read = _read_mach_o
    elif len(data) >= 64 and data[:6] == b"\x7fELF\x02\x01":
        read = _read_elf
    else:
        raise InternalError("not a 64-bit little-endian object of ELF or Mach-O")
    try:
        return read(data)
    except (struct.error, ValueError, IndexError) as error:
        raise InternalError(f"a damaged object: {error}") from error


def _text(data: bytes, begin: int) -> str:
    return data[begin : data.index(b"\0", begin)].decode("utf-8", "surrogateescape")


def _read_elf(data: bytes) -> Symbols:
    kind, machine = struct.unpack_from("<HH", data, 0x10)
    if kind != _RELOCATABLE:
        raise InternalError("an ELF file, but not an object to link")
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections: list[tuple[int, ...]] = [
        _SECTION.unpack_from(data, start + i * size) for i in range(count)
    ]
    defined: set[str] = set()
    undefined: set[str] = set()
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, info, _, index, _, _ = _SYMBOL.unpack_from(data, at)
            if info >> 4 not in (_GLOBAL, _WEAK):
                continue
            text = _text(data, names + name)
            if text:
                (undefined if index == _UNDEFINED else defined).add(text)
    return Symbols(tuple(sorted(defined)), tuple(sorted(undefined)), machine)


def _read_mach_o(data: bytes) -> Symbols:
    kind, commands = struct.unpack_from("<II", data, 12)
    if kind != _MACH_O_OBJECT:
        raise InternalError("a Mach-O file, but not an object to link")
    defined: set[str] = set()
    undefined: set[str] = set()
    place = _MACH_O_HEADER
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, place)
        if command == _MACH_O_SYMTAB:
            first, count, names, _ = struct.unpack_from("<IIII", data, place + 8)
            for i in range(count):
                name, bits, *_ = _MACH_O_SYMBOL.unpack_from(data, first + i * _MACH_O_SYMBOL.size)
                if bits & _DEBUGGING or not bits & _EXTERNAL:
                    continue
                found = undefined if bits & _KIND == 0 else defined
                found.add(_text(data, names + name).removeprefix("_"))
        place += size
    return Symbols(tuple(sorted(defined)), tuple(sorted(undefined)), 0)
