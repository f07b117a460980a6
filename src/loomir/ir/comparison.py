"""Functions that compare two nodes of one class, written from the roles of its fields.

A definition must go with one definition of the other side throughout, and what neither side
defines must be the same on both. So the order of comparisons does not matter: a comparison goes
down a few levels by calls, which is fast, and puts off what lies deeper. Programs of any depth are
compared, and a part that a program holds many times is compared few times.

What both sides share needs no comparison, unless they give names in it different meanings.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from textwrap import indent
from typing import Any, Final, TypeAlias, cast

from loomir.ir.node import NODE_CLASSES, Node, Role
from loomir.ir.visit import plan_of
from loomir.support.dtype import DataType

__all__ = ["same_leaf", "same_program"]

_LEVELS: Final = 10
"""How far a comparison goes down by calls."""
_COMMON: Final = 2
"""How many classes of leaves are told apart before others are looked up."""

Pairs: TypeAlias = Callable[[Any, Any], Any]
"""Gives the definition that goes with one of the left side: the one given, where it has none."""
Same: TypeAlias = Callable[[Any, Any, "_Comparison", int, Pairs], bool]
"""Compares two values of one class down to so many levels; False where they differ."""


def same_leaf(a: object, b: object) -> bool:
    """Tell whether plain values are the same; NaN is, zeros of different signs are not."""
    if a is b:
        return True
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
    return type(a) is type(b) and a == b


def same_program(left: Node, right: Node) -> bool:
    """Tell whether two programs are the same up to what their definitions are called."""
    return _Comparison().holds(left, right)


class _Comparison:
    """What is known while two programs are compared."""

    __slots__ = ("bound", "later", "made", "pairs", "shared")

    def __init__(self) -> None:
        self.pairs: dict[Any, Any] = {}
        """The definition of the right side that goes with one of the left."""
        self.bound: set[Any] = set()
        """The definitions of the left side that were met where they are made."""
        self.later: dict[tuple[Any, Any, bool], None] = {}
        """What was put off, and whether names in it are made there."""
        self.shared: list[Any] = []
        """What both sides hold."""
        self.made: list[Any] = []
        """What both sides hold where names are made."""

    def holds(self, left: Node, right: Node) -> bool:
        """Compare all below two nodes."""
        if left is right:
            return True
        if left.__class__ is not right.__class__:
            return False
        pairs = self.pairs.setdefault
        if not _USED[left.__class__](left, right, self, _LEVELS, pairs):
            return False
        done: set[tuple[Any, Any, bool]] = set()
        while self.later:
            batch, self.later = self.later, {}
            for key in batch:
                if key not in done:
                    done.add(key)
                    a, b, makes = key
                    if not (_MADE if makes else _USED)[a.__class__](a, b, self, _LEVELS, pairs):
                        return False
        known, bound = self.pairs, self.bound
        if any(known[a] is not a for a in bound):
            # A name that is shared may mean one thing on the left and another on the right.
            if not (self._stay(self.shared, False) and self._stay(self.made, True)):
                return False
            if len(set(known.values())) < len(known):
                return False
        return all(known[a] is a for a in known.keys() - bound)

    def _stay(self, shared: list[Any], makes: bool) -> bool:
        """Tell whether the names in what is shared go with themselves."""
        pairs = self.pairs.setdefault
        distinct = {id(part): part for part in shared}
        stack: list[tuple[Any, bool]] = [(part, makes) for part in distinct.values()]
        seen: set[tuple[int, bool]] = set()
        while stack:
            value, makes = stack.pop()
            if isinstance(value, Node):
                if (id(value), makes) in seen:
                    continue
                seen.add((id(value), makes))
                if value.is_definition:
                    if pairs(value, value) is not value:
                        return False
                    if not makes:
                        continue
                    self.bound.add(value)
                plan = plan_of(value.__class__)
                stack += [(part, False) for part in plan.get_attrs(value)]
                stack += [(get(value), makes or binds) for get, binds in plan.scan_columns]
            elif isinstance(value, tuple):
                stack += [(part, makes) for part in cast("tuple[Any, ...]", value)]
            elif isinstance(value, Mapping):
                table = cast("Mapping[Any, Any]", value)
                stack += [(key, False) for key in table]
                stack += [(part, makes) for part in table.values()]
        return True


# -- values of no class of nodes -----------------------------------------------------------------


def _value(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs) -> bool:
    return a == b


def _float(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs) -> bool:
    return same_leaf(a, b)


def _tuple(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs, makes: bool) -> bool:
    if len(a) != len(b):
        return False
    shared, table = (found.made, _MADE) if makes else (found.shared, _USED)
    for x, y in zip(a, b):
        if x is y:
            if x.__class__ is not str:
                shared.append(x)
        elif x.__class__ is not y.__class__ or not table[x.__class__](x, y, found, levels, pairs):
            return False
    return True


def _mapping(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs, makes: bool) -> bool:
    """Compare mappings: keyed by definitions in their order, keyed by strings in any."""
    if len(a) != len(b):
        return False
    kinds = set(map(type, a))
    if str not in kinds and all(issubclass(kind, Node) for kind in kinds):
        keys = _tuple(tuple(a), tuple(b), found, levels, pairs, False)
        return keys and _tuple(tuple(a.values()), tuple(b.values()), found, levels, pairs, makes)
    if a.keys() != b.keys():
        return False
    return _tuple(tuple(a.values()), tuple([b[key] for key in a]), found, levels, pairs, makes)


def _use(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs) -> bool:
    """Compare what refers to definitions."""
    return pairs(a, b) is b


# -- nodes ---------------------------------------------------------------------------------------

_NEW: Final = """
 if pairs(x, y) is not y: return False
 if x in found.bound: return True
 found.bound.add(x)
