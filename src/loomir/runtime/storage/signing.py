"""Sign files with a key of the user, to show later who wrote them.

The key is in the cache directory, under the same checks as the code there: whoever can read or
write it can run code as the user anyway.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import warnings
from pathlib import Path
from typing import Final

from loomir.runtime.errors import CacheWarning
from loomir.runtime.storage.object_cache import is_safe_directory, read_own_file
from loomir.support.compile_warning import users_depth
from loomir.support.config import SETTINGS

__all__ = ["NO_SEAL", "is_own", "seal"]

_SIZE: Final = 32
NO_SEAL: Final = bytes(_SIZE)


def seal(digest: bytes) -> bytes:
    """Return the seal of this user; zeros, with a warning, if no key can be stored."""
    key = _key(make=True)
    if key is not None:
        return _sign(key, digest)
    if SETTINGS.cache_dir is not None:
        warnings.warn(
            f"no key can be kept in {SETTINGS.cache_dir}, so that what is saved is not known to "
            "be yours and loading it needs trusted=True; set LOOMIR_CACHE_DIR to a directory of "
            "your own that has room",
            CacheWarning,
            stacklevel=users_depth(),
        )
    return NO_SEAL


def is_own(digest: bytes, given: bytes) -> bool:
    """Tell whether a seal is this user's."""
    key = _key(make=False)
    return key is not None and hmac.compare_digest(_sign(key, digest), given)


def _sign(key: bytes, digest: bytes) -> bytes:
    return hmac.new(key, b"loomir executable\n" + digest, hashlib.sha256).digest()


def _key(*, make: bool) -> bytes | None:
    directory = SETTINGS.cache_dir
    if directory is None:
        return None
    path = directory / "key"
    try:
        if make:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_safe_directory(directory):
            return None
        if make and not path.exists():
            _make(path)
        found = read_own_file(path)
    except OSError:
        return None
    return found if found is not None and len(found) == _SIZE else None


def _make(path: Path) -> None:
    """Write a new key, unless another process has been faster."""
    temporary = path.with_name(f"key.{secrets.token_hex(8)}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_SIZE))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
