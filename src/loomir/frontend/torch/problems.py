"""Collect what cannot be imported of a program, to report it all at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from loomir.frontend.torch.mistakes import CannotImport
from loomir.support.diagnostics import CompileError, Diagnostic, with_count

__all__ = ["Problems", "source_line"]

_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*(?:\n\s+([^\n]*))?')
_LIBRARIES: Final = ("/site-packages/", "/dist-packages/", "/lib/python")
_MOST_LABELS: Final = 8


def source_line(node: Any) -> str:
    """Return the line of the user's program for a node, or an empty text if it is unknown."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [f for f in frames if not _is_library(f[0].replace("\\", "/"))]
    if not own:
        return ""
    path, line, text = own[-1]
    where = f"{path.replace(chr(92), '/').rpartition('/')[2]}:{line}"
    return f"{where}: {text.strip()}" if text else where


def _is_library(path: str) -> bool:
    return path.startswith(("torch/", "<")) or any(part in path for part in _LIBRARIES)


def _label(node: Any) -> str:
    line = source_line(node)
    return f"{node.name}, of {line}" if line else str(node.name)


class Problems:
    """A list of mistakes, without repetition."""

    def __init__(self) -> None:
        self._missing: dict[str, list[str]] = {}
        self._others: dict[Diagnostic, None] = {}

    def __bool__(self) -> bool:
        return bool(self._missing or self._others)

    @property
    def missing(self) -> Sequence[str]:
        """The operators that have no converter."""
        return list(self._missing)

    def note_missing_converter(self, node: Any, operator: str) -> None:
        """Record a node whose operator has no converter. Code: PTC0010."""
        self._missing.setdefault(operator, []).append(_label(node))

    def add(self, node: Any, operator: str, error: CannotImport) -> None:
        """Record the error of a converter."""
        remedy = error.help or f"register a converter of your own: {_register(operator)}"
        notes = (f"node {_label(node)}",)
        message = f"{operator}: {error.reason}"
        self._note(Diagnostic(error.code, message, notes=notes, help=remedy))

    def note_refused(self, node: Any, operator: str, error: CompileError) -> None:
        """Record the error of a Relax operator. Code: PTC0012."""
        first = error.diagnostic
        if first.code.startswith("PTC"):
            self._note(first)
            return
        self._note(
            Diagnostic(
                "PTC0012",
                f"{operator}: {first.message}",
                notes=(f"node {_label(node)}", f"found as {first.code}", *first.notes),
                help=first.help or f"register a converter of your own: {_register(operator)}",
            )
        )

    def _note(self, one: Diagnostic) -> None:
        self._others.setdefault(one)

    def diagnostics(self) -> list[Diagnostic]:
        """List all problems."""
        found: list[Diagnostic] = []
        for operator, labels in self._missing.items():
            shown = [f"node {label}" for label in labels[:_MOST_LABELS]]
            if len(labels) > _MOST_LABELS:
                shown.append(f"and {with_count(len(labels) - _MOST_LABELS, 'other node')}")
            found.append(
                Diagnostic(
                    "PTC0010",
                    f"there is no converter for {operator}, which "
                    f"{with_count(len(labels), 'node')} {'uses' if len(labels) == 1 else 'use'}",
                    notes=tuple(shown),
                    help=f"register one: {_register(operator)}, where convert(node) returns an "
                    "expression of loomir.op",
                )
            )
        return found + list(self._others)


def _register(operator: str) -> str:
    return f"loomir.torch.register_converter({operator!r}, convert)"
