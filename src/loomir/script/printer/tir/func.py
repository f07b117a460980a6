"""Print functions: parameters, buffers, attributes, the implicit root block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from loomir.ir.node import Node
from loomir.ir.visit import Step, by_class
from loomir.script.printer.doc import (
    AssignDoc,
    ExprDoc,
    ExprStmtDoc,
    FunctionDoc,
    IdDoc,
    LiteralDoc,
)
from loomir.script.printer.docsifier import Docsifier, FunctionName, stmt_handler
from loomir.script.printer.names import identifier
from loomir.script.printer.tir.block import emit_allocations
from loomir.script.printer.tir.buffer import (
    bind_buffer,
    buffer_arguments,
    is_static,
    list_allocation_arguments,
    owns_its_data,
)
from loomir.script.printer.tir.text import buffer_text
from loomir.script.printer.values import T, dict_doc, text, type_doc
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, BlockRealize, Stmt
from loomir.tir.types import PrimType, TupleType

__all__ = ["function_doc"]


_Parts: TypeAlias = Mapping[type[Node], list[Any]]
"""What a function's body is made of, by class."""


class _Root(NamedTuple):
    """What of a function's body is written, and whether a root block must not be put around it."""

    allocations: tuple[Buffer, ...]
    body: Stmt
    forbidden: bool


def _root(body: Stmt, parts: _Parts) -> _Root:
    """Take off the root block that parsing puts back.

    It comes back around a body that realizes a block or allocates at function level, unless that
    body is itself a block named ``root`` without iterators and predicate.
    """
    if isinstance(body, BlockRealize) and _is_root(body):
        block = body.block
        comes_back = bool(block.alloc_buffers) or _has_block(by_class(block.body))
        looks_like_root = isinstance(block.body, BlockRealize) and _is_root(block.body)
        plain = not (
            block.reads or block.writes or block.init or block.match_buffers or block.annotations
        )
        if plain and comes_back and not looks_like_root:
            return _Root(block.alloc_buffers, block.body, False)
        return _Root((), body, False)
    return _Root((), body, _has_block(parts))


def _is_root(body: BlockRealize) -> bool:
    always = isinstance(body.predicate, IntImm) and body.predicate.value == 1
    return not body.values and body.block.name_hint == "root" and always


def _has_block(parts: _Parts) -> bool:
    return BlockRealize in parts or Block in parts


def function_doc(d: Docsifier, func: PrimFunc, name: str, global_name: str) -> Step[FunctionDoc]:
    """Ask for a function's definition.

    ``name`` is the definition's, ``global_name`` what the module calls the function.
    """
    with d.token("tir"), d.frame("function") as frame:
        parts = by_class(func.body)
        root = _root(func.body, parts)
        # The order in which names are taken: parameters, so that they keep theirs, then the rest.
        parameters, matched = yield _parameters(d, func, parts)
        symbol = func.attrs.get("global_symbol")
        attrs = {k: v for k, v in func.attrs.items() if k != "global_symbol"}
        if symbol is not None and (not isinstance(symbol, str) or symbol != global_name):
            attrs["global_symbol"] = symbol
        if attrs:
            table = yield dict_doc(d, attrs)
            d.emit(ExprStmtDoc(T.attr("func_attr").call(table)))
        for param in matched:
            yield _match_buffer(d, param, func.buffer_map[param])
        if root.allocations:
            yield emit_allocations(d, root.allocations)
        yield d.stmt(root.body, True)
    options: dict[str, ExprDoc] = {}
    if symbol is None:
        options["private"] = LiteralDoc(True)
    if name != global_name:
        options["name"] = text(global_name)
    if root.forbidden:
        options["root_block"] = LiteralDoc(False)
    decorator = T.attr("prim_func")
    returns = None if _is_void(func) else type_doc(func.ret_type)
    return FunctionDoc(
        name,
        parameters,
        frame.statements,
        (decorator.call(**options) if options else decorator,),
        returns,
    )


def _is_void(func: PrimFunc) -> bool:
    return isinstance(func.ret_type, TupleType) and not func.ret_type.fields


def _parameters(
    d: Docsifier, func: PrimFunc, parts: _Parts
) -> Step[tuple[list[AssignDoc], list[Var]]]:
    """Ask for the parameters, and those whose buffers are matched in the body."""
    mentioned = set(map(id, parts.get(Var, ())))
    parameters: list[AssignDoc] = []
    matched: list[Var] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None and id(param) not in mentioned and _fits_annotation(d, param, buffer):
            annotation: ExprDoc | None = buffer_text(d, buffer)
            if annotation is None:
                args, keywords = yield buffer_arguments(d, buffer)
                annotation = T.attr("Buffer").call(*args, **keywords)
            name = d.define(buffer, buffer.name)
            bind_buffer(d, buffer, name)
        else:
            hint = param.name_hint
            if buffer is not None:
                matched.append(param)
                hint = f"{hint}_handle" if identifier(hint) == identifier(buffer.name) else hint
            name = d.define(param, hint)
            annotation = type_doc(param.type_annotation)
        parameters.append(AssignDoc(name, None, annotation))
    return parameters, matched


def _fits_annotation(d: Docsifier, param: Var, buffer: Buffer) -> bool:
    """Tell whether ``T.Buffer`` in the signature makes this parameter and its buffer."""
    return (
        isinstance(param.type_annotation, PrimType)
        and d.find_known(buffer) is None
        and is_static(buffer)
        and owns_its_data(d, buffer)
    )


def _match_buffer(d: Docsifier, param: Var, buffer: Buffer) -> Step[None]:
    args, keywords = yield list_allocation_arguments(d, buffer)
    name = bind_buffer(d, buffer, d.declare(buffer, buffer.name))
    source = yield d.expr(param)
    d.emit(AssignDoc(name, T.attr("match_buffer").call(source, *args, **keywords)))


@stmt_handler("tir", PrimFunc)
def _prim_func(d: Docsifier, node: PrimFunc, tail: bool) -> Step[None]:
    """Write a function outside of a module."""
    name = identifier(node.name)
    name = d.names.take(name)
    d.functions = {node.name: FunctionName(IdDoc(name), node)}
    d.emit((yield function_doc(d, node, name, node.name)))
