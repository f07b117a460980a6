"""Write files atomically, and report why one cannot be written."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from loomir.support.diagnostics import Diagnostic

__all__ = ["replace_file", "unwritable"]


def replace_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file atomically: other processes see the old one, or the new one.

    The target of a link is written, not the link. Devices and pipes are written directly.

    Errors: OSError or ValueError, which ``unwritable`` explains; the old file is kept then.
    """
    path = path.resolve()
    if _is_stream(path):
        with open(path, "wb") as file:
            file.write(data)
        return
    if path.is_dir():
        raise IsADirectoryError(0, "it is a directory", str(path))
    temporary = path.with_name(f".{path.name[:64]}.{secrets.token_hex(8)}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(temporary, flags, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_stream(path: Path) -> bool:
    try:
        kind = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(kind) and not stat.S_ISDIR(kind)


def unwritable(path: Path, error: OSError | ValueError) -> Diagnostic:
    """Return the diagnostic that a file or directory cannot be written, and why."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return Diagnostic(
        "RUN0467",
        f"{str(path)!r} cannot be written: {reason}",
        help="give a path in a directory that exists, may be written and has room",
    )
