"""Traverse programs without recursion, by field roles.

There are four engines, from the simplest on: ``pre_order`` and ``post_order`` list nodes, ``fold``
computes a value from the values of operands, ``rewrite`` rebuilds bottom-up by a table from class
to function, and ``trampoline`` runs visitors written as generators, for those that need context:
``x = yield visit(child)`` requests the result of visiting a child. A node that occurs in several
places is folded and rewritten only once.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from enum import Enum
from itertools import chain, compress, islice
from operator import attrgetter, is_
from typing import Any, Final, TypeAlias, TypeVar, cast

from loomir.ir.node import DECLARED, Node, Role
from loomir.support.stack_space import call_with_stack

__all__ = [
    "FieldForm",
    "Plan",
    "Step",
    "by_class",
    "child_forms",
    "children",
    "fold",
    "list_pending",
    "map_children",
    "nodes_in",
    "nodes_outside",
    "of_classes",
    "plan_of",
    "post_order",
    "pre_order",
    "rebuild",
    "remake_code",
    "remake_node",
    "remember_classes",
    "rewrite",
    "trampoline",
]

_R = TypeVar("_R")
_N = TypeVar("_N", bound=Node)

Step: TypeAlias = Generator[Any, Any, _R]
"""A visitor in progress: yields the visitors of parts, returns its result."""

_MANY: Final = 50_000
"""Nodes of a class in one level from which repeated ones are dropped: a bound on memory."""
_FEW: Final = 1_000
"""Nodes that are visited one by one before whole levels are grouped; not tuned further."""
_SOME: Final = 16
"""The most classes for which it pays to check first whether a program has any of them."""


class FieldForm(Enum):
    """The form of a field that owns parts: a node, a tuple of nodes, or something else."""

    NODE = "node"
    LIST = "tuple of nodes"
    OTHER = "other"


def child_forms(cls: type[Node]) -> dict[str, FieldForm]:
    """Return the form of each field that owns parts."""
    forms = dict.fromkeys(cls.child_names, FieldForm.NODE)
    for field in dataclasses.fields(cast("Any", cls)):
        declared = str(field.type)
        if field.name in forms and "[" in declared:
            is_list = declared.startswith("tuple[") and "|" not in declared
            forms[field.name] = FieldForm.LIST if is_list else FieldForm.OTHER
    return forms


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
    """How nodes of one class are read and rebuilt; computed once for each class."""

    __slots__ = (
        "_arguments",
        "_cls",
        "_keywords",
        "_places",
        "_whole",
        "child_columns",
        "get",
        "get_attrs",
        "get_refs",
        "get_scan",
        "leaf",
        "scan_columns",
    )

    get: Getter
    """Reads the fields that own parts."""
    get_refs: Getter | None
    """Reads the fields that define or refer to definitions, None if the class has none."""
    get_attrs: Getter
    get_scan: Getter
    """Reads the fields that can have nodes, in the order in which names are defined."""
    child_columns: tuple[Callable[[Any], Any], ...]
    """Readers of single fields that own parts."""
    scan_columns: tuple[tuple[Callable[[Any], Any], bool], ...]
    """Readers of single fields that can have nodes, each with whether the field defines."""
    leaf: bool
    """Whether nodes of the class own no parts and refer to nothing."""

    def __init__(self, cls: type[Node]) -> None:
        refs = tuple(f.name for f in cls.node_fields if f.role in (Role.BINDS, Role.USES))
        names = tuple(f.name for f in cls.node_fields)
        positional = tuple(name for name in names if name != "span")
        self._cls: Callable[..., Any] = cls
        self._arguments = _getter(positional)
        self._keywords = "span" in names
        self._places = tuple(positional.index(name) for name in cls.child_names)
        self._whole = positional == cls.child_names
        self.get = _getter(cls.child_names)
        self.get_refs = _getter(refs) if refs else None
        self.get_attrs = _getter(tuple(f.name for f in cls.node_fields if f.role is Role.ATTR))
        self.get_scan = _getter(tuple(f.name for f in cls.scan))
        self.child_columns = tuple(attrgetter(name) for name in cls.child_names)
        self.scan_columns = tuple((attrgetter(f.name), f.role is Role.BINDS) for f in cls.scan)
        self.leaf = not cls.child_names and not refs

    def remake(self, node: Any, values: list[Any]) -> Any:
        """Make a node with other owned parts; its constructor checks it again."""
        arguments = values
        if not self._whole:
            arguments = list(self._arguments(node))
            for place, value in zip(self._places, values):
                arguments[place] = value
        if self._keywords and node.span is not None:
            return self._cls(*arguments, span=node.span)
        return self._cls(*arguments)


_PLANS: Final[dict[type, Plan]] = {}


def plan_of(cls: type[Node]) -> Plan:
    """Return the plan of a class."""
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
    get = _PARTS[node.__class__]
    if get is None:
        return []
    found: list[Node] = []
    for part in get(node):
        if part.__class__ in _PLANS or isinstance(part, Node):
            found.append(part)
        elif part:
            found.extend(nodes_in(part))
    return found


def pre_order(root: Node) -> Iterator[Node]:
    """List ``root`` and all it owns, parents first, in program order."""
    stack: list[Any] = [root]
    parts_of, no_nodes = _PARTS, _NO_NODES
    while stack:
        node = stack.pop()
        kind = node.__class__
        get = parts_of[kind]
        if kind not in no_nodes:
            yield node
        if get is not None:
            stack += get(node)[::-1]


def of_classes(root: Node, *kinds: type[Node]) -> list[Any]:
    """List ``root`` and what it owns of some classes, parents first, in program order."""
    listed: list[Any] = []
    stack: list[Any] = [root]
    parts_of, wanted = _PARTS, _INSIDE[kinds]
    while stack:
        node = stack.pop()
        cls = node.__class__
        if wanted[cls]:
            listed.append(node)
        get = parts_of[cls]
        if get is not None:
            stack += get(node)[::-1]
    return listed


def nodes_outside(root: Node, kind: type[Node]) -> list[Node]:
    """List ``root`` and all it owns, parents first, in program order; stop at each ``kind``.

    For example, the nodes outside of expressions are statements, a sixth of all nodes.
    """
    listed: list[Node] = []
    stack: list[Any] = [root]
    parts_of, no_nodes, inside = _PARTS, _NO_NODES, _INSIDE[kind]
    while stack:
        node = stack.pop()
        cls = node.__class__
        if inside[cls]:
            continue
        get = parts_of[cls]
        if cls not in no_nodes:
            listed.append(node)
        if get is not None:
            stack += get(node)[::-1]
    return listed


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


def by_class(root: Node) -> dict[type[Node], list[Any]]:
    """Group ``root`` and all it owns by class, in no order; many times faster than a walk.

    A node that occurs several times may be listed as often. Do not change the result: within
    ``remember_classes``, it is cached.
    """
    known = _memory.groups
    if known is not None:
        entry = known.get(id(root))
        if entry is not None:
            return entry[1]
    made: defaultdict[type, list[Any]] = defaultdict(list)
    todo: list[Any] = [root]
    parts_of = _PARTS
    # The loop also visits nodes that are added meanwhile.
    for node in islice(todo, _FEW):
        cls = node.__class__
        made[cls].append(node)
        get = parts_of[cls]
        if get is not None:
            todo += get(node)
    made.default_factory = None
    found: dict[type, list[Any]] = made
    for cls in _NO_NODES.intersection(found):
        del found[cls]
    if len(todo) > _FEW:
        _group_levels(todo[_FEW:], found)
    if known is not None and len(todo) > _WORTH_KEEPING:
        if len(known) >= _REMEMBERED:
            del known[next(iter(known))]
        known[id(root)] = root, found
    return found


def _group_levels(values: list[Any], found: dict[type[Node], list[Any]]) -> None:
    """Add all nodes below to the groups, level by level."""
    level: dict[type[Node], list[Any]] = {}
    _group(values, level)
    while level:
        below: dict[type[Node], list[Any]] = {}
        for cls, listed in level.items():
            # Parts of a program may be shared.
            nodes = list(dict.fromkeys(listed)) if len(listed) > _MANY else listed
            known = found.get(cls)
            if known is None:
                found[cls] = nodes
            else:
                known += nodes
            for get in plan_of(cls).child_columns:
                _group(list(map(get, nodes)), below)
        level = below


class _Memory(threading.local):
    """The cache of this thread: roots with their parts; None if caching is off."""

    groups: dict[int, tuple[Node, dict[type[Node], list[Any]]]] | None = None


_memory: Final = _Memory()
_REMEMBERED: Final = 4
"""The number of cached programs: most passes change nothing, and read a function and its body."""
_WORTH_KEEPING: Final = 64
"""Parts from which listing a program again takes longer than the cache."""


@contextmanager
def remember_classes() -> Generator[None]:
    """Cache the results of ``by_class`` for the latest programs within a ``with`` statement.

    Nodes are immutable, so that the results stay valid.
    """
    outer = _memory.groups
    _memory.groups = {}
    try:
        yield
    finally:
        _memory.groups = outer


def _has_any(root: Node, classes: Set[type]) -> bool:
    """Tell whether ``root`` or something that it owns is of one of the classes."""
    if root.__class__ in classes:
        return True
    # Query the parts, since a pass often queries the body of a function itself.
    return not all(classes.isdisjoint(by_class(part)) for part in children(root))


def _group(values: list[Any], groups: dict[type[Node], list[Any]]) -> None:
    """Add the nodes in values, and in their tuples and mappings, to the groups by class."""
    kinds = list(map(type, values))
    few = set(kinds)
    for kind in few:
        column = values
        if len(few) > 1:
            column = list(compress(values, [k is kind for k in kinds]))
        if issubclass(kind, Node):
            groups.setdefault(kind, []).extend(column)
        elif issubclass(kind, tuple):
            _group(list(chain.from_iterable(column)), groups)
        elif issubclass(kind, Mapping):
            for table in column:
                _group(list(table.values()), groups)


def _parts_getter(kind: type) -> Getter | None:
    """Make a function that lists the parts of a value; None if it has none."""
    if issubclass(kind, tuple):
        return tuple
    if issubclass(kind, Mapping):
        return lambda table: tuple(table.values())
    if not issubclass(kind, Node) or not kind.child_names:
        return None
    lists = [name for name, form in child_forms(kind).items() if form is FieldForm.LIST]
    if not lists:
        return _getter(kind.child_names)
    if lists == list(kind.child_names) and len(lists) == 1:
        return attrgetter(lists[0])
    parts = "".join(f"{'*' * (name in lists)}x.{name}, " for name in kind.child_names)
    return cast("Getter", call_with_stack(eval, f"lambda x: ({parts})", {}))


class _Parts(dict[type, "Getter | None"]):
    """Functions by class, created on first use."""

    def __missing__(self, kind: type) -> Getter | None:
        if Node not in kind.__mro__:
            _NO_NODES.add(kind)
        made = self[kind] = _parts_getter(kind)
        return made


class _SubclassCache(dict[type, bool]):
    """Caches whether classes are subclasses of given ones."""

    def __init__(self, kind: type | tuple[type, ...]) -> None:
        super().__init__()
        self._kind = kind

    def __missing__(self, cls: type) -> bool:
        made = self[cls] = issubclass(cls, self._kind)
        return made


class _SubclassCaches(dict["type | tuple[type, ...]", _SubclassCache]):
    def __missing__(self, kind: type | tuple[type, ...]) -> _SubclassCache:
        made = self[kind] = _SubclassCache(kind)
        return made


_INSIDE: Final = _SubclassCaches()
_PARTS: Final = _Parts()
_NO_NODES: Final[set[type]] = set()
"""Classes of values in fields that are not nodes and contain none."""


def fold(root: Node, fn: Callable[[Any, list[_R]], _R]) -> _R:
    """Compute ``fn(node, values of its parts)`` bottom-up; return the root's value."""
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
    """Map the nodes in a field's value; return the same object if nothing changed."""
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
    """Replace each owned part by ``fn(part)``; return ``node`` itself if nothing changed."""
    changed: dict[str, object] = {}
    for field in node.scan:
        if field.role in roles:
            value = getattr(node, field.name)
            mapped = _map_value(value, fn)
            if mapped is not value:
                changed[field.name] = mapped
    return rebuild(node, changed)


