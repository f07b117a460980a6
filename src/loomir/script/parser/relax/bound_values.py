"""Evaluate what statements of Relax bind, and bind it."""

from __future__ import annotations

from loomir.ir.equality import structural_equal
from loomir.ir.node import reset
from loomir.relax.expr import Var
from loomir.relax.node import Expr, StructInfo
from loomir.script.builder.mistakes import with_span
from loomir.script.builder.relax.frames import (
    sequence,
)
from loomir.script.builder.relax.values import as_value
from loomir.script.parser import doc
from loomir.script.parser.core import Parser
from loomir.script.parser.places import blame
from loomir.script.parser.relax.values import (
    AnnotatedValue,
    Cast,
    RelaxValues,
    emit_at,
    unwrap,
)
from loomir.support.diagnostics import CompileError
from loomir.support.span import Span

__all__ = ["dialect_of", "emit_value", "evaluate_bound"]


def dialect_of(parser: Parser) -> RelaxValues:
    """Return the dialect by which a parser reads Relax."""
    found = parser.evaluator.dialect
    assert isinstance(found, RelaxValues)
    return found


def evaluate_bound(parser: Parser, node: doc.ExprNode, *, is_statement: bool = False) -> object:
    """Return the value of what a statement binds: a call is not bound yet."""
    dialect = dialect_of(parser)
    dialect.tops = _tops(node)
    dialect.origin = None
    try:
        value = parser.evaluator.evaluate_statement(node) if is_statement else parser.evaluate(node)
    finally:
        dialect.tops = ()
    return value


def _tops(node: doc.ExprNode) -> tuple[doc.ExprNode, ...]:
    """List the expressions that give the value of one: what a choice or ``R.emit`` is of."""
    found: list[doc.ExprNode] = []
    stack = [node]
    while stack:
        part = stack.pop()
        found.append(part)
        if isinstance(part, doc.IfExp):
            stack += (part.body, part.orelse)
        elif isinstance(part, doc.Call) and isinstance(part.func, doc.Attribute):
            stack += part.args[:1] if part.func.attr == "emit" else ()
    return tuple(found)


def emit_value(
    parser: Parser,
    value: object,
    name: str,
    node: doc.ExprNode,
    info: StructInfo | None = None,
    at: Span | None = None,
) -> Var:
    """Bind a value that ``evaluate_bound`` gave."""
    if isinstance(value, AnnotatedValue):
        value, info = value.value, value.info if info is None else info
    if isinstance(value, Cast):
        frame = sequence("R.match_cast")
        try:
            var = frame.match_cast(value.value, value.info, name, at)
            if info is None or structural_equal(info, value.info):
                return var
            return frame.emit(var, name, info, at)
        except CompileError as error:
            raise with_span(error, node.span) from error
    origin = dialect_of(parser).origin
    values, parts = ((value,), (node,)) if origin is None or origin[0] is not value else origin[1:]
    try:
        made = as_value(unwrap(value))
    except CompileError as error:
        raise blame(error, node.span, (value,), (node,)) from error
    if isinstance(made, Expr) and made.span is None and not isinstance(made, Var):
        reset(made, "span", node.span)
    return emit_at(made, name, node.span, values, parts, info, at)
