"""Traversal without recursion, derived from field roles.

Three engines, from the simplest: ``pre_order``/``post_order`` list nodes, ``rewrite`` rebuilds
bottom-up by a table of class to function, and ``trampoline`` runs visitors written as generators,
for those that need context: ``x = yield visit(child)`` asks for the result of visiting a child.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from loomir.ir.node import Node, Role

__all__ = [
    "Step",
    "children",
    "map_children",
    "nodes_in",
    "post_order",
    "pre_order",
    "rebuild",
    "rewrite",
    "trampoline",
]

_R = TypeVar("_R")
_N = TypeVar("_N", bound=Node)

Step: TypeAlias = Generator[Any, Any, _R]
"""A visitor in progress: yields the visitors of parts, returns its result."""


def nodes_in(value: object) -> Iterator[Node]:
    """List the nodes in a field's value: itself, or those in its tuples and mappings."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            if isinstance(item, Node):
                yield item
            elif item is not None:
                yield from nodes_in(item)
    elif isinstance(value, Mapping):
        for item in cast("Mapping[object, object]", value).values():
            yield from nodes_in(item)


def children(node: Node) -> list[Node]:
    """List the owned parts of a node, in field order."""
    found: list[Node] = []
    for name in node.child_names:
        value = getattr(node, name)
        if isinstance(value, Node):
            found.append(value)
        elif value is not None:
            found.extend(nodes_in(value))
    return found


def pre_order(root: Node) -> Iterator[Node]:
    """List ``root`` and all it owns, parents first, in program order."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        parts = children(node)
        parts.reverse()
        stack.extend(parts)


def post_order(root: Node) -> Iterator[Node]:
    """List ``root`` and all it owns, parts first, in program order."""
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
            continue
        stack.append((node, True))
        stack.extend((part, False) for part in reversed(children(node)))


def _map_value(value: object, fn: Callable[[Node], object]) -> object:
    """Map the nodes in a field's value; the same object comes back where nothing changed."""
    if isinstance(value, Node):
        return fn(value)
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        mapped = tuple([_map_value(item, fn) for item in items])
        return items if all(a is b for a, b in zip(items, mapped, strict=True)) else mapped
    if isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        made = {key: _map_value(item, fn) for key, item in table.items()}
        return table if all(made[key] is item for key, item in table.items()) else made
    return value


def rebuild(node: _N, changed: Mapping[str, object]) -> _N:
    """Make a copy of a node with some fields replaced; its constructor checks it again."""
    if not changed:
        return node
    values = {f.name: getattr(node, f.name) for f in node.node_fields}
    values.update(changed)
    return type(node)(**values)


def map_children(
    node: _N, fn: Callable[[Node], object], roles: tuple[Role, ...] = (Role.CHILD,)
) -> _N:
    """Replace each owned part by ``fn(part)``; ``node`` itself comes back where nothing changed."""
    changed: dict[str, object] = {}
    for field in node.scan:
        if field.role in roles:
            value = getattr(node, field.name)
            mapped = _map_value(value, fn)
            if mapped is not value:
                changed[field.name] = mapped
    return rebuild(node, changed)


Rule: TypeAlias = Callable[[Any], Node]


def rewrite(root: Node, table: Mapping[type, Rule]) -> Any:
    """Rebuild a tree bottom-up: the rule of a node's class is applied once its parts are rebuilt.

    A rule that returns its argument leaves it; untouched subtrees are shared with the old tree.
    """
    done: dict[int, Node] = {}
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        key = id(node)
        if key in done:
            continue
        if not ready:
            parts = children(node)
            if parts:
                stack.append((node, True))
                stack.extend((part, False) for part in reversed(parts))
                continue
        made = map_children(node, lambda part: done[id(part)])
        rule = table.get(type(made))
        done[key] = made if rule is None else rule(made)
    return done[id(root)]


def trampoline(start: Step[_R]) -> _R:
    """Run a generator visitor to its result, however deep the program.

    What it yields are the visitors of parts; an exception in one is raised at its parent's
    ``yield``.
    """
    stack: list[Generator[Any, Any, Any]] = [start]
    value: Any = None
    error: BaseException | None = None
    while stack:
        top = stack[-1]
        try:
            asked = top.send(value) if error is None else top.throw(error)
        except StopIteration as stop:
            stack.pop()
            value, error = stop.value, None
        except BaseException as raised:  # noqa: BLE001 - raised again in the visitor that asked
            stack.pop()
            value, error = None, raised
        else:
            stack.append(asked)
            value, error = None, None
    if error is not None:
        raise error
    return value
