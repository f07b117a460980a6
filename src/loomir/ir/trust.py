"""Mark programs whose text comes from an untrusted source."""

from __future__ import annotations

from typing import Final, TypeVar

from loomir.ir.module import BaseFunc, IRModule
from loomir.ir.visit import rebuild

__all__ = ["UNTRUSTED", "is_untrusted", "mark_untrusted"]

_P = TypeVar("_P", bound="BaseFunc | IRModule")

UNTRUSTED: Final = "untrusted"
"""The attribute of functions that are compiled with bounds checks by default."""


def mark_untrusted(program: _P) -> _P:
    """Mark a function, or all functions of a module."""
    if isinstance(program, IRModule):
        functions = {var: mark_untrusted(func) for var, func in program.functions.items()}
        return program.with_functions(functions)  # pyright: ignore[reportReturnType]
    return rebuild(program, {"attrs": {**program.attrs, UNTRUSTED: True}})


def is_untrusted(module: IRModule) -> bool:
    """Tell whether any function of a module is marked."""
    return any(func.attrs.get(UNTRUSTED) for func in module.functions.values())
