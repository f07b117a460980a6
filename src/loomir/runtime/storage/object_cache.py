"""The on-disk cache of compiled objects, so that a program is compiled once per machine.

Its contents run as machine code, so they are checked: the directory and each file must belong to
the user and not be writable by others, and each file carries the SHA-256 of its key and content. A
file that fails a check counts as absent. A cache that cannot be used only costs time: it warns
once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from loomir.runtime.errors import CacheWarning
from loomir.support.compile_warning import users_depth
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import InternalError

__all__ = [
    "TEMPORARY",
    "CacheSize",
    "ObjectCache",
    "is_safe_directory",
    "open_own_file",
    "read_own_file",
    "replace_own_file",
]

_MAGIC: Final = b"loomir object 1\n"
_DIGEST: Final = hashlib.sha256().digest_size
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_SUFFIX: Final = ".obj"
TEMPORARY: Final = ".tmp"
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class CacheSize(NamedTuple):
    """The number of objects in a cache, and their bytes."""

    entries: int
    bytes: int


class ObjectCache:
    """Objects by key, a SHA-256 in hexadecimal of all that the object depends on.

    ``directory``: None for the one in the settings, which may disable the cache.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory: Path | None = SETTINGS.cache_dir if directory is None else directory
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """Return the object stored under ``key``, or None if there is none that can be trusted."""
        path = self._path(key)
        if path is None:
            return None
        try:
            if not self._is_safe_directory(path.parent):
                return None
            content = read_own_file(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot be read: {error}")
            return None
        return None if content is None else _unpack(key, content)

    def put(self, key: str, data: bytes) -> bool:
        """Store an object, atomically replacing an older one; tell whether that worked."""
        path = self._path(key)
        if path is None:
            return False
        try:
            # One by one, since parents that mkdir creates get the mode of the umask.
            path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not self._is_safe_directory(path.parent):
                return False
            replace_own_file(path, _pack(key, data))
        except OSError as error:
            self._warn(f"cannot be written: {error}")
            return False
        return True

    def remove(self, key: str) -> None:
        """Delete the object of a key, if there is one."""
        path = self._path(key)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()

    def size(self) -> CacheSize:
        """Count the objects and the bytes that the cache takes on disk."""
        sizes = [_size(path) for path in self._files()]
        found = [size for size in sizes if size is not None]
        return CacheSize(len(found), sum(found))

    def clear(self) -> int:
        """Delete all objects and leftovers of interrupted writes; return the number of files."""
        count = 0
        for path in [*self._files(), *self._files(TEMPORARY)]:
            try:
                path.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                self._warn(f"cannot be cleared: {error}")
                continue
            count += 1
        return count

    # -- places ----------------------------------------------------------------------------------
    def _path(self, key: str) -> Path | None:
        if not _KEY.fullmatch(key):
            raise InternalError(f"{key!r} is not a SHA-256 in hexadecimal")
        return None if self.directory is None else self.directory / "objects" / f"{key}{_SUFFIX}"

    def _files(self, suffix: str = _SUFFIX) -> Iterator[Path]:
        if self.directory is None:
            return
        try:
            paths = sorted((self.directory / "objects").iterdir())
        except FileNotFoundError:
            return
        except OSError as error:
            self._warn(f"cannot be listed: {error}")
            return
        yield from (path for path in paths if path.suffix == suffix)

    def _is_safe_directory(self, directory: Path) -> bool:
        for place in (directory, directory.parent):
            reason = _unsafe(place.stat())
            if reason:
                self._warn(f"is not used: {place} {reason}")
                return False
        return True

    def _warn(self, what: str) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"the cache of compiled objects in {self.directory} {what}; set LOOMIR_CACHE_DIR to a "
            "directory of your own, or to nothing for no cache",
            CacheWarning,
            stacklevel=users_depth(),
        )


def _unsafe(status: os.stat_result) -> str:
    """Return why others could have put code there, or an empty text."""
    if os.name == "nt":  # there, the access list of the user's profile protects the directory
        return ""
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, not to you ({os.geteuid()})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def is_safe_directory(directory: Path) -> bool:
    """Tell whether only the user owns and can write to a directory. Errors: OSError."""
    return not _unsafe(directory.stat())


def open_own_file(path: Path) -> BinaryIO | None:
    """Open a file; None for a file that others could have written, a link, or no plain file.

    Errors: OSError.
    """
    if path.is_symlink():
        return None
    file = open(os.open(path, os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0)), "rb")  # noqa: SIM115
    try:
        # Checked on the open file, so that it cannot be exchanged in between.
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and not _unsafe(status):
            return file
    except BaseException:
        file.close()
        raise
    file.close()
    return None


def read_own_file(path: Path) -> bytes | None:
    """Read a file; None for a file that others could have written, a link, or no plain file."""
    file = open_own_file(path)
    if file is None:
        return None
    with file:
        return file.read()


def replace_own_file(path: Path, content: bytes | Iterable[Any], *, synced: bool = True) -> None:
    """Atomically write a file that only the user can read.

    ``content`` may come in parts. Unless it is ``synced``, a crash of the machine may leave a file
    with other bytes, which readers must detect.
    Errors: OSError; the old file is kept then.
    """
    temporary = path.with_name(f"{path.stem}.{secrets.token_hex(8)}{TEMPORARY}")
    try:
        _write_new_file(temporary, (content,) if isinstance(content, bytes) else content, synced)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_new_file(path: Path, parts: Iterable[Any], synced: bool) -> None:
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600), "wb"
    ) as file:
        for part in parts:
            file.write(part)
        file.flush()
        if synced:
            os.fsync(file.fileno())


def _digest(key: str, data: bytes) -> bytes:
    # The key is included, so that an intact file under another key's name is rejected.
    return hashlib.sha256(key.encode() + data).digest()


def _pack(key: str, data: bytes) -> bytes:
    return _MAGIC + _digest(key, data) + data


def _unpack(key: str, content: bytes) -> bytes | None:
    start = len(_MAGIC) + _DIGEST
    data = content[start:]
    if content[:start] != _MAGIC + _digest(key, data):
        return None
    return data


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