Rule: TypeAlias = Callable[[Any], Node]


def list_pending(value: Any, done: Mapping[int, object]) -> Iterable[Node]:
    """List the nodes in a field's value that are not done yet."""
    if not isinstance(value, Node) and not value:
        return ()
    return (part for part in nodes_in(value) if id(part) not in done)


def replace_nodes_in(value: Any, done: Mapping[int, Any]) -> Any:
    """Replace the nodes in a tuple or mapping; return the same object if nothing changed."""
    if not value:
        return value
    try:
        made = tuple([done[id(item)] for item in value])
    except (KeyError, TypeError):  # no flat tuple of nodes
        return _map_value(value, lambda part: done[id(part)])
    return value if all(map(is_, made, value)) else made


def rewrite(root: Node, table: Mapping[type, Rule]) -> Any:
    """Rebuild a tree bottom-up; nodes of a class in ``table`` are replaced by its rule.

    The rule gets the node with rebuilt parts. Unchanged subtrees are shared with the old tree.
    """
    kind = root.__class__
    kinds = {cls.outside_of if issubclass(cls, Node) else None for cls in table}
    closed = kinds.pop() if len(kinds) == 1 else None
    if closed is not None:
        leaves = _LEAVES.difference(table) | _subclasses(closed, len(DECLARED))
    # Many passes find nothing to do, and seeing that is much cheaper than a walk.
    elif len(table) <= _SOME and not _has_any(root, table.keys()):
        return root
    else:
        leaves = _LEAVES.difference(table)
    return _REWRITERS[kind](root, {id(None): None}, leaves, table, _LEVELS)


