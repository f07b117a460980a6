"""A mistake's place in the syntax tree, and what stands there as text."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, Final

from loomir.script.parser.convert import Places
from loomir.support.diagnostics import Diagnostic

__all__ = ["AXES", "LONGEST", "Spot", "write_arguments", "write_text"]

LONGEST: Final = 60
AXES: Final = "ijklmn"


@dataclass(frozen=True)
class Spot:
    """A mistake's nodes: what stands at its place, the inner first, and what is around."""

    problem: Diagnostic
    here: tuple[ast.AST, ...]
    around: tuple[ast.AST, ...]
    tree: ast.AST
    places: Places

    @property
    def node(self) -> Any:
        """The outer node of those at the place."""
        return self.here[-1]

    @property
    def parent(self) -> Any:
        """The node around."""
        return self.around[0] if self.around else None

    @property
    def function(self) -> ast.FunctionDef | None:
        """The function around."""
        return next((n for n in self.around if isinstance(n, ast.FunctionDef)), None)

    @property
    def is_graph(self) -> bool:
        """Whether that function is a graph: what is above it says so, or what it is made of."""
        function = self.function
        if function is None:
            return False
        above = self.places.lines[: function.lineno - 1]
        marks = [line.strip() for line in reversed(above)]
        marks = marks[: next((i for i, line in enumerate(marks) if line[:1] != "@"), len(marks))]
        if any(re.match(r"@\w+\.(function|prim_func)\b", mark) for mark in marks):
            return not any("prim_func" in mark for mark in marks)
        return re.search(r"\bR\.\w", ast.unparse(function)) is not None


def write_text(node: Any) -> str:
    """Return what a node reads, or dots where that is long."""
    try:
        text = ast.unparse(node)
    except RecursionError:  # deeper than anybody reads
        return "..."
    text = text if '"' in text else text.replace("'", '"')
    return text if len(text) <= LONGEST and "\n" not in text else "..."


def write_arguments(call: ast.Call, words: dict[str, str] | None = None) -> str:
    """Return the arguments of a call as text, with other names for keywords."""
    parts = [write_text(a) for a in call.args]
    for word in call.keywords:
        name = word.arg if words is None or word.arg is None else words.get(word.arg, word.arg)
        parts.append(f"{name}={write_text(word.value)}" if name else f"**{write_text(word.value)}")
    return ", ".join(parts)