"""
_NODE: Final = """
 a = x.{name}; b = y.{name}
 if a is not b:
  k = a.__class__
  if k is not b.__class__: return False
{compare}
 elif a is not None: found.{shared}.append(a)
"""
_NODES: Final = """
 p = x.{name}; q = y.{name}
 if p is not q:
  if len(p) != len(q): return False
  for a, b in zip(p, q):
   if a is not b:
    k = a.__class__
    if k is not b.__class__: return False
{compare}
   else: found.{shared}.append(a)
 elif p: found.{shared}.append(p)
"""
_TABLE: Final = """
 a = x.{name}; b = y.{name}
 if a is not b:
  if (a or b) and not {table}[a.__class__](a, b, found, levels, pairs): return False
 elif a: found.{shared}.append(a)
"""
_NAME: Final = """
 b = y.{name}
 if pairs(x.{name}, b) is not b: return False
"""
_VALUE: Final = """
 if {x}.{name} is not {y}.{name}:
  v = {x}.{name}; w = {y}.{name}
  if v.__class__ is not w.__class__ or v != w: return False
"""
_FLOAT: Final = """
 v = {x}.{name}; w = {y}.{name}
 if (v != w or not v) and not same_leaf(v, w): return False
"""
_DEEPER: Final = """
 if not levels:
  found.later[x, y, {makes}] = None
  return True
 levels -= 1
