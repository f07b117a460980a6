"""Errors of PyTorch programs: invalid ones, and features that cannot be imported."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.support.diagnostics import CompileError, Diagnostic

__all__ = ["CannotImport", "MissingBody", "refuse_program"]


def refuse_program(
    code: str, message: str, *, help: str = "", notes: Sequence[str] = ()
) -> CompileError:
    """Create the error of a program that cannot be read."""
    return CompileError(Diagnostic(code, message, notes=tuple(notes), help=help))


class CannotImport(Exception):
    """A converter cannot import a node; its message is listed with those of all other nodes."""

    def __init__(self, reason: str, *, help: str = "", code: str = "PTC0011") -> None:
        super().__init__(reason)
        self.reason = reason
        self.help = help
        self.code = code


class MissingBody(Exception):
    """Nodes of a branch or a loop cannot be imported, which is reported already."""
