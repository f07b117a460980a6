"""Read weights of a file lazily.

An ONNX file is a protobuf message: fields, each with a number, a kind and its bytes. This parser
only reads the fields around the data of weights; the onnx package reads the rest of the model
without that data.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias
from weakref import finalize

import numpy as np

from loomir.frontend.onnx.mistakes import refuse_model
from loomir.support.array import Array, empty_on_line
from loomir.support.dtype import DataType, numpy_of
from loomir.support.fork_safe import ForkSafeLock

__all__ = ["LEAST", "FileData", "WeightFile", "separate_weights"]

Bytes: TypeAlias = Any
"""A NumPy array of bytes."""

_GRAPH: Final = 7
_INITIALIZER: Final = 5
_RAW_DATA: Final = 9
"""Numbers of the fields of ``ModelProto``, ``GraphProto`` and ``TensorProto``."""
_VARINT: Final = 0
_DOUBLE: Final = 1
_BYTES: Final = 2
_FLOAT: Final = 5
LEAST: Final = 1 << 12
"""The least bytes of data that are left in the file."""


class WeightFile:
    """A file that stays open as long as its weights may be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb", buffering=0)
        finalize(self, self._file.close)
        self._lock = ForkSafeLock()
        self._seen = _state(os.fstat(self._file.fileno()))

    def is_current(self) -> bool:
        """Tell whether the path still names this file, unchanged since it was opened."""
        try:
            return _state(self.path.stat()) == self._seen
        except OSError:
            return False

    def read_into(self, memory: Bytes, offset: int) -> None:
        """Fill memory from the file. Errors: ONX0003 if the file was changed meanwhile."""
        view = memoryview(memory)
        done = 0
        while done < len(view):
            found = self._read(view[done:], offset + done)
            if not found:
                break
            done += found
        if done < len(view) or _state(os.fstat(self._file.fileno())) != self._seen:
            raise refuse_model(
                "ONX0003",
                f"{self.path} was changed while its weights were read",
                help="load the model again, and leave the file as it is until it is compiled",
            )

    def _read(self, view: memoryview, offset: int) -> int:
        if sys.platform != "win32":
            return os.preadv(self._file.fileno(), [view], offset)
        with self._lock:
            self._file.seek(offset)
            return self._file.readinto(view)


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(frozen=True, slots=True)
class FileData:
    """Bytes of a file."""

    file: WeightFile
    offset: int
    size: int

    def array(self, dtype: str, shape: tuple[int, ...]) -> Array:
        """Return an array that is read on demand."""
        kind = numpy_of(DataType(dtype))

        def read() -> Any:
            made = empty_on_line(shape, kind)
            self.file.read_into(made.reshape(-1).view("uint8"), self.offset)
            return made

        return Array.read_lazily(read, dtype, shape)

    def bytes(self) -> bytes:
        """Read the bytes now."""
        made = np.empty(self.size, "uint8")
        self.file.read_into(made, self.offset)
        return made.tobytes()


def separate_weights(data: Bytes) -> tuple[bytes, dict[int, tuple[int, int]]] | None:
    """Return a model without the data of its large initializers, and the places of that data.

    The places are by number of initializer: first byte and length. Return None for data that is no
    message, or a model without such data.
    """
    try:
        return _separate(data)
    except (IndexError, ValueError):
        return None  # the onnx package says what is wrong


def _separate(data: Bytes) -> tuple[bytes, dict[int, tuple[int, int]]] | None:
    found: dict[int, tuple[int, int]] = {}
    parts: list[bytes] = []
    graphs = 0
    for number, begin, start, end in _fields(data, 0, len(data)):
        if number != _GRAPH:
            parts.append(data[begin:end].tobytes())
            continue
        graphs += 1
        graph = _graph(data, start, end, found)
        parts.append(_field(_GRAPH, graph))
    return (b"".join(parts), found) if found and graphs == 1 else None


def _graph(data: Bytes, start: int, end: int, found: dict[int, tuple[int, int]]) -> bytes:
    parts: list[bytes] = []
    count = 0
    kept = start  # what was not yet copied begins here
    for number, begin, first, last in _fields(data, start, end):
        if number != _INITIALIZER:
            continue
        raw = _raw_data(data, first, last)
        if raw is not None:
            own, content, after = raw
            tensor = [data[first:own].tobytes(), _field(_RAW_DATA, b""), data[after:last].tobytes()]
            parts += [data[kept:begin].tobytes(), _field(_INITIALIZER, b"".join(tensor))]
            kept = last
            found[count] = content, after - content
        count += 1
    parts.append(data[kept:end].tobytes())
    return b"".join(parts)


def _raw_data(data: Bytes, start: int, end: int) -> tuple[int, int, int] | None:
    """Find the data of a tensor: where its field, its content and what follows begin."""
    found = [f[1:] for f in _fields(data, start, end) if f[0] == _RAW_DATA]
    if len(found) != 1 or found[0][2] - found[0][1] < LEAST:
        return None
    return found[0]


def _fields(data: Bytes, place: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """List fields: their number, and where they, their content and what follows begin."""
    while place < end:
        begin = place
        key, place = _number(data, place)
        kind = key & 7
        if kind == _VARINT:
            start = place
            _, place = _number(data, place)
        elif kind == _BYTES:
            length, start = _number(data, place)
            place = start + length
        elif kind in (_DOUBLE, _FLOAT):
            start, place = place, place + (8 if kind == _DOUBLE else 4)
        else:
            raise ValueError("a field of a kind that is no longer used")
        if place > end:
            raise ValueError("a field goes beyond its message")
        yield key >> 3, begin, start, place


def _number(data: Bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = int(data[place])
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("a number of more than ten bytes")


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
