"""The file format of a saved executable: named parts, each with its SHA-256.

In this order, all numbers little-endian:

- 8 bytes, ``MAGIC``; 4 bytes, the format version; 8 bytes, the length of the header
- 32 bytes, the SHA-256 of everything above and of the header
- the header: JSON in UTF-8, an object with the writer's metadata and ``parts``, a list of
  ``[name, length, SHA-256 in hexadecimal]``
- the parts, one after the other
- 32 bytes, the *seal*: the HMAC-SHA256, under a key of the user who wrote the file, of the SHA-256
  before the header
- 32 bytes, the SHA-256 of that SHA-256 and of the seal, so that users without the key can check
  that the seal is intact

So no changed byte goes unnoticed. Only the seal tells who wrote the file; hashes do not.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from loomir.runtime.errors import RunValueError
from loomir.support.diagnostics import Diagnostic
from loomir.support.files import replace_file, unwritable

__all__ = [
    "FORMAT",
    "MAGIC",
    "Container",
    "append_seal",
    "pack",
    "read_file",
    "unpack",
    "write_file",
]

MAGIC: Final = b"\x89Loomir\n"
FORMAT: Final = 2
_HEAD: Final = struct.Struct("<8sIQ")
_DIGEST: Final = 32
_START: Final = _HEAD.size + _DIGEST
_END: Final = 2 * _DIGEST
_BINARY: Final = getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Container:
    """The contents of a file: header, parts, all bytes before the seal, and the sealed digest."""

    header: Mapping[str, Any]
    parts: Mapping[str, bytes]
    unsealed: bytes
    digest: bytes
    seal: bytes


def refuse(code: str, message: str, remedy: str, *notes: str) -> NoReturn:
    """Raise the error of a file."""
    raise RunValueError(Diagnostic(code, message, notes=notes, help=remedy))


# -- bytes -------------------------------------------------------------------------------------
def pack(header: Mapping[str, object], parts: Mapping[str, bytes]) -> tuple[bytes, bytes]:
    """Return the bytes of a file without its seal, and the digest to be sealed."""
    listed = [[name, len(data), hashlib.sha256(data).hexdigest()] for name, data in parts.items()]
    text = json.dumps({**header, "parts": listed}, ensure_ascii=True).encode()
    head = _HEAD.pack(MAGIC, FORMAT, len(text))
    digest = hashlib.sha256(head + text).digest()
    return b"".join([head, digest, text, *parts.values()]), digest


def append_seal(unsealed: bytes, digest: bytes, seal: bytes) -> bytes:
    """Return the bytes of a file: the result of ``pack`` with a seal."""
    return b"".join([unsealed, seal, hashlib.sha256(digest + seal).digest()])


def unpack(data: bytes, name: str) -> Container:
    """Parse a file, and check every byte; ``signing.is_own`` tells whose seal it has.

    Errors: RUN0461 for a file of another kind, RUN0462 for one that is truncated or changed,
    RUN0463 for one of a newer format.
    """
    if not data.startswith(MAGIC[: max(1, len(data))]):
        refuse(
            "RUN0461",
            f"{name} is not a saved executable",
            "give a file that exe.save(path) wrote",
        )
    if len(data) < _START + _END:
        _refuse_damaged(name, f"it has {len(data)} bytes, fewer than any such file")
    _, version, length = _HEAD.unpack_from(data)
    end = _START + length
    whole = hashlib.sha256(data[: _HEAD.size] + data[_START:end]).digest()
    if end > len(data) - _END or whole != data[_HEAD.size : _START]:
        # In a newer version, the bytes after the version number may have another format.
        _refuse_newer(name, version)
        _refuse_damaged(name, "its header is not what was written")
    _refuse_newer(name, version)
    header = _header(data[_START:end], name)
    parts: dict[str, bytes] = {}
    for part, size, digest in header["parts"]:
        content = data[end : end + size]
        if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
            _refuse_damaged(name, f"its part {part!r} is not what was written")
        parts[part] = content
        end += size
    if end + _END != len(data):
        _refuse_damaged(name, f"it has {len(data)} bytes, and {end + _END} were written")
    seal = data[end : end + _DIGEST]
    if hashlib.sha256(whole + seal).digest() != data[end + _DIGEST :]:
        _refuse_damaged(name, "its seal is not what was written")
    return Container(header, parts, data[:end], whole, seal)


def _refuse_newer(name: str, version: int) -> None:
    if version != FORMAT:
        refuse(
            "RUN0463",
            f"{name} has format {version}; this Loomir reads format {FORMAT}",
            "read it with the version of Loomir that wrote it, or save it again with this one",
        )


def _header(text: bytes, name: str) -> dict[str, Any]:
    try:
        header: Any = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not _lists_parts(cast("dict[str, Any]", header)):
        _refuse_damaged(name, "its header lists no parts")
    return cast("dict[str, Any]", header)


def _lists_parts(header: dict[str, Any]) -> bool:
    parts = header.get("parts")
    return isinstance(parts, list) and all(map(_is_part, cast("list[object]", parts)))


def _is_part(row: object) -> bool:
    if not isinstance(row, list):
        return False
    fields = cast("list[Any]", row)
    return [type(field) for field in fields] == [str, int, str] and fields[1] >= 0


def _refuse_damaged(name: str, what: str) -> NoReturn:
    refuse(
        "RUN0462",
        f"{name} is damaged: {what}",
        "get the file again from its source, or save the executable again",
    )


# -- files -------------------------------------------------------------------------------------
def read_file(path: Path) -> bytes:
    """Read a whole file at once, so that the checked bytes are used even if it changes meanwhile.

    Errors: RUN0460 if it cannot be read.
    """
    flags = os.O_RDONLY | _BINARY | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is not a plain file", str(path))
            return file.read()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise RunValueError(
            Diagnostic(
                "RUN0460",
                f"{str(path)!r} cannot be read: {reason}",
                help="give the path of a file that exe.save(path) wrote",
            )
        ) from error


def write_file(path: Path, data: bytes, mode: int = 0o666, *, wanted: Path | None = None) -> None:
    """Write a file atomically: other processes see the old one, or the new one.

    ``wanted`` is the file that the user asked for, if this one is an intermediate file.
    Errors: RUN0467 if it cannot be written.
    """
    try:
        replace_file(path, data, mode)
    except (OSError, ValueError) as error:
        raise RunValueError(unwritable(wanted or path, error)) from error
