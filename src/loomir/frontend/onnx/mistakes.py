"""Errors of models: invalid files, and features that cannot be imported."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.support.diagnostics import CompileError, Diagnostic

__all__ = ["CannotImport", "MissingBody", "NeedsBranches", "NeedsConstants", "refuse_model"]


def refuse_model(
    code: str, message: str, *, help: str = "", notes: Sequence[str] = ()
) -> CompileError:
    """Create the error of a model that cannot be read."""
    return CompileError(Diagnostic(code, message, notes=tuple(notes), help=help))


class CannotImport(Exception):
    """A converter cannot import a node; its message is listed with those of all other nodes."""

    def __init__(
        self, reason: str, *, help: str = "", code: str = "ONX0012", value: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.help = help
        self.code = code
        self.value = value
        """The value whose elements must be known at import."""


class NeedsConstants(CompileError):
    """A model cannot be imported unless some of its inputs are known; ``names`` may be all."""

    names: tuple[str, ...] = ()


class NeedsBranches(Exception):
    """A branch is chosen at run time, so that the function cannot be one dataflow block."""


class MissingBody(Exception):
    """Nodes of a loop's body cannot be imported, which is reported already."""