@functools.lru_cache(maxsize=8)
def _subclasses(kind: type[Node], declared: int) -> frozenset[type]:
    """Find the declared subclasses of a class; the number of declared classes is a cache key."""
    return frozenset(cls for cls in DECLARED[:declared] if issubclass(cls, kind))


Rewriter: TypeAlias = Callable[[Any, dict[int, Any], "set[type]", Mapping[type, Rule], int], Any]
"""Rebuilds a node from rebuilt parts, the classes that stay unchanged, and the rules.

Goes so many levels down by calls.
"""

_REWRITE_NODE: Final = """
 a{n} = x.{name}
 if a{n}.__class__ in leaves: b{n} = a{n}
 else:
  i = id(a{n})
  b{n} = done[i] if i in done else rewriters[a{n}.__class__](a{n}, done, leaves, rules, levels)
"""
_REWRITE_LIST: Final = """
 a{n} = b{n} = x.{name}
 same = True
 for a in a{n}:
  if a.__class__ not in leaves:
   i = id(a)
   b = done[i] if i in done else rewriters[a.__class__](a, done, leaves, rules, levels)
   if a is not b: same = False
 if not same: b{n} = tuple([done.get(id(a), a) for a in a{n}])
"""
_REWRITE: Final = {
    FieldForm.NODE: _REWRITE_NODE,
    FieldForm.LIST: _REWRITE_LIST,
    FieldForm.OTHER: _REWRITE_NODE,
}


