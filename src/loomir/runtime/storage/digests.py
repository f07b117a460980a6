"""Digests by which what was computed once is found again: of files, and of Loomir's own source."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["digests_of", "file_digest", "file_state", "key_of", "package_stamp", "source_stamp"]

_PIECE: Final = 8 << 20
"""Bytes of a file that a thread reads and digests at a time."""
_MOST: Final = 4
"""Threads that read at most: more than a disk serves at once."""
_BINARY: Final = getattr(os, "O_BINARY", 0)


def key_of(*parts: str | bytes) -> str:
    """Return a SHA-256 of a list of texts in hexadecimal, different for any other list."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def digests_of(buffers: Sequence[Any]) -> list[str]:
    """Return the SHA-256 of each of the buffers, computed on several threads if they are large.

    ``buffers`` are objects with contiguous bytes.
    """
    return _hash_in_parallel([functools.partial(hashlib.sha256, buffer) for buffer in buffers])


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return a digest of all bytes of a file. Errors: OSError."""
    descriptor = os.open(path, os.O_RDONLY | _BINARY)
    try:
        size = os.fstat(descriptor).st_size
        if not hasattr(os, "preadv"):
            with open(os.dup(descriptor), "rb") as file:
                return key_of(*_hash_in_parallel([functools.partial(hashlib.sha256, file.read())]))
        starts = range(0, size, _PIECE)
        found = _hash_in_parallel([functools.partial(_read_piece, descriptor, s) for s in starts])
        return key_of(str(size), *found)
    finally:
        os.close(descriptor)


def _read_piece(descriptor: int, start: int) -> Any:
    memory = bytearray(_PIECE)
    view = memoryview(memory)
    done = 0
    while done < _PIECE:
        count = os.preadv(descriptor, [view[done:]], start + done)
        if not count:
            break
        done += count
    return hashlib.sha256(view[:done])


def _hash_in_parallel(tasks: Sequence[Callable[[], Any]]) -> list[str]:
    """Run tasks that return hashes on threads; hashing and reading release the GIL."""
    found: list[str] = [""] * len(tasks)
    errors: list[BaseException] = []
    waiting = iter(range(len(tasks)))

    def work() -> None:
        try:
            for number in waiting:
                found[number] = tasks[number]().hexdigest()
        except OSError as error:
            errors.append(error)

    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    others = [threading.Thread(target=work) for _ in range(min(cpus, _MOST, len(tasks)) - 1)]
    for thread in others:
        thread.start()
    work()
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
    return found


def file_state(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Return numbers that change when a file is replaced or written. Errors: OSError."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@functools.cache
def source_stamp() -> str | None:
    """Return a digest that changes with Loomir's source; None if that is not in a folder.

    It covers names, sizes and times of all modules, so that this version does not find cached
    results of another or an edited one.
    """
    try:
        folder = Path(__file__).parents[2]
        rows = sorted(_modules(str(folder), len(str(folder))))
    except OSError:
        return None
    return key_of(sys.version, *[f"{name} {size} {time}" for name, size, time in rows])


def _modules(folder: str, skipped: int) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield entry.path[skipped:], status.st_size, status.st_mtime_ns
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _modules(entry.path, skipped)


def package_stamp(package: str) -> str:
    """Return a text that changes with the version of an installed package, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return ""
    try:
        return f"{spec.origin} {file_state(spec.origin)}"
    except OSError:
        return spec.origin
