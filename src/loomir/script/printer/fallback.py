"""Print nodes for which TVMScript has no syntax, from their fields; such text does not parse."""

from __future__ import annotations

from enum import Enum
from typing import cast

from loomir.ir.node import Node, Role
from loomir.ir.visit import Step
from loomir.script.printer.doc import (
    CallDoc,
    CommentDoc,
    ExprDoc,
    IdDoc,
    ListDoc,
    ScopeDoc,
    StmtDoc,
    TupleDoc,
)
from loomir.script.printer.docsifier import Docsifier, expr_handler, stmt_handler
from loomir.script.printer.tir.buffer import bind_buffer, list_allocation_arguments
from loomir.script.printer.values import text, value_doc
from loomir.tir.buffer import Buffer, IterVar
from loomir.tir.expr import Var
from loomir.tir.stmt import BufferRealize, Stmt

__all__: list[str] = []


@expr_handler("default", Node)
def _expr(d: Docsifier, node: Node) -> Step[ExprDoc]:
    """Write ``tir.Class(field=value)``."""
    keywords: list[tuple[str, ExprDoc]] = []
    for field in node.node_fields:
        value = getattr(node, field.name)
        if field.name == "span" or value is None:
            continue
        keywords.append((field.name, (yield _value(d, value, field.role is Role.BINDS))))
    return CallDoc(_class(node), (), tuple(keywords))


def _class(node: Node) -> ExprDoc:
    package, _, name = node.node_kind.partition(".")
    return IdDoc(package).attr(name)


def _value(d: Docsifier, value: object, binds: bool) -> Step[ExprDoc]:
    if isinstance(value, (Var, Buffer)) and binds and d.find_known(value) is None:
        return d.declare(value, value.name_hint if isinstance(value, Var) else value.name)
    if isinstance(value, Enum):
        return text(str(value.value))
    if isinstance(value, (tuple, list)):
        items: list[ExprDoc] = []
        for item in cast("tuple[object, ...]", value):
            items.append((yield _value(d, item, binds)))
        return TupleDoc(tuple(items)) if isinstance(value, tuple) else ListDoc(tuple(items))
    if isinstance(value, Stmt):
        return text(f"<{value.node_kind}>")
    return (yield value_doc(d, value))


@stmt_handler("default", Node)
def _stmt(d: Docsifier, node: Node, tail: bool) -> Step[None]:
    """Write ``with tir.Class(field=value):`` around the statements among the fields."""
    keywords: list[tuple[str, ExprDoc]] = []
    inner: list[tuple[str, Stmt]] = []
    if isinstance(node, BufferRealize):
        args, named = yield list_allocation_arguments(d, node.buffer)
        name = bind_buffer(d, node.buffer, d.declare(node.buffer, node.buffer.name))
        keywords.append(("buffer", name))
        keywords += [("shape", args[0]), ("dtype", args[1]), *named.items()]
    for field in node.node_fields:
        value = getattr(node, field.name)
        if isinstance(value, Stmt):
            inner.append((field.name, value))
        elif field.name not in ("span", "buffer") and value is not None:
            keywords.append((field.name, (yield _value(d, value, field.role is Role.BINDS))))
    body: list[StmtDoc] = []
    for label, statement in inner:
        if len(inner) > 1:
            body.append(CommentDoc(label))
        body += yield d.body(statement, "scope")
    d.emit(CommentDoc(f"{node.node_kind} has no form in TVMScript"))
    d.emit(ScopeDoc(CallDoc(_class(node), (), tuple(keywords)), body))


@expr_handler("default", IterVar)
def _iter_var(d: Docsifier, node: IterVar) -> Step[ExprDoc]:
    return (yield _expr(d, node))
