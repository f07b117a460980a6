"""Collect what cannot be imported of a model, to report it all at once."""

from __future__ import annotations

from loomir.frontend.onnx.mistakes import CannotImport
from loomir.frontend.onnx.model import NodeDef
from loomir.support.diagnostics import CompileError, Diagnostic, with_count

__all__ = ["Problems"]


def _register(operator: str, domain: str) -> str:
    more = f", domain={domain!r}" if domain else ""
    return f"loomir.onnx.register_converter({operator!r}, convert{more})"


class Problems:
    """A list of mistakes, without repetition."""

    def __init__(self) -> None:
        self._missing: dict[tuple[str, str], list[str]] = {}
        self._others: dict[Diagnostic, None] = {}
        self.unknown: list[str] = []
        """Unknown values whose elements must be known at import."""

    def __bool__(self) -> bool:
        return bool(self._missing or self._others)

    def note_missing_converter(self, node: NodeDef, shown: NodeDef, version: int) -> None:
        """Record a node whose operator has no converter. Code: ONX0010."""
        labels = self._missing.setdefault((node.domain, node.operator), [])
        labels.append(shown.label if shown is node else f"{node.label}, in {shown.label}")

    def add(self, node: NodeDef | None, error: CannotImport) -> None:
        """Record the error of a converter."""
        if error.value:
            self.unknown.append(error.value)
        where = f"{node.label}: " if node is not None else "the model: "
        remedy = error.help
        if not remedy and node is not None:
            remedy = f"register a converter of your own: {_register(node.operator, node.domain)}"
        self._note(Diagnostic(error.code, where + error.reason, help=remedy))

    def note_refused(self, node: NodeDef, error: CompileError) -> None:
        """Record the error of a Relax operator. Code: ONX0013."""
        first = error.diagnostic
        if first.code.startswith("ONX"):
            self._note(first)
            return
        self._note(
            Diagnostic(
                "ONX0013",
                f"{node.label}: {first.message}",
                notes=(f"found as {first.code}", *first.notes),
                help=first.help,
            )
        )

    def faulty(self, node: NodeDef, error: Exception) -> None:
        """Record a node with attributes or inputs that its operator does not have."""
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        self._note(
            Diagnostic(
                "ONX0012",
                f"{node.label}: its attributes or inputs are not valid for this operator: {what}",
                help="check the model with onnx.checker.check_model(path, full_check=True)",
            )
        )

    def _note(self, one: Diagnostic) -> None:
        self._others.setdefault(one)

    def diagnostics(self) -> list[Diagnostic]:
        """List all problems."""
        found: list[Diagnostic] = []
        for (domain, operator), labels in self._missing.items():
            named = f"{domain}.{operator}" if domain else operator
            found.append(
                Diagnostic(
                    "ONX0010",
                    f"there is no converter for {named}, which {with_count(len(labels), 'node')} "
                    f"{'uses' if len(labels) == 1 else 'use'}",
                    notes=tuple(labels),
                    help=f"register one: {_register(operator, domain)}, where convert(node) "
                    "returns an expression of loomir.op",
                )
            )
        return found + list(self._others)
