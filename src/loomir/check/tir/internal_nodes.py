"""Refuse nodes of the internal IR, which user programs must not contain."""

from __future__ import annotations

from loomir.ir.node import Node
from loomir.ir.visit import by_class
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Span
from loomir.tir.stmt import AttrStmt

__all__ = ["mistake_of_foreign", "refuse_foreign"]


def mistake_of_foreign(node: Node, around: Span | None = None) -> Diagnostic:
    """Return the error for a node that no program has; ``around``: its place, if it has none."""
    span: object = getattr(node, "span", None)
    return Diagnostic(
        "TIR0420",
        f"{node.node_kind} is not part of a program",
        span if isinstance(span, Span) else around,
        help=f"let {node.lowered_by} lower it",
    )


def refuse_foreign(root: Node) -> None:
    """Refuse a program that contains such nodes. Errors: TIR0420."""
    parts = by_class(root)
    found = [n for kind, nodes in parts.items() if kind.lowered_by for n in nodes]
    # The subject of a note is not executed.
    subjects = [n.node for n in parts.get(AttrStmt, ())]
    found += [n for n in subjects if isinstance(n, Node) and n.lowered_by]
    if found:
        raise CompileError.of(tuple(mistake_of_foreign(node) for node in found))
