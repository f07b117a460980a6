"""Refuse a program that breaks a typing rule, from the constructor of a node."""

from __future__ import annotations

from typing import NoReturn

from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Span

__all__ = ["refuse"]


def refuse(
    code: str,
    message: str,
    *,
    label: str = "",
    notes: tuple[str, ...] = (),
    help: str,  # named after the diagnostic's field
    span: Span | None = None,
) -> NoReturn:
    """Raise a ``CompileError``; the parser adds the place where the constructor has none."""
    raise CompileError(Diagnostic(code, message, span, label, (), notes, help))
