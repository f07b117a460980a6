"""Several object files as one sequence of bytes, for those who only keep and pass them on."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from loomir.support.diagnostics import InternalError

__all__ = ["pack_objects", "unpack_objects"]

_MAGIC: Final = b"\x7fLoomir objects\n"
_COUNT: Final = struct.Struct("<I")
_SIZE: Final = struct.Struct("<Q")


def pack_objects(objects: Sequence[bytes]) -> bytes:
    """Pack object files into one sequence of bytes; a single object stays as it is."""
    if len(objects) == 1:
        return objects[0]
    sizes = [_SIZE.pack(len(data)) for data in objects]
    return b"".join([_MAGIC, _COUNT.pack(len(objects)), *sizes, *objects])


def unpack_objects(data: bytes) -> list[bytes]:
    """Return the object files that ``pack_objects`` packed.

    Errors: InternalError for bytes that begin like a bundle and are none.
    """
    if not data.startswith(_MAGIC):
        return [data]
    start = len(_MAGIC) + _COUNT.size
    if len(data) < start:
        raise InternalError("a damaged bundle of objects")
    (count,) = _COUNT.unpack_from(data, len(_MAGIC))
    place = start + count * _SIZE.size
    if place > len(data):
        raise InternalError("a damaged bundle of objects")
    found: list[bytes] = []
    for number in range(count):
        (size,) = _SIZE.unpack_from(data, start + number * _SIZE.size)
        found.append(data[place : place + size])
        place += size
    if place != len(data):
        raise InternalError("a damaged bundle of objects")
    return found
