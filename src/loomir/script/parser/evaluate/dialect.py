"""What the evaluator of expressions asks the parser, and a dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from loomir.script.parser import doc
from loomir.script.parser.evaluate.namespaces import (
    Macro,
    ModuleFunction,
)
from loomir.support.dtype import DataType
from loomir.tir.expr import PrimExpr

__all__ = ["Dialect", "Expansion", "Names", "PoisonedValue"]


class Expansion(NamedTuple):
    """The call of a macro, which stands for statements."""

    macro: Macro
    node: doc.Call
    args: list[object]
    keywords: dict[str, object]


class PoisonedValue(Exception):
    """Something that was refused, and reported, is used."""


class Names(Protocol):
    """What the evaluator asks the parser."""

    ignores_captured: bool  # strings in shapes name what is the program's own (S10)

    @property
    def in_kernel(self) -> bool:
        """Whether a function of TIR is read."""
        ...

    def lookup(self, node: doc.Name) -> object:
        """Return what a name means. Errors: SCR0003."""
        ...

    def declare_shape_name(self, node: doc.Name, dtype: DataType) -> object:
        """Return what a name in a shape means, declaring it of a dtype where nothing does."""
        ...

    def shape_scope(self) -> AbstractContextManager[object]:
        """Declare names in shapes for the body of ``with`` only."""
        ...

    def call_function(
        self,
        target: ModuleFunction,
        node: doc.Call,
        args: list[object],
        parts: Sequence[doc.ExprNode],
    ) -> PrimExpr:
        """Make the call of a function of the module."""
        ...


class Dialect(Protocol):
    """What a dialect makes of values of its own, where it has some."""

    def holds(self, value: object) -> bool:
        """Whether a value is one of the dialect's."""
        ...

    def operator(self, op: str, operands: Sequence[object]) -> object:
        """Apply an operator."""
        ...

    def item(self, value: object, index: object) -> object:
        """Return an element."""
        ...

    def call(self, func: object, args: list[object], keywords: dict[str, object]) -> object:
        """Call a value of the dialect's, or a function with arguments made fit for it."""
        ...

    def make_value(
        self,
        value: object,
        node: doc.ExprNode,
        values: Sequence[object],
        parts: Sequence[doc.ExprNode],
    ) -> object:
        """Return what stands for a new value within an expression."""
        ...

    def module(self, name: str) -> object:
        """Return what the name of a module of Python's stands for, or MISSING."""
        ...

    def attribute(self, value: object, name: str) -> object:
        """Return an attribute of a value that only the dialect knows, or MISSING."""
        ...

    def plain(self, func: object) -> Callable[..., object] | None:
        """Return a function on plain values that only the dialect knows, or None."""
        ...
