"""Read which symbols an ELF object defines and which it needs."""

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


class Symbols(NamedTuple):
    """The global symbols of an object, sorted by name, and ELF's number of its machine."""

    defined: tuple[str, ...]
    undefined: tuple[str, ...]
    machine: int


def symbols_of(data: bytes) -> Symbols:
    """List the global symbols of a 64-bit little-endian ELF object.

    Errors: InternalError for other data.
    """
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
        raise InternalError("not a 64-bit little-endian ELF object")
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError) as error:
        raise InternalError(f"a damaged ELF object: {error}") from error


def _read(data: bytes) -> Symbols:
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
            begin = names + name
            text = data[begin : data.index(b"\0", begin)].decode("utf-8", "surrogateescape")
            if text:
                (undefined if index == _UNDEFINED else defined).add(text)
    return Symbols(tuple(sorted(defined)), tuple(sorted(undefined)), machine)
