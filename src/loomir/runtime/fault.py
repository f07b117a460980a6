"""Faults of compiled code as data: what went wrong, where, and what to do.

Native code reports a fault by number (the *site*) with a few 64-bit values. The fault table that
comes with the code turns them into the error that the user sees.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loomir.runtime.errors import (
    RunAssertionError,
    RunIndexError,
    RunMemoryError,
    RunRecursionError,
    RunTypeError,
    RunValueError,
    RunZeroDivisionError,
)
from loomir.support.diagnostics import Diagnostic, RunError
from loomir.support.span import Span

__all__ = ["Fault", "FaultKind", "Value"]


class FaultKind(enum.Enum):
    """Kinds of faults; the value is the error code of the diagnostic."""

    ZERO_DIVISION = "RUN0201"
    ASSERTION = "RUN0202"
    OUT_OF_BOUNDS = "RUN0203"
    RECURSION = "RUN0204"
    MISSING_RETURN = "RUN0205"
    BAD_SIZE = "RUN0206"
    ALLOCATION = "RUN0207"
    UNINITIALIZED = "RUN0209"
    RACE = "RUN0210"
    MISMATCH = "RUN0211"
    WRONG_TYPE = "RUN0401"
    """A value of a graph has the wrong kind or dtype."""
    WRONG_VALUE = "RUN0404"
    """A value of a graph has the right kind, but a wrong size."""
    CALLEE = "RUN0305"
    """A function outside the program raised: the first value is its ticket in ``callback``."""


_ERRORS: Final[dict[FaultKind, type[RunError]]] = {
    FaultKind.ZERO_DIVISION: RunZeroDivisionError,
    FaultKind.ASSERTION: RunAssertionError,
    FaultKind.OUT_OF_BOUNDS: RunIndexError,
    FaultKind.RECURSION: RunRecursionError,
    FaultKind.MISSING_RETURN: RunValueError,
    FaultKind.BAD_SIZE: RunValueError,
    FaultKind.ALLOCATION: RunMemoryError,
    FaultKind.UNINITIALIZED: RunValueError,
    FaultKind.RACE: RunValueError,
    FaultKind.MISMATCH: RunValueError,
    FaultKind.WRONG_TYPE: RunTypeError,
    FaultKind.WRONG_VALUE: RunValueError,
    FaultKind.CALLEE: RunTypeError,
}


@dataclass(frozen=True, slots=True)
class Value:
    """A placeholder in a message for one of the values of a fault."""

    index: int
    unsigned: bool = False
    names: tuple[str, ...] = ()

    def text(self, values: Sequence[int]) -> str:
        """Return the value as a decimal number, or as the name with that number."""
        value = values[self.index]
        if self.names:
            return self.names[value]
        return str(value % 2**64 if self.unsigned else value)


@dataclass(frozen=True, slots=True)
class Fault:
    """One place in a program where it may stop.

    ``message`` is a sequence of parts, so that braces in a user's text are no placeholders: text,
    or ``Value(i)``, for which ``i`` is short.
    """

    kind: FaultKind
    message: tuple[str | int | Value, ...]
    span: Span | None = None
    label: str = ""
    notes: tuple[str, ...] = ()
    help: str = ""
    code: str = ""

    def diagnostic(self, values: Sequence[int] = (0, 0, 0)) -> Diagnostic:
        """Return the diagnostic of one occurrence with its values."""
        return Diagnostic(
            code=self.code or self.kind.value,
            message="".join(_part(part, values) for part in self.message),
            span=self.span,
            label=self.label,
            notes=self.notes,
            help=self.help,
        )

    def error(self, values: Sequence[int] = (0, 0, 0)) -> RunError:
        """Return the exception of one occurrence."""
        return _ERRORS[self.kind](self.diagnostic(values))


def _part(part: str | int | Value, values: Sequence[int]) -> str:
    if isinstance(part, str):
        return part
    return (part if isinstance(part, Value) else Value(part)).text(values)
