"""Replace one node by another."""

from __future__ import annotations

from typing import Any

from loomir.ir.node import Node
from loomir.ir.visit import children, pre_order, rebuild

__all__ = ["replaced"]


def replaced(root: Node, old: Node, new: Node) -> Node:
    """Replace one node of a tree, by a walk without recursion."""
    parents: dict[int, Node] = {}
    for node in pre_order(root):
        for part in children(node):
            parents.setdefault(id(part), node)
    while old is not root:
        parent = parents[id(old)]
        changed: dict[str, object] = {}
        for field in parent.child_names:
            value: Any = getattr(parent, field)
            if value is old:
                changed[field] = new
            elif isinstance(value, tuple) and any(part is old for part in value):
                changed[field] = tuple(new if part is old else part for part in value)
        old, new = parent, rebuild(parent, changed)
    return new
