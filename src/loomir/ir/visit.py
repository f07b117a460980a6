"""Traversal without recursion, derived from field roles.

Four engines, from the simplest: ``pre_order``/``post_order`` list nodes, ``fold`` computes a
value from the values of the parts, ``rewrite`` rebuilds bottom-up by a table of class to
function, and ``trampoline`` runs visitors written as generators, for those that need context: ``x
= yield visit(child)`` asks for the result of visiting a child. A node that occurs in several
places is folded and rewritten once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from operator import attrgetter, is_
from typing import Any, Final, TypeAlias, TypeVar, cast

from loomir.ir.node import Node, Role

__all__ = [
    "Plan",
    "Step",
    "children",
    "fold",
    "map_children",
    "nodes_in",
    "plan_of",
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

Getter: TypeAlias = Callable[[Any], "tuple[Any, ...]"]


def _getter(names: tuple[str, ...]) -> Getter:
    """Make a function that reads several fields at once."""
    if not names:
        return lambda node: ()
    if len(names) == 1:
        only = attrgetter(names[0])
        return lambda node: (only(node),)
    return attrgetter(*names)


class Plan:
    """How nodes of one class are read and remade; computed once for each class."""

    __slots__ = (
        "_arguments",
        "_cls",
        "_keywords",
        "_places",
        "get",
        "get_attrs",
        "get_refs",
        "leaf",
    )

    get: Getter
    """Reads the fields that own parts."""
    get_refs: Getter | None
    """Reads the fields that define or refer to definitions, None where the class has none."""
    get_attrs: Getter
    leaf: bool
    """Whether nodes of the class own no parts and refer to nothing."""

    def __init__(self, cls: type[Node]) -> None:
        refs = tuple(f.name for f in cls.node_fields if f.role in (Role.BINDS, Role.USES))
        names = tuple(f.name for f in cls.node_fields)
        positional = tuple(name for name in names if name != "span")
        self._cls: Callable[..., Any] = cls
        self._arguments = _getter(positional)
        self._keywords = "span" in names
        self._places = {name: i for i, name in enumerate(positional)}
        self.get = _getter(cls.child_names)
        self.get_refs = _getter(refs) if refs else None
        self.get_attrs = _getter(tuple(f.name for f in cls.node_fields if f.role is Role.ATTR))
        self.leaf = not cls.child_names and not refs

    def remake(self, node: Any, names: tuple[str, ...], values: list[Any]) -> Any:
        """Make a node with some fields replaced; its constructor checks it again."""
        arguments = list(self._arguments(node))
        for name, value in zip(names, values):
            arguments[self._places[name]] = value
        if self._keywords:
            return self._cls(*arguments, span=node.span)
        return self._cls(*arguments)


_PLANS: Final[dict[type, Plan]] = {}


def plan_of(cls: type[Node]) -> Plan:
    """Give the plan of a class."""
    found = _PLANS.get(cls)
    if found is None:
        found = _PLANS[cls] = Plan(cls)
    return found


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
    cls = node.__class__
    plan = _PLANS.get(cls) or plan_of(cls)
    found: list[Node] = []
    for value in plan.get(node):
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


def fold(root: Node, fn: Callable[[Any, list[_R]], _R]) -> _R:
    """Compute ``fn(node, values of its parts)`` bottom-up, parts in program order; gives the root's."""
    done: dict[int, _R] = {}
    stack: list[Node] = [root]
    waiting: dict[int, list[Node]] = {}
    while stack:
        node = stack[-1]
        key = id(node)
        if key in done:
            stack.pop()
            continue
        parts = waiting.pop(key, None)
        if parts is None:
            parts = children(node)
            pending = [part for part in parts if id(part) not in done]
            if pending:
                waiting[key] = parts
                pending.reverse()
                stack.extend(pending)
                continue
        stack.pop()
        done[key] = fn(node, [done[id(part)] for part in parts])
    return done[id(root)]


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


def pending_parts(values: tuple[Any, ...], done: Mapping[int, object]) -> list[Node]:
    """List the nodes in fields' values that are not done yet."""
    pending: list[Node] = []
    for value in values:
        if value is None:
            continue
        kind = value.__class__
        if kind is tuple:
            for item in value:
                if isinstance(item, Node):
                    if id(item) not in done:
                        pending.append(item)
                elif item is not None:
                    pending.extend(part for part in nodes_in(item) if id(part) not in done)
        elif isinstance(value, Node):
            if id(value) not in done:
                pending.append(value)
        elif value:
            pending.extend(part for part in nodes_in(value) if id(part) not in done)
    return pending


def mapped_values(values: tuple[Any, ...], done: Mapping[int, Any]) -> list[Any] | None:
    """Replace the nodes in fields' values by what was made of them; None where nothing changed."""
    made: list[Any] = []
    changed = False
    for value in values:
        new = value
        if isinstance(value, Node):
            new = done[id(value)]
        elif value:
            try:
                new = tuple([done[id(item)] for item in value])
                if all(map(is_, new, value)):
                    new = value
            except (KeyError, TypeError):  # not a flat tuple of nodes
                new = _map_value(value, lambda part: done[id(part)])
        made.append(new)
        changed = changed or new is not value
    return made if changed else None


def rewrite(root: _N, table: Mapping[type, Rule]) -> Any:
    """Rebuild a tree bottom-up: a class in ``table`` has its rule applied after its parts were rebuilt.

    A rule that returns its argument leaves it; untouched subtrees are shared with the old tree.
    """
    done: dict[int, Node] = {}
    stack: list[Node] = [root]
    plans = _PLANS
    find = table.get
    while stack:
        node = stack[-1]
        key = id(node)
        if key in done:
            stack.pop()
            continue
        cls = node.__class__
        plan = plans.get(cls) or plan_of(cls)
        made: Node = node
        if cls.child_names:
            values = plan.get(node)
            pending = pending_parts(values, done)
            if pending:
                pending.reverse()
                stack.extend(pending)
                continue
            new = mapped_values(values, done)
            if new is not None:
                made = plan.remake(node, cls.child_names, new)
        stack.pop()
        rule = find(made.__class__)
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
