"""Extents written as strings where Python evaluates an annotation: ``"n * 2"``."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import cast

from loomir.script.builder.mistakes import mistake
from loomir.script.parser import doc
from loomir.script.parser.convert import read_expression
from loomir.script.parser.evaluate.evaluator import ExprEvaluator
from loomir.script.parser.evaluate.namespaces import ModuleFunction, T
from loomir.script.parser.evaluate.plain_functions import PLAIN_FUNCTIONS
from loomir.support.dtype import DataType
from loomir.support.span import Source, Span
from loomir.tir.expr import PrimExpr, Var, convert

__all__ = ["read_extent"]


class _Extents:
    """Names in an extent: those of ``T``, and shape variables, declared by their use."""

    in_kernel = False

    def __init__(self, names: MutableMapping[str, Var]) -> None:
        self.names = names
        self.ignores_captured = True

    def lookup(self, node: doc.Name) -> object:
        if node.id == "T":
            return T
        found = PLAIN_FUNCTIONS.get(node.id)
        if found is not None:
            return found
        return self.names.setdefault(node.id, Var(node.id, DataType("int64")))

    def declare_shape_name(self, node: doc.Name, dtype: DataType) -> object:
        del dtype
        return self.lookup(node)

    def shape_scope(self) -> AbstractContextManager[object]:
        return nullcontext()

    def call_function(
        self,
        target: ModuleFunction,
        node: doc.Call,
        args: list[object],
        parts: Sequence[doc.ExprNode],
    ) -> PrimExpr:
        raise mistake("SCR0025", "an extent calls no functions", help="write arithmetic of extents")


def read_extent(text: str, names: Mapping[str, Var]) -> PrimExpr:
    """Return the extent that a string holds; new names in it are added to ``names``.

    Errors: those of expressions in a program.
    """
    span = Span(Source("<extent>", text), 1, 1, 1, len(text) + 1)
    found = _Extents(cast("MutableMapping[str, Var]", names))
    value = ExprEvaluator(found).evaluate(read_expression(text, span))
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return convert(value)
    raise mistake(
        "SCR0025",
        f"{text!r} is not an extent",
        help="write a number, a name, or arithmetic of both",
    )