def _rewrite_value(
    value: Any, done: dict[int, Any], leaves: set[type], table: Mapping[type, Rule], levels: int
) -> Any:
    """Rewrite a container of nodes: a tuple or a mapping."""
    if not value:
        return value
    for part in nodes_in(value):
        if id(part) not in done:
            done[id(part)] = _REWRITERS[part.__class__](part, done, leaves, table, levels)
    return replace_nodes_in(value, done)


def remake_code(cls: type[Node]) -> str:
    """Write code that rebuilds a node ``x`` of a class ``cls`` with parts ``b0``, ``b1``, ..."""
    parts = {name: f"b{n}" for n, name in enumerate(cls.child_names)}
    names = [f.name for f in cls.node_fields]
    given = [parts.get(name, f"x.{name}") for name in names if name != "span"]
    if "span" in names:
        given.append("span=x.span")
    return f"cls({', '.join(given)})"


def _rewriter(cls: type[Node]) -> Rewriter:
    """Generate the function that rebuilds nodes of a class."""
    lines = ["def rewriter(x, done, leaves, rules, levels):"]
    if cls.child_names:
        lines.append(" if not levels: return deep(x, done, rules)")
        lines.append(" levels -= 1")
    forms = child_forms(cls)
    for n, name in enumerate(cls.child_names):
        lines.append(_REWRITE[forms[name]].format(n=n, name=name))
    places = range(len(cls.child_names))
    lines.append(" made = x")
    if cls.child_names:
        changed = " or ".join(f"a{n} is not b{n}" for n in places)
        lines.append(f" if {changed}: made = {remake_code(cls)}")
    lines.append(" if made.__class__ in rules: made = rules[made.__class__](made)")
    lines.append(" done[id(x)] = made")
    lines.append(" return made")
    names: dict[str, Any] = {
        "cls": cls,
        "deep": _rewrite_deep,
        "rewriters": _REWRITERS,
    }
    exec("\n".join(lines), names)  # noqa: S102 - written here, from the names of fields
    return cast("Rewriter", names["rewriter"])


