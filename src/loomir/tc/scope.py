"""Names and their meanings: sizes, tensors and index variables share one namespace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from loomir.support.span import Span
from loomir.tc.syntax import Ident
from loomir.tc.types import INDEX
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr, Var

__all__ = ["BrokenName", "Entry", "Indices", "Names", "Size", "Tensor"]


@dataclass(slots=True, eq=False)
class Size:
    """A size variable and what it stands for."""

    value: PrimExpr
    span: Span


@dataclass(slots=True, eq=False)
class Tensor:
    """A tensor: its memory, and its sizes as formulas of size variables."""

    name: str
    buffer: Buffer
    dims: tuple[PrimExpr, ...]
    span: Span
    writable: bool
    written: bool = False


@dataclass(slots=True, eq=False)
class BrokenName:
    """A name whose definition has a mistake, which is reported there."""

    span: Span


Entry: TypeAlias = Size | Tensor | BrokenName
Names: TypeAlias = dict[str, Entry]


def _empty() -> dict[str, Any]:
    return {}


@dataclass(slots=True, eq=False)
class Indices:
    """The index variables of one statement, in order of first appearance."""

    vars: dict[str, Var] = field(default_factory=_empty)
    spans: dict[str, Span] = field(default_factory=_empty)

    def use(self, name: str, span: Span) -> Var:
        """Return the variable of that name, new at its first use."""
        if name not in self.vars:
            self.vars[name] = Var(name, INDEX, span=span)
            self.spans[name] = span
        return self.vars[name]

    def use_ident(self, ident: Ident) -> Var:
        """Return the variable of a name where it stands."""
        return self.use(ident.name, ident.span)
