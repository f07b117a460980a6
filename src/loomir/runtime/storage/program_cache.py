"""Whole compiled programs on disk: machine code, what Python knows of it, and packed weights.

A file is read as ``ObjectCache`` reads one: it must be the user's own, closed to writing by others,
and every byte is compared with its SHA-256. Weights are not read but mapped: processes that run the
same program share them. The files take as many bytes as the settings say; those that were used
longest ago go.

A file is, all numbers little-endian:

- 16 bytes, ``_MAGIC``; 32 bytes, the SHA-256 of the key and the head; 8 bytes, the head's length
- the head: JSON, with what the writer says, the place of the code, and those of arrays
- the code, and the arrays, each on a line of the cache
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import shutil
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from loomir.runtime.storage.digests import digests_of
from loomir.runtime.storage.object_cache import (
    TEMPORARY,
    CacheSize,
    is_safe_directory,
    open_own_file,
    replace_own_file,
)
from loomir.support.array import Array
from loomir.support.config import SETTINGS
from loomir.support.dtype import DataType, numpy_of

__all__ = ["CachedProgram", "ProgramCache"]

_MAGIC: Final = b"loomir program 1"
_HEAD: Final = struct.Struct("<16s32sQ")
_LINE: Final = 64
_SUFFIX: Final = ".program"
_FREE: Final = 1 << 30
"""Bytes that must stay free on the disk."""
_OLD: Final = 3600.0
"""Seconds after which an unfinished file is considered abandoned."""


class CachedProgram(NamedTuple):
    """A cached program: the writer's description, its code, and its arrays by symbol."""

    known: Mapping[str, Any]
    code: bytes
    arrays: Mapping[str, Array]


class ProgramCache:
    """Compiled programs by key, a SHA-256 in hexadecimal of all that they depend on.

    If the cache cannot be used, that only costs time.
    """

    def get(self, key: str) -> CachedProgram | None:
        """Return the program of a key, or None if there is none that can be trusted."""
        path = self._path(key)
        if path is None:
            return None
        try:
            if not _is_safe(path.parent):
                return None
            file = open_own_file(path)
            if file is None:
                return None
            with file:
                size = os.fstat(file.fileno()).st_size
                if size <= _HEAD.size:
                    return None
                memory = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
                with contextlib.suppress(OSError):
                    os.utime(path)
        except (OSError, ValueError):
            return None
        return _read(key, memory)

    def put(
        self, key: str, known: Mapping[str, object], code: bytes, arrays: Mapping[str, Array]
    ) -> bool:
        """Store a program; tell whether that worked."""
        path = self._path(key)
        if path is None:
            return False
        views = {symbol: _bytes(array) for symbol, array in arrays.items()}
        size = len(code) + sum(len(view) + _LINE for view in views.values())
        try:
            path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not _is_safe(path.parent) or not self._make_room(size):
                return False
            replace_own_file(path, _parts(key, known, code, arrays, views), synced=False)
        except OSError:
            return False
        return True

    def size(self) -> CacheSize:
        """Return the number of programs, and their bytes on disk."""
        found = self._list_files()
        return CacheSize(len(found), sum(size for _, size, _ in found))

    def clear(self) -> int:
        """Delete all programs and leftovers of interrupted writes; return the number of files."""
        return sum(map(_delete, [path for _, _, path in self._list_files((_SUFFIX, TEMPORARY))]))

    # -- places ------------------------------------------------------------------------------------
    @staticmethod
    def _folder() -> Path | None:
        return None if SETTINGS.cache_dir is None else SETTINGS.cache_dir / "programs"

    def _path(self, key: str) -> Path | None:
        folder = self._folder()
        return None if folder is None else folder / f"{key}{_SUFFIX}"

    def _list_files(self, suffixes: tuple[str, ...] = (_SUFFIX,)) -> list[tuple[float, int, Path]]:
        """List files by the time of their last use, with their sizes."""
        folder = self._folder()
        found: list[tuple[float, int, Path]] = []
        with contextlib.suppress(OSError):
            for path in folder.iterdir() if folder is not None else ():
                if path.suffix in suffixes:
                    with contextlib.suppress(OSError):
                        status = path.stat()
                        found.append((status.st_mtime, status.st_size, path))
        return sorted(found)

    def _make_room(self, size: int) -> bool:
        """Delete the least recently used programs; tell whether there is room for so many bytes."""
        folder = self._folder()
        if folder is None or 2 * size > SETTINGS.program_bytes:
            return False
        for used, _, path in self._list_files((TEMPORARY,)):
            if time.time() - used > _OLD:
                _delete(path)
        files = self._list_files()
        taken = sum(each for _, each, _ in files) + size
        for _, each, path in files:
            if taken <= SETTINGS.program_bytes:
                break
            taken -= each * _delete(path)
        return shutil.disk_usage(folder).free - size > _FREE


def _is_safe(folder: Path) -> bool:
    return is_safe_directory(folder) and is_safe_directory(folder.parent)


def _delete(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


# -- files -----------------------------------------------------------------------------------------
def _bytes(array: Array) -> Any:
    data: Any = array.read_once()
    return memoryview(data.reshape(-1).view("uint8"))


def _round_up(place: int) -> int:
    return -(-place // _LINE) * _LINE


def _parts(
    key: str,
    known: Mapping[str, object],
    code: bytes,
    arrays: Mapping[str, Array],
    views: Mapping[str, Any],
) -> Iterator[Any]:
    """Yield the parts of a file. Offsets count from the first line after the head."""
    place = _round_up(len(code))
    rows: list[object] = []
    for (symbol, array), digest in zip(arrays.items(), digests_of(list(views.values()))):
        size = len(views[symbol])
        rows.append([symbol, str(array.dtype), list(array.shape), place, size, digest])
        place = _round_up(place + size)
    head = json.dumps(
        {
            "known": known,
            "code": [len(code), hashlib.sha256(code).hexdigest()],
            "arrays": rows,
        }
    ).encode()
    yield _HEAD.pack(_MAGIC, _digest(key, head), len(head))
    yield head
    written = _HEAD.size + len(head)
    yield bytes(_round_up(written) - written)
    for part in (code, *views.values()):
        yield part
        yield bytes(_round_up(len(part)) - len(part))


def _digest(key: str, head: bytes) -> bytes:
    # The key is included, so that an intact file under another key's name is rejected.
    return hashlib.sha256(key.encode() + head).digest()


def _read(key: str, memory: mmap.mmap) -> CachedProgram | None:
    magic, digest, length = _HEAD.unpack_from(memory)
    head = memory[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or digest != _digest(key, head):
        return None
    # The digest proves that ``put`` wrote what is read from here on.
    said = json.loads(head)
    start = _round_up(_HEAD.size + length)
    size, wanted = said["code"]
    view = memoryview(memory)
    places = [(start, size), *[(start + row[3], row[4]) for row in said["arrays"]]]
    if any(place + size > len(view) for place, size in places):
        return None
    found = digests_of([view[place : place + size] for place, size in places])
    if found != [wanted, *[row[5] for row in said["arrays"]]]:
        return None
    arrays: dict[str, Array] = {}
    for symbol, dtype, shape, place, size, _ in said["arrays"]:
        kind = numpy_of(DataType(dtype))
        flat: Any = np.frombuffer(view, kind, size // kind.itemsize, start + place)
        arrays[symbol] = Array.wrap_own(flat.reshape(tuple(shape)))
    return CachedProgram(said["known"], memory[start : start + places[0][1]], arrays)
