"""Free names and substitution, derived from field roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from loomir.ir.node import Node, Role
from loomir.ir.visit import map_children, mapped_values, nodes_in, pending_parts, plan_of

__all__ = ["free_definitions", "substitute"]

_N = TypeVar("_N", bound=Node)


def free_definitions(root: Node) -> list[Node]:
    """List the variables and buffers that ``root`` refers to but does not define, in order of use.

    A buffer counts, and so do the names in its shape, strides and offset where it is free.
    """
    bound: set[int] = set()
    seen: set[int] = set()
    free: list[Node] = []
    # (node, whether names in it are being defined); None ends the scope of what was defined last
    stack: list[tuple[Node | None, bool, list[int]]] = [(root, False, [])]
    while stack:
        node, defining, defined = stack.pop()
        if node is None:
            bound.difference_update(defined)
            continue
        if node.is_definition:
            if id(node) in bound:
                continue
            if defining:
                bound.add(id(node))
                defined.append(id(node))
            elif id(node) not in seen:
                seen.add(id(node))
                free.append(node)
            else:
                continue
        # What an iterator binds is in scope in the block that owns it.
        lends = defining or node.lends_scope
        scope: list[int] = defined if lends else []
        if not lends:
            stack.append((None, False, scope))
        parts: list[tuple[Node | None, bool, list[int]]] = []
        for field in node.scan:
            binding = defining or field.role is Role.BINDS
            # What a definition refers to (a buffer's data) is visited, but its uses define nothing.
            for part in nodes_in(getattr(node, field.name)):
                parts.append((part, binding, scope))
        parts.reverse()
        stack.extend(parts)
    return free


def substitute(root: _N, mapping: Mapping[Any, Node]) -> _N:
    """Replace uses of variables (and buffers) by what ``mapping`` gives for them.

    A buffer whose shape, strides or offset mentions a replaced variable is replaced as well.
    Nothing can be captured, since definitions are objects and not names.
    """
    if not mapping:
        return root
    table: dict[int, Node] = {id(key): value for key, value in mapping.items()}
    keep = list(mapping)
    for definition in _compound_definitions(root):
        if id(definition) not in table:
            made = map_children(
                definition,
                lambda part: _replace(part, table),
                (Role.CHILD, Role.USES, Role.BINDS),
            )
            if made is not definition:
                table[id(definition)] = made
                keep.append(definition)
    return cast("_N", _replace(root, table))


def _compound_definitions(root: Node) -> list[Node]:
    """List the definitions that contain expressions of their own (buffers)."""
    found: dict[int, Node] = {}
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        cls = node.__class__
        plan = plan_of(cls)
        if plan.leaf or id(node) in seen:
            continue
        seen.add(id(node))
        stack.extend(pending_parts(plan.get(node), seen))
        if plan.get_refs is not None:
            for value in plan.get_refs(node):
                for part in (value,) if isinstance(value, Node) else nodes_in(value):
                    if part.is_definition and part.scan and id(part) not in found:
                        found[id(part)] = part
    return list(found.values())


def _replace(root: Node, table: dict[int, Node]) -> Node:
    done: dict[int, Node] = dict(table)
    stack: list[Node] = [root]
    while stack:
        node = stack[-1]
        key = id(node)
        if key in done:
            stack.pop()
            continue
        cls = node.__class__
        plan = plan_of(cls)
        made = node
        if not plan.leaf:
            values = plan.get(node)
            pending = pending_parts(values, done)
            if pending:
                pending.reverse()
                stack.extend(pending)
                continue
            new = mapped_values(values, done)
            if new is not None:
                made = plan.remake(node, cls.child_names, new)
            if plan.get_refs is not None:
                made = map_children(
                    made, lambda part: _referred(part, table), (Role.USES, Role.BINDS)
                )
        stack.pop()
        done[key] = made
    return done[id(root)]


def _referred(part: Node, table: dict[int, Node]) -> Node:
    """Replace a reference; only a definition can stand where one is referred to."""
    made = table.get(id(part), part)
    return made if made.is_definition else part
