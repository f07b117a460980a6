"""Limit the size to which a model may grow when its functions are expanded."""

from __future__ import annotations

from typing import Any, Final, cast

from loomir.frontend.onnx.model import GraphDef, ModelDef, NodeDef
from loomir.support.diagnostics import Diagnostic

__all__ = ["MOST_AXES", "MOST_NODES", "size_in_full", "too_large"]

MOST_AXES: Final = 64
"""The most axes of NumPy arrays."""
MOST_NODES: Final = 1_000_000


def size_in_full(model: ModelDef) -> int:
    """Count the nodes of a model with functions expanded; recursive ones count as too many."""
    sizes: dict[tuple[str, str], int] = {}
    active: set[tuple[str, str]] = set()
    for root in model.functions:
        todo = [root]
        while todo:
            key = todo[-1]
            if key in sizes:
                todo.pop()
                continue
            nodes = _flat(model.functions[key].nodes)
            inner = [k for k in map(_key, nodes) if k in model.functions]
            left = [k for k in inner if k not in sizes]
            if any(k in active or k == key for k in left):
                return MOST_NODES + 1
            if left:
                active.add(key)
                todo += dict.fromkeys(left)
                continue
            sizes[key] = min(len(nodes) + sum(sizes[k] for k in inner), MOST_NODES + 1)
            active.discard(key)
            todo.pop()
    nodes = _flat(model.graph.nodes)
    return len(nodes) + sum(sizes.get(_key(n), 0) for n in nodes)


def _key(node: NodeDef) -> tuple[str, str]:
    return node.domain, node.operator


def _flat(nodes: tuple[NodeDef, ...]) -> list[NodeDef]:
    """List nodes and those of the graphs in them."""
    found: list[NodeDef] = []
    todo = list(nodes)
    while todo:
        node = todo.pop()
        found.append(node)
        for value in node.attributes.values():
            inner = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
            for graph in inner:
                if isinstance(graph, GraphDef):
                    todo += graph.nodes
    return found


def too_large() -> Diagnostic:
    """Return the diagnostic of a model with too many nodes when functions are expanded."""
    return Diagnostic(
        "ONX0004",
        f"the model has more than {MOST_NODES} nodes where its functions are used",
        help="export it with its functions inlined",
    )
