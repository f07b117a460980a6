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
from typing import Any, Final, TypeAlias, cast

from loomir.ir.node import Node, Role
from loomir.ir.visit import plan_of
from loomir.support.dtype import DataType

__all__ = ["same_leaf", "same_program"]

_LEVELS: Final = 10
"""How far a comparison goes down by calls."""

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
        return all(a is b or a in bound for a, b in known.items())

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


def _leaf(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs) -> bool:
    return same_leaf(a, b)


def _tuple(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs, makes: bool) -> bool:
    if len(a) != len(b):
        return False
    shared, table = (found.made, _MADE) if makes else (found.shared, _USED)
    for x, y in zip(a, b):
        if x is y:
            shared.append(x)
        elif x.__class__ is not y.__class__ or not table[x.__class__](x, y, found, levels, pairs):
            return False
    return True


def _mapping(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs, makes: bool) -> bool:
    """Compare mappings: keyed by definitions in their order, keyed by strings in any."""
    if len(a) != len(b):
        return False
    if all(isinstance(key, Node) for key in a):
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
  same = {table}[k]
  if same is use:
   if pairs(a, b) is not b: return False
  elif not same(a, b, found, levels, pairs): return False
 elif a is not None: found.{shared}.append(a)
"""
_NODES: Final = """
 a = x.{name}; b = y.{name}
 if a is not b:
  if len(a) != len(b): return False
  for p, q in zip(a, b):
   if p is not q:
    k = p.__class__
    if k is not q.__class__: return False
    same = {table}[k]
    if same is use:
     if pairs(p, q) is not q: return False
    elif not same(p, q, found, levels, pairs): return False
   else: found.{shared}.append(p)
 elif a: found.{shared}.append(a)
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
 if x.{name} is not y.{name}:
  a = x.{name}; b = y.{name}
  if a.__class__ is not b.__class__ or a != b: return False
"""
_FLOAT: Final = """
 a = x.{name}; b = y.{name}
 if (a != b or not a) and not same_leaf(a, b): return False
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
    named: object = vars(sys.modules[cls.__module__]).get(declared)
    if isinstance(named, type):
        if issubclass(named, (DataType, Enum)):
            return _VALUE
        if issubclass(named, Node) and named.is_definition and not makes:
            return _NAME
    return _NODE


_PLAIN: Final = (_VALUE, _FLOAT, _NAME)
"""What goes no level down."""


def _written(cls: type[Node], makes: bool) -> Same:
    """Write the function that compares the fields of two nodes, what is plain first."""
    declared = {f.name: str(f.type) for f in dataclasses.fields(cast("Any", cls))}
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
        lines.append(form.format(name=name, table=table, shared=shared))
    lines.append(" return True")
    names: dict[str, Any] = {"used": _USED, "made": _MADE, "use": _use, "same_leaf": same_leaf}
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
        return _leaf


_USED: Final = _Table(makes=False)
_MADE: Final = _Table(makes=True)
