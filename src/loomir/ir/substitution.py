"""Free names and substitution, derived from field roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast

from loomir.ir.node import Node, Role
from loomir.ir.visit import (
    FieldForm,
    child_forms,
    list_pending,
    map_children,
    nodes_in,
    plan_of,
    pre_order,
    remake_code,
    remake_node,
    replace_nodes_in,
)

__all__ = ["free_definitions", "substitute"]

_N = TypeVar("_N", bound=Node)


def free_definitions(root: Node) -> list[Node]:
    """List the variables and buffers that ``root`` refers to but does not define, in order of use.

    A free buffer counts, and so do the names in its shape, strides and offset.
    """
    bound: set[int] = set()
    seen: set[int] = set()
    free: list[Node] = []
    # (node, whether names in it are being defined); None ends the scope of the latest definitions
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
        # Bindings of an iterator are in scope in the block that owns it.
        lends = defining or node.lends_scope
        scope: list[int] = defined if lends else []
        if not lends:
            stack.append((None, False, scope))
        parts: list[tuple[Node | None, bool, list[int]]] = []
        for field in node.scan:
            binding = defining or field.role is Role.BINDS
            # References of a definition, such as a buffer's data, are visited, but define nothing.
            for part in nodes_in(getattr(node, field.name)):
                parts.append((part, binding, scope))
        parts.reverse()
        stack.extend(parts)
    return free


def substitute(root: _N, mapping: Mapping[Any, Node]) -> _N:
    """Replace uses of variables and buffers by their values in ``mapping``.

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
            new = _redefine(definition, table)
            if new is not definition:
                table[id(definition)] = new
                keep.append(definition)
    if len(table) > len(mapping):
        made = _replace(root, table, {})
    return cast("_N", made)


def _may_mention(definition: Node, table: Mapping[int, Node]) -> bool:
    """Tell whether a definition's own expressions may contain a replaced name."""
    for field in definition.scan:
        for owned in nodes_in(getattr(definition, field.name)):
            for part in pre_order(owned):
                if id(part) in table or plan_of(part.__class__).get_refs is not None:
                    return True
    return False


def _redefine(definition: Node, table: dict[int, Node]) -> Node:
    """Replace names in a definition that contains expressions of its own (a buffer)."""
    return map_children(
        definition,
        lambda part: _replace(part, table, {}),
        (Role.CHILD, Role.USES, Role.BINDS),
    )


def _replace(root: Node, table: dict[int, Node], compound: dict[int, Node]) -> Node:
    """Replace names; ``compound`` collects the definitions that contain expressions."""
    done: dict[int, Any] = {id(None): None, **table}
    if id(root) in done:
        return done[id(root)]
    return _REPLACERS[root.__class__](root, done, table, compound, _LEVELS)


Replacer: TypeAlias = Callable[[Any, dict[int, Any], dict[int, Node], dict[int, Node], int], Any]
"""Rebuilds a node from rebuilt parts; recurses down to a number of levels."""

_REPLACE_NODE: Final = """
 a{n} = x.{name}
 i = id(a{n})
 if i in done: b{n} = done[i]
 elif a{n}.__class__ in leaves: b{n} = a{n}
 else: b{n} = replacers[a{n}.__class__](a{n}, done, table, compound, levels)
"""
_REPLACE_LIST: Final = """
 a{n} = b{n} = x.{name}
 same = True
 made = []
 for a in a{n}:
  i = id(a)
  if i in done: b = done[i]
  elif a.__class__ in leaves: b = a
  else: b = replacers[a.__class__](a, done, table, compound, levels)
  if a is not b: same = False
  made.append(b)
 if not same: b{n} = tuple(made)
"""
_REPLACE: Final = {
    FieldForm.NODE: _REPLACE_NODE,
    FieldForm.LIST: _REPLACE_LIST,
    FieldForm.OTHER: _REPLACE_NODE,
}


def _replacer(cls: type[Node]) -> Replacer:
    """Generate the function that replaces names in nodes of a class."""
    lines = ["def replacer(x, done, table, compound, levels):"]
    if cls.child_names:
        lines.append(" if not levels: return deep(x, done, table, compound)")
        lines.append(" levels -= 1")
    forms = child_forms(cls)
    for n, name in enumerate(cls.child_names):
        lines.append(_REPLACE[forms[name]].format(n=n, name=name))
    places = range(len(cls.child_names))
    lines.append(" made = x")
    if cls.child_names:
        changed = " or ".join(f"a{n} is not b{n}" for n in places)
        lines.append(f" if {changed}: made = {remake_code(cls)}")
    if cls.is_definition and cls.scan:  # a variable whose annotation has names in it
        lines.append(" compound[id(x)] = x")
    elif plan_of(cls).get_refs is not None:
        lines.append(" if refers(get_refs(x), table, compound): made = refer(made, table)")
    lines.append(" done[id(x)] = made")
    lines.append(" return made")
    names: dict[str, Any] = {
        "cls": cls,
        "deep": _replace_deep,
        "get_refs": plan_of(cls).get_refs,
        "leaves": _LEAVES,
        "refer": _refer,
        "refers": _refers,
        "replacers": _REPLACERS,
    }
    exec("\n".join(lines), names)  # noqa: S102 - written here, from the names of fields
    return cast("Replacer", names["replacer"])


def _replace_container(
    value: Any,
    done: dict[int, Any],
    table: dict[int, Node],
    compound: dict[int, Node],
    levels: int,
) -> Any:
    """Replace names in a container of nodes: a tuple or a mapping."""
    if not value:
        return value
    for part in nodes_in(value):
        if id(part) not in done:
            done[id(part)] = _REPLACERS[part.__class__](part, done, table, compound, levels)
    return replace_nodes_in(value, done)


class _Replacers(dict[type, Replacer]):
    """Functions by class, generated on first use."""

    def __missing__(self, kind: type) -> Replacer:
        made: Replacer = _replace_container
        if issubclass(kind, Node):
            made = _replacer(kind)
            if plan_of(kind).leaf and not (kind.is_definition and kind.scan):
                _LEAVES.add(kind)
        self[kind] = made
        return made


_LEVELS: Final = 100
_REPLACERS: Final = _Replacers()
_LEAVES: Final[set[type]] = set()
"""Known classes whose nodes own no parts and refer to nothing."""


def _replace_deep(
    root: Node, done: dict[int, Any], table: dict[int, Node], compound: dict[int, Node]
) -> Any:
    """Replace names in a tree of any depth, on a stack."""
    # None on the stack means that the parts of the node below it are done.
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
                    pending.extend(list_pending(value, done))
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
        made = remake_node(node, plan, done)
        if node.is_definition and node.scan:
            compound[id(node)] = node
        elif plan.get_refs is not None and _refers(plan.get_refs(node), table, compound):
            made = _refer(made, table)
        done[id(node)] = made
    return done[id(root)]


def _refer(made: Node, table: dict[int, Node]) -> Node:
    """Replace the references of a node."""
    return map_children(made, lambda part: _replace_reference(part, table), (Role.USES, Role.BINDS))


def _refers(values: tuple[Any, ...], table: Mapping[int, Node], compound: dict[int, Node]) -> bool:
    """Tell whether some reference has to be replaced."""
    found = False
    for value in values:
        for part in (value,) if isinstance(value, Node) else nodes_in(value):
            if id(part) in table:
                found = True
            if part.scan and part.is_definition:
                compound[id(part)] = part
    return found


def _replace_reference(part: Node, table: dict[int, Node]) -> Node:
    """Replace a reference; the replacement must be a definition."""
    made = table.get(id(part), part)
    return made if made.is_definition else part
