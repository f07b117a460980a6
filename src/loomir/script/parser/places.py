"""Source positions: the expression from which a node comes, and the one that a mistake is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from loomir.ir.node import Node, reset
from loomir.script.builder.frame import Frame
from loomir.script.builder.mistakes import ArgumentError, with_span
from loomir.script.parser import doc
from loomir.support.diagnostics import CompileError
from loomir.support.span import Span
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr, Var

__all__ = ["blame", "set_span"]


def set_span(made: object, span: Span, given: Sequence[object]) -> object:
    """Return a new node its place; what was given is left as it is."""
    if isinstance(made, PrimExpr):
        known: Any = made  # every class of expressions but the root has a span
        if known.span is None and type(made) is not Var:
            for value in given:
                if value is made:
                    return made
            reset(made, "span", span)
        return made
    if isinstance(made, Frame):
        frame = cast("Frame[Any]", made)
        if frame.span is None:
            frame.span = span
        return frame
    if isinstance(made, Node) and getattr(made, "span", span) is None:
        is_new = not any(made is value for value in given)
        if (not made.is_definition and is_new) or (isinstance(made, Buffer) and not made.name):
            reset(made, "span", span)
    return made


def blame(
    error: CompileError, span: Span, values: Sequence[object], parts: Sequence[doc.ExprNode]
) -> CompileError:
    """Place an error at the argument that it blames, or at the whole expression."""
    if isinstance(error, ArgumentError):
        # Equal numbers are one object: the last argument is the likeliest.
        given = list(zip(values, parts, strict=True))
        given.reverse()
        for value, part in given:
            if value is error.culprit:
                return with_span(error, index_span(part, error.axis))
        for value, part in given:
            if not isinstance(value, (tuple, list)):
                continue
            items = list(cast("tuple[object, ...]", value))
            inner = part.elts if isinstance(part, (doc.Tuple, doc.List)) else [part] * len(items)
            for item_, at in zip(items, inner, strict=True):
                if item_ is error.culprit:
                    return with_span(error, index_span(at, error.axis))
    return with_span(error, span)


def index_span(node: doc.AST, axis: int | None) -> Span:
    """Return the place of one index of an access, or of all of it."""
    if axis is None or not isinstance(node, doc.Subscript):
        return node.span
    parts = node.slice.elts if isinstance(node.slice, doc.Tuple) else [node.slice]
    return parts[axis].span if axis < len(parts) else node.span
