"""Free names and substitution, derived from field roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from loomir.ir.node import Node, Role
from loomir.ir.visit import map_children, nodes_in, pending_in, plan_of, pre_order, remade

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
    keep: list[Node] = list(mapping)
    compound: dict[int, Node] = {}
    made = _replace(root, table, compound)
    for definition in compound.values():
        if id(definition) not in table and _may_mention(definition, table):
            new = _redefined(definition, table)
            if new is not definition:
                table[id(definition)] = new
                keep.append(definition)
    if len(table) > len(mapping):
        made = _replace(root, table, {})
    return cast("_N", made)


def _may_mention(definition: Node, table: Mapping[int, Node]) -> bool:
    """Tell whether a definition's own expressions have a replaced name in them, or may have."""
    for field in definition.scan:
        for held in nodes_in(getattr(definition, field.name)):
            for part in pre_order(held):
                if id(part) in table or plan_of(part.__class__).get_refs is not None:
                    return True
    return False


def _redefined(definition: Node, table: dict[int, Node]) -> Node:
    """Replace names in a definition that contains expressions of its own (a buffer)."""
    return map_children(
        definition,
        lambda part: _replace(part, table, {}),
        (Role.CHILD, Role.USES, Role.BINDS),
    )


def _replace(root: Node, table: dict[int, Node], compound: dict[int, Node]) -> Node:
    """Replace names; ``compound`` collects the definitions that contain expressions."""
    done: dict[int, Any] = {id(None): None, **table}
    # None in the stack says that the parts of the node below it are done.
    stack: list[Node | None] = [root]
    while stack:
        node = stack.pop()
        if node is not None:
            if id(node) in done:
                continue
            plan = plan_of(node.__class__)
            pending: list[Node | None] = []
            for value in plan.get(node):
                if id(value) in done:
                    continue
                if not isinstance(value, Node):
                    pending.extend(pending_in(value, done))
                elif value.child_names or not plan_of(value.__class__).leaf:
                    pending.append(value)
                else:
                    done[id(value)] = value
            if pending:
                stack += (node, None)
                stack += pending
                continue
        else:
            node = stack.pop()
            assert node is not None
            plan = plan_of(node.__class__)
        made = remade(node, plan, done)
        if node.is_definition and node.scan:  # a variable whose annotation has names in it
            compound[id(node)] = node
        elif plan.get_refs is not None and _refers(plan.get_refs(node), table, compound):
            made = map_children(made, lambda part: _referred(part, table), (Role.USES, Role.BINDS))
        done[id(node)] = made
    return done[id(root)]


def _refers(values: tuple[Any, ...], table: Mapping[int, Node], compound: dict[int, Node]) -> bool:
    """Tell whether some reference is to be replaced."""
    found = False
    for value in values:
        for part in (value,) if isinstance(value, Node) else nodes_in(value):
            if id(part) in table:
                found = True
            if part.scan and part.is_definition:
                compound[id(part)] = part
    return found


def _referred(part: Node, table: dict[int, Node]) -> Node:
    """Replace a reference; only a definition can stand where one is referred to."""
    made = table.get(id(part), part)
    return made if made.is_definition else part
