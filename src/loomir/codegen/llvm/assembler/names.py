"""Escape names for LLVM IR, so that no name can end the token that contains it."""

from __future__ import annotations

import re
from typing import Final

from loomir.support.diagnostics import InternalError

__all__ = ["escape", "global_name", "local_hint"]

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9_]")
_ESCAPED: Final = {
    c: chr(c) if 0x20 <= c < 0x7F and chr(c) not in '"\\' else f"\\{c:02X}" for c in range(256)
}


def escape(data: bytes) -> str:
    """Escape bytes for a quoted string in IR."""
    return data.decode("latin-1").translate(_ESCAPED)


def global_name(name: str, sigil: str = "@") -> str:
    """Write the exact name of a symbol, quoted where it must be.

    Errors: InternalError for an empty name, and for control characters: LLVM refuses NUL, and
    takes a leading 0x01 as a request to omit the platform's prefix.
    """
    if _PLAIN.fullmatch(name):
        return sigil + name
    data = name.encode("utf-8", "surrogatepass")
    if not data or min(data) < 0x20:
        raise InternalError(f"{name!r} cannot name a symbol")
    return f'{sigil}"{escape(data)}"'


def local_hint(hint: str) -> str:
    """Turn any text into the readable part of a local name; a number after it makes it unique."""
    return "_" + _NOT_PLAIN.sub("_", hint) if hint[:1].isdigit() else _NOT_PLAIN.sub("_", hint)