"""


def _form(cls: type[Node], declared: str, makes: bool) -> str:
    """Choose how values of a declared type are compared."""
    if declared.startswith("tuple[") and "|" not in declared:
        return _NODES
    if declared.startswith("Mapping[") and "|" not in declared:
        return _TABLE
    if declared == "float":
        return _FLOAT
    if declared in ("int", "str", "bool"):
        return _VALUE
    named = _named(cls, declared)
    if named is not None:
        if issubclass(named, (DataType, Enum)):
            return _VALUE
        if issubclass(named, Node) and named.is_definition and not makes:
            return _NAME
    return _NODE


def _named(cls: type[Node], declared: str) -> type | None:
    """Find a class by the name that a declaration has for it."""
    found: object = vars(sys.modules[cls.__module__]).get(declared)
    return found if isinstance(found, type) else None


_PLAIN: Final = (_VALUE, _FLOAT, _NAME)
"""What goes no level down."""


def _declared(cls: type[Node]) -> dict[str, str]:
    return {f.name: str(f.type) for f in dataclasses.fields(cast("Any", cls))}


def _values(cls: type[Node]) -> dict[str, str] | None:
    """Tell how the fields of a class are compared where all are plain values; None elsewhere."""
    declared = _declared(cls)
    names = [f.name for f in cls.node_fields if f.role is not Role.META]
    forms = {name: _form(cls, declared[name], makes=False) for name in names}
    return forms if all(form in (_VALUE, _FLOAT) for form in forms.values()) else None


def _leaves(cls: type[Node], declared: str, makes: bool) -> dict[type[Node], str]:
    """Write how the commonest leaves that a field may hold are compared without a call."""
    name = declared.removeprefix("tuple[").removesuffix(", ...]").removesuffix(" | None")
    held = _named(cls, name)
    found: dict[type[Node], str] = {}
    for leaf in NODE_CLASSES.values() if held is not None else ():
        if len(found) == _COMMON or not issubclass(leaf, cast("type", held)) or leaf.scan:
            continue
        if not leaf.is_definition:
            forms = _values(leaf)
            if forms:
                lines = [form.format(x="a", y="b", name=name) for name, form in forms.items()]
                found[leaf] = "".join(lines)
        elif not makes:
            found[leaf] = "\n if pairs(a, b) is not b: return False\n"
    return found


def _written(cls: type[Node], makes: bool) -> Same:
    """Write the function that compares the fields of two nodes, what is plain first."""
    declared = _declared(cls)
    names: dict[str, Any] = {"used": _USED, "made": _MADE, "same_leaf": same_leaf}
    fields = [(f.name, False) for f in cls.node_fields if f.role is Role.ATTR]
    fields += [(f.name, makes or f.role is Role.BINDS) for f in cls.scan]
    forms = [(name, inside, _form(cls, declared[name], inside)) for name, inside in fields]
    forms.sort(key=lambda part: part[2] not in _PLAIN)
    lines = ["def same(x, y, found, levels, pairs):"]
    deeper = makes and cls.is_definition
    if deeper:  # what is put off is not met yet; fields are compared the first time
        lines += (_DEEPER.format(makes=makes), _NEW)
    for name, inside, form in forms:
        if form not in _PLAIN and not deeper:
            deeper = True
            lines.append(_DEEPER.format(makes=makes))
        table, shared = ("made", "made") if inside else ("used", "shared")
        compare, word = "", "if"
        for leaf, code in _leaves(cls, declared[name], inside).items():
            names[leaf.__name__] = leaf
            compare += f"{word} k is {leaf.__name__}:{indent(code, ' ')}"
            word = "elif"
        compare += f"{word} not {table}[k](a, b, found, levels, pairs): return False"
        margin = " " * (2 if form is _NODE else 4)
        compare = indent(compare, margin)
        lines.append(
            form.format(x="x", y="y", name=name, table=table, shared=shared, compare=compare)
        )
    lines.append(" return True")
    exec("\n".join(lines), names)  # noqa: S102 - written here, from the names of fields
    return cast("Same", names["same"])


class _Table(dict[type, Same]):
    """Functions by class, written when a class is met for the first time."""

    def __init__(self, makes: bool) -> None:
        self._makes = makes

    def __missing__(self, kind: type) -> Same:
        made = self[kind] = self._of(kind)
        return made

    def _of(self, kind: type) -> Same:
        makes = self._makes
        if issubclass(kind, Node):
            return _use if kind.is_definition and not makes else _written(kind, makes)
        if issubclass(kind, tuple):
            return lambda a, b, found, levels, pairs: _tuple(a, b, found, levels, pairs, makes)
        if issubclass(kind, Mapping):
            return lambda a, b, found, levels, pairs: _mapping(a, b, found, levels, pairs, makes)
        return _float if issubclass(kind, float) else _value


_USED: Final = _Table(makes=False)
_MADE: Final = _Table(makes=True)
