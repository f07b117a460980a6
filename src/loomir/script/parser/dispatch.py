"""Dispatch nodes to handlers, by the dialect that is being parsed.

The table maps (token, type name) to a handler; a token names a dialect. A node is looked up under
the current token, then under ``"default"``; otherwise the parser's ``generic_visit`` handles it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from loomir.support.diagnostics import InternalError

__all__ = ["DEFAULT", "Handler", "get", "register"]

Handler: TypeAlias = Callable[[Any, Any], None]

DEFAULT: Final = "default"
_TABLE: Final[dict[tuple[str, str], Handler]] = {}


def register(token: str, type_name: str) -> Callable[[Handler], Handler]:
    """Make a function the handler of a type of node in a dialect."""

    def add(handler: Handler) -> Handler:
        key = (token, type_name)
        if key in _TABLE:
            raise InternalError(f"two handlers for {type_name} in {token}")
        _TABLE[key] = handler
        return handler

    return add


def get(token: str, type_name: str) -> Handler | None:
    """Find the handler of a type of node in a dialect, or None."""
    return _TABLE.get((token, type_name)) or _TABLE.get((DEFAULT, type_name))
