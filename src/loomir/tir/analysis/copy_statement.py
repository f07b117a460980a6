"""Copy statements with fresh definitions, so that each variable is still bound only once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loomir.ir.node import Node, Role
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import by_class, nodes_in, pre_order
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Var
from loomir.tir.stmt import AttrStmt, Block, DeclBuffer, Stmt

__all__ = ["definitions_in", "fresh_buffer", "fresh_copies", "fresh_copy", "fresh_var"]


def definitions_in(root: Node) -> list[Node]:
    """List the variables and buffers that a program binds, in order."""
    found: dict[int, Node] = {}
    for part in pre_order(root):
        if isinstance(part, AttrStmt) and not part.is_binding:
            continue
        for field in part.scan:
            if field.role is Role.BINDS:
                for definition in nodes_in(getattr(part, field.name)):
                    if definition.is_definition:
                        found.setdefault(id(definition), definition)
    return list(found.values())


def fresh_var(var: Var) -> Var:
    """Make a variable of the same name and type."""
    return Var(var.name_hint, type_annotation=var.type_annotation, span=var.span)


def fresh_buffer(buffer: Buffer) -> Buffer:
    """Make a buffer like another one, on the same data."""
    return Buffer(
        buffer.data,
        buffer.dtype,
        buffer.shape,
        buffer.axis_separators,
        buffer.strides,
        buffer.elem_offset,
        buffer.name,
        buffer.data_alignment,
        buffer.offset_factor,
        buffer.buffer_type,
        span=buffer.span,
    )


def fresh_copy(body: Stmt, mapping: Mapping[Any, Node]) -> Stmt:
    """Copy a statement, with new definitions in place of those that it binds.

    ``mapping`` has other replacements, such as one for the variable of an unrolled loop.
    """
    return next(fresh_copies(body, [mapping]))


def fresh_copies(body: Stmt, mappings: Iterable[Mapping[Any, Node]]) -> Iterator[Stmt]:
    """Copy a statement once for each mapping, as ``fresh_copy`` does."""
    found = definitions_in(body)
    besides = _definitions_of_buffers(found, body)
    for mapping in mappings:
        table: dict[Any, Node] = dict(mapping)
        for definition in (*found, *besides):
            if isinstance(definition, Var):
                table[definition] = fresh_var(definition)
        variables = dict(table)
        for definition in found:
            if isinstance(definition, Buffer):
                made = substitute(definition, variables)
                table[definition] = fresh_buffer(made) if made is definition else made
        yield substitute(body, table)


def _definitions_of_buffers(found: Sequence[Node], body: Stmt) -> list[Var]:
    """List what buffers bind besides themselves: data, and sizes and strides that are variables.

    A declared buffer lies in memory that exists already, and its fields use what is in scope; so
    does the size of one that a block allocates.
    """
    declared = {id(s.buffer) for s in by_class(body).get(DeclBuffer, ())}
    buffers = [d for d in found if isinstance(d, Buffer) and id(d) not in declared]
    if not buffers:
        return []
    free = set(free_definitions(body))
    allocated = {id(b) for s in by_class(body).get(Block, ()) for b in s.alloc_buffers}
    parts = [
        (b.data,) if id(b) in allocated else (b.data, *b.shape, *b.strides, b.elem_offset)
        for b in buffers
    ]
    return [v for row in parts for v in row if isinstance(v, Var) and v not in free]