class _Rewriters(dict[type, Rewriter]):
    """Functions by class, generated on first use."""

    def __missing__(self, kind: type) -> Rewriter:
        made: Rewriter = _rewrite_value
        if issubclass(kind, Node):
            made = _rewriter(kind)
            if not kind.child_names:
                _LEAVES.add(kind)
        self[kind] = made
        return made


_LEVELS: Final = 100
_REWRITERS: Final = _Rewriters()
_LEAVES: Final[set[type]] = {type(None)}
"""Known classes whose nodes own no parts."""


def _rewrite_deep(root: Node, done: dict[int, Any], table: Mapping[type, Rule]) -> Any:
    """Rewrite a tree of any depth, on a stack."""
    # None on the stack means that the parts of the node below it are done.
    stack: list[Node | None] = [root]
    plans, find = _PLANS, table.get
    while stack:
        node = stack.pop()
        if node is not None:
            if id(node) in done:
                continue
            plan = plans.get(node.__class__) or plan_of(node.__class__)
            pending: list[Node | None] = []
            for value in plan.get(node):
                if id(value) in done:
                    continue
                for part in value if value.__class__ is tuple else (value,):
                    below = plans.get(part.__class__)
                    if id(part) in done:
                        continue
                    if below is None:
                        pending.extend(list_pending(part, done))
                    elif below.leaf:
                        rule = find(part.__class__)
                        done[id(part)] = part if rule is None else rule(part)
                    else:
                        pending.append(part)
            if pending:
                stack += (node, None)
                pending.reverse()
                stack += pending
                continue
        else:
            node = stack.pop()
            assert node is not None
            plan = plans[node.__class__]
        done[id(node)] = _rewrite_node(node, plan, done, find)
    return done[id(root)]


def _rewrite_node(
    node: Any, plan: Plan, done: Mapping[int, Any], find: Callable[[type], Rule | None]
) -> Any:
    new = remake_node(node, plan, done)
    rule = find(new.__class__)
    return new if rule is None else rule(new)


def remake_node(node: Any, plan: Plan, done: Mapping[int, Any]) -> Any:
    """Rebuild a node from its rewritten parts; return the node itself if nothing changed."""
    values: list[Any] = []
    changed = False
    for value in plan.get(node):
        key = id(value)
        new = done[key] if key in done else replace_nodes_in(value, done)
        values.append(new)
        if new is not value:
            changed = True
    return plan.remake(node, values) if changed else node


def trampoline(start: Step[_R]) -> _R:
    """Run a generator visitor to its result, however deep the program.

    It yields the visitors of parts; an exception in one is raised at the ``yield`` of its parent.
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
