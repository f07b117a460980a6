"""The hook through which languages in lower layers reach the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["set_compiler", "to_executable"]

_compiler: list[Callable[..., Any]] = []


def set_compiler(compiler: Callable[..., Any]) -> None:
    """Make ``compiler`` the one that ``to_executable`` uses; ``build`` calls this when imported."""
    _compiler[:] = [compiler]


def to_executable(program: object, **options: Any) -> Any:
    """Compile a program like ``loomir.compile``."""
    return _compiler[0](program, **options)
