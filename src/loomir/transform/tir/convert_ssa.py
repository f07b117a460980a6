"""Rename variables and buffers so that each is bound in one place."""

from __future__ import annotations

from typing import Any

from loomir.ir.node import Node, Role
from loomir.ir.passes import register
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import Step, nodes_in, pre_order, rebuild, trampoline
from loomir.tir.analysis.copy_statement import fresh_buffer, fresh_var
from loomir.tir.buffer import Buffer, MatchBufferRegion
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import AttrStmt, Block, BufferRealize, DeclBuffer

__all__ = ["convert_ssa"]


@register("tir.ConvertSSA")
def convert_ssa(func: PrimFunc) -> PrimFunc:
    """Rename variables and buffers that are bound again, in a sibling or inner scope.

    Programs built from parts may contain a part twice; all other passes rely on each variable being
    bound once. Source: decision T49.
    """
    seen: set[int] = set()
    for part in pre_order(func):
        for definition in _list_bound_by(part):
            if id(definition) in seen:
                return trampoline(_Renamer().visit(func))
            seen.add(id(definition))
    return func


def _list_bound_by(node: Node) -> list[Node]:
    """List what a node binds for itself or its owner, pointers before the buffers on them."""
    found: list[Node] = []
    if isinstance(node, AttrStmt) and not node.is_binding:
        return found
    for field in node.scan:
        if field.role is Role.BINDS:
            for part in nodes_in(getattr(node, field.name)):
                if isinstance(part, Buffer) and not isinstance(node, DeclBuffer):
                    found.append(part.data)
                if part.is_definition:
                    found.append(part)
    if isinstance(node, PrimFunc):
        known = {id(part) for part in found}
        for buffer in node.buffer_map.values():
            for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                if isinstance(e, Var) and id(e) not in known:
                    known.add(id(e))
                    found.append(e)
    elif isinstance(node, (BufferRealize, MatchBufferRegion)):
        # New names in the shape are renamed with the buffer if it is repeated.
        pass
    return found


class _Renamer:
    """One walk in program order: the names bound so far, and their present replacements."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.now: dict[int, Node] = {}
        self.keep: list[Node] = []

    def _bind(self, node: Node) -> list[tuple[Node, Node | None]]:
        """Enter the bindings of a node; return the previous replacements."""
        before: list[tuple[Node, Node | None]] = []
        for definition in _list_bound_by(node):
            before.append((definition, self.now.get(id(definition))))
            again = id(definition) in self.seen
            self.seen.add(id(definition))
            if isinstance(definition, Var):
                made: Node = fresh_var(definition) if again else definition
            else:
                assert isinstance(definition, Buffer)
                made = self._current(definition)
                if made is definition and again:
                    made = fresh_buffer(definition)
            self.keep.append(made)
            self.now[id(definition)] = made
        return before

    def _current(self, buffer: Buffer) -> Buffer:
        """Return a buffer with the present names of its data and shape."""
        names = {
            name: self.now[id(name)]
            for name in free_definitions(buffer)
            if self.now.get(id(name), name) is not name
        }
        names.pop(buffer, None)
        return substitute(buffer, names)

    def visit(self, node: Any) -> Step[Any]:
        """Apply the renamings in a node."""
        if isinstance(node, Var):
            return self.now.get(id(node), node)
        if not node.scan:
            return node
        inside = isinstance(node, (Block, PrimFunc))
        binders = [node]
        if isinstance(node, Block):
            binders += [*node.iter_vars, *node.match_buffers]
        changed: dict[str, object] = {}
        before: list[tuple[Node, Node | None]] = []
        if not inside:
            for name in node.child_names:
                if name != "body":
                    yield from self._field(node, name, changed)
        if not node.lends_scope:
            for binder in binders:
                before += self._bind(binder)
        for name in node.child_names:
            if inside or name == "body":
                yield from self._field(node, name, changed)
        for field in node.scan:
            if field.role is not Role.CHILD:
                value = getattr(node, field.name)
                made = self._rename(value)
                if made is not value:
                    changed[field.name] = made
        for definition, old in reversed(before):
            if old is None:
                self.now.pop(id(definition))
            else:
                self.now[id(definition)] = old
        return rebuild(node, changed)

    def _field(self, node: Any, name: str, changed: dict[str, object]) -> Step[None]:
        value = getattr(node, name)
        if isinstance(value, Node):
            made: Any = yield self.visit(value)
        elif isinstance(value, tuple) and value:
            made = yield self._items(value)  # type: ignore[arg-type]
        else:
            return
        if made is not value:
            changed[name] = made

    def _items(self, items: tuple[Any, ...]) -> Step[tuple[Any, ...]]:
        made: list[Any] = []
        for item in items:
            made.append((yield self.visit(item)))
        same = all(a is b for a, b in zip(made, items))
        return items if same else tuple(made)

    def _rename(self, value: Any) -> Any:
        """Apply the renamings in a field."""
        if isinstance(value, Node):
            return self.now.get(id(value), value)
        if isinstance(value, tuple):
            made = tuple(self._rename(item) for item in value)  # type: ignore[misc]
            return value if all(a is b for a, b in zip(made, value)) else made  # type: ignore[arg-type]
        if isinstance(value, dict):
            table = {self._rename(k): self._rename(v) for k, v in value.items()}  # type: ignore[misc]
            same = all(table.get(k) is v for k, v in value.items())  # type: ignore[misc]
            return value if same else table  # type: ignore[return-value]
        return value
