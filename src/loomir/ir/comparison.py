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
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import is_
from typing import Any, ClassVar, Final, TypeAlias, cast

from loomir.ir.node import DECLARED, NODE_CLASSES, Node, Role
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
    if len(DECLARED) != _Table.classes:  # what a field may hold has changed
        _Table.classes = len(DECLARED)
        _USED.clear()
        _MADE.clear()
    return _Comparison().holds(left, right)


class _Comparison:
    """What is known while two programs are compared."""

    __slots__ = ("bound", "later", "made", "shared", "used")

    def __init__(self) -> None:
        self.used: dict[Any, Any] = {}
        """The definition that the right side uses where the left uses one."""
        self.bound: dict[Any, Any] = {}
        """The definition that the right side makes where the left makes one."""
        self.later: dict[tuple[Any, Any, bool], None] = {}
        """What was put off, and whether names in it are made there."""
        self.shared: list[Any] = []
        """What both sides hold and may hold names."""
        self.made: list[Any] = []
        """What both sides hold where names are made."""

    def holds(self, left: Node, right: Node) -> bool:
        """Compare all below two nodes."""
        if left is right:
            return True
        if left.__class__ is not right.__class__:
            return False
        pairs = self.used.setdefault
        if not _USED[left.__class__](left, right, self, _LEVELS, pairs):
            return False
        if self.later and not self._rest_holds(pairs):
            return False
        used, bound = self.used, self.bound
        if not (self.shared or self.made) and all(map(is_, map(bound.get, used), used.values())):
            # All that is used is made on both sides.
            return len(set(bound.values())) == len(bound)
        return self._names_hold()

    def _rest_holds(self, pairs: Pairs) -> bool:
        """Compare what was put off."""
        done: set[tuple[Any, Any, bool]] = set()
        while self.later:
            batch, self.later = self.later, {}
            for key in batch:
                if key not in done:
                    done.add(key)
                    a, b, makes = key
                    if not (_MADE if makes else _USED)[a.__class__](a, b, self, _LEVELS, pairs):
                        return False
        return True

    def _names_hold(self) -> bool:
        """Tell whether definitions go with one another throughout."""
        used, bound = self.used, self.bound
        pairs = used.setdefault
        if any(pairs(a, b) is not b for a, b in bound.items()):
            return False
        if any(a is not b for a, b in bound.items()):
            # A name that is shared may mean one thing on the left and another on the right.
            if not (self._stay(self.shared, False) and self._stay(self.made, True)):
                return False
            if len(set(used.values())) < len(used):
                return False
        return all(a is b for a, b in used.items() if a not in bound)

    def _stay(self, shared: list[Any], makes: bool) -> bool:
        """Tell whether the names in what is shared go with themselves."""
        pairs = self.used.setdefault
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
                    self.bound[value] = value
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

_NAMELESS: Final = frozenset({str, int, bool, float, type(None), DataType})
"""Classes of plain values, which hold no names."""


def _value(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs) -> bool:
    return a == b


def _float(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs) -> bool:
    return same_leaf(a, b)


def _tuple(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs, makes: bool) -> bool:
    return len(a) == len(b) and _items(a, b, found, levels, pairs, makes)


def _items(
    a: Iterable[Any],
    b: Iterable[Any],
    found: _Comparison,
    levels: int,
    pairs: Pairs,
    makes: bool,
) -> bool:
    """Compare as many values of the right side as there are on the left."""
    shared, table = (found.made, _MADE) if makes else (found.shared, _USED)
    for x, y in zip(a, b):
        if x is y:
            if x.__class__ not in _NAMELESS:
                shared.append(x)
        elif x.__class__ is not y.__class__ or not table[x.__class__](x, y, found, levels, pairs):
            return False
    return True


def _mapping(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs, makes: bool) -> bool:
    """Compare mappings: keyed by definitions in their order, keyed by strings in any."""
    if len(a) != len(b):
        return False
    shared, table = (found.made, _MADE) if makes else (found.shared, _USED)
    for (x, v), (y, w) in zip(a.items(), b.items()):
        if x is not y or x.__class__ is not str:
            break
        if v is w:
            if v.__class__ not in _NAMELESS:
                shared.append(v)
        elif v.__class__ is not w.__class__ or not table[v.__class__](v, w, found, levels, pairs):
            return False
    else:  # the same names in the same order
        return True
    kinds = set(map(type, a))
    if str not in kinds and all(issubclass(kind, Node) for kind in kinds):
        keys = _items(a, b, found, levels, pairs, False)
        return keys and _items(a.values(), b.values(), found, levels, pairs, makes)
    if a.keys() != b.keys():
        return False
    return _items(a.values(), [b[key] for key in a], found, levels, pairs, makes)


def _use(a: Any, b: Any, found: _Comparison, levels: int, pairs: Pairs) -> bool:
    """Compare what refers to definitions."""
    return pairs(a, b) is b


# -- nodes ---------------------------------------------------------------------------------------


class _Form(Enum):
    """How values of a field are compared."""

    VALUE = "plain data"
    FLOAT = "a float"
    NAME = "a reference to a definition"
    NODE = "a node, or what its class says"
    NODES = "a tuple of nodes"
    TABLE = "a mapping"


_FLAT: Final = (_Form.VALUE, _Form.FLOAT, _Form.NAME)
"""What goes no level down."""


def _form(cls: type[Node], declared: str, makes: bool) -> _Form:
    """Choose how values of a declared type are compared."""
    if declared.startswith("tuple[") and "|" not in declared:
        return _Form.NODES
    if declared.startswith("Mapping[") and "|" not in declared:
        return _Form.TABLE
    if declared == "float":
        return _Form.FLOAT
    if declared in _PLAIN:
        return _Form.VALUE
    named = _named(cls, declared)
    if named is not None:
        if issubclass(named, (DataType, Enum)):
            return _Form.VALUE
        if issubclass(named, Node) and named.is_definition and not makes:
            return _Form.NAME
    return _Form.NODE


def _named(cls: type[Node], declared: str) -> type | None:
    """Find a class by the name that a declaration has for it."""
    found: object = vars(sys.modules[cls.__module__]).get(declared)
    return found if isinstance(found, type) else None


_PLAIN: Final[dict[str, type]] = {"int": int, "str": str, "bool": bool, "float": float}


def _held(cls: type[Node], declared: str) -> list[type | None]:
    """Find the classes that a field may hold, or whose values its tuple may."""
    item = declared.removeprefix("tuple[").removesuffix(", ...]")
    names = [name for name in item.split(" | ") if name != "None"]
    return [_PLAIN.get(name) or _named(cls, name) for name in names]


def _key(cls: type[Node], declared: str) -> type[Node] | None:
    """Find the class of nodes that are the keys of a declared mapping."""
    named = _named(cls, declared.removeprefix("Mapping[").split(",")[0])
    return named if named is not None and issubclass(named, Node) else None


def _compared(cls: type[Node]) -> dict[str, str]:
    """Give the declared types of the fields that count, plain data first."""
    declared = {f.name: str(f.type) for f in dataclasses.fields(cast("Any", cls))}
    names = [f.name for f in cls.node_fields if f.role is Role.ATTR]
    return {name: declared[name] for name in (*names, *(f.name for f in cls.scan))}


def _is_nameless(cls: type[Node], declared: str, met: set[type]) -> bool:
    """Tell whether no value of a declared type holds names, by the classes that there are."""
    for held in _held(cls, declared):
        if held is None or not issubclass(held, (Node, DataType, Enum, int, str, float)):
            return False
        if held not in met:
            met.add(held)
            for kind in DECLARED:
                if issubclass(kind, held) and (
                    kind.is_definition
                    or not all(_is_nameless(kind, d, met) for d in _compared(kind).values())
                ):
                    return False
    return True


def _inside(lines: Iterable[str]) -> list[str]:
    return [f" {line}" for line in lines]


class _Writer:
    """Writes the function that compares the fields of two nodes of a class."""

    def __init__(self, makes: bool) -> None:
        self.makes = makes
        self.names: dict[str, Any] = {"used": _USED, "made": _MADE, "same_leaf": same_leaf}

    def function(self, cls: type[Node]) -> Same:
        """Write it, what is plain first."""
        deeper = [
            "if not levels:",
            f" found.later[x, y, {self.makes}] = None",
            " return True",
            "levels -= 1",
        ]
        lines: list[str] = []
        if self.makes and cls.is_definition:
            # What is put off is not met yet; fields are compared the first time.
            lines += deeper
            deeper = []
            lines += [
                "known = found.bound",
                "if x in known: return known[x] is y",
                "known[x] = y",
            ]
        flat, deep = self._fields(cls, "x", "y", self.makes)
        lines += flat
        if deep:
            lines += deeper + deep
        lines.append("return True")
        text = "\n".join(["def same(x, y, found, levels, pairs):", *_inside(lines)])
        exec(text, self.names)  # noqa: S102 - written here, from the names of fields
        return cast("Same", self.names["same"])

    def _fields(self, cls: type[Node], x: str, y: str, makes: bool) -> tuple[list[str], list[str]]:
        """Compare fields: those that go no level down, and the others."""
        flat: list[str] = []
        deep: list[str] = []
        binds = {f.name for f in cls.scan if makes or f.role is Role.BINDS}
        for name, declared in _compared(cls).items():
            inside = name in binds
            form = _form(cls, declared, inside)
            if form in _FLAT:
                flat += self._flat(form, x, y, name)
            elif x != "x":
                deep += self._elsewhere(cls, declared, x, y, name, inside)
            else:
                deep += self._deep(cls, declared, form, name, inside)
        return flat, deep

    def _flat(self, form: _Form, x: str, y: str, name: str) -> list[str]:
        v, w = f"{x}.{name}", f"{y}.{name}"
        if form is _Form.NAME:
            return [f"w = {w}", f"if pairs({v}, w) is not w: return False"]
        if form is _Form.FLOAT:
            return [
                f"v = {v}; w = {w}",
                "if (v != w or not v) and not same_leaf(v, w): return False",
            ]
        return [
            f"if {v} is not {w}:",
            f" v = {v}; w = {w}",
            " if v.__class__ is not w.__class__ or v != w: return False",
        ]

    def _elsewhere(
        self, cls: type[Node], declared: str, x: str, y: str, name: str, makes: bool
    ) -> list[str]:
        """Compare a field of a part by a call."""
        table = "made" if makes else "used"
        return [
            f"v = {x}.{name}; w = {y}.{name}",
            "if v is not w:",
            " if v.__class__ is not w.__class__: return False",
            f" if not {table}[v.__class__](v, w, found, levels, pairs): return False",
            *self._shared(cls, declared, "v is not None", makes),
        ]

    def _deep(
        self, cls: type[Node], declared: str, form: _Form, name: str, makes: bool
    ) -> list[str]:
        table = "made" if makes else "used"
        if form is _Form.TABLE and (key := _key(cls, declared)) is not None:
            return self._table(cls, key, name, makes)
        if form is _Form.TABLE:
            return [
                f"a = x.{name}; b = y.{name}",
                "if a is not b:",
                f" if (a or b) and not {table}[a.__class__](a, b, found, levels, pairs):",
                "  return False",
                f"elif a: {self._list(makes)}.append(a)",
            ]
        part = ["k = a.__class__", "if k is not b.__class__: return False"]
        word = "if"
        for leaf, lines in self._leaves(cls, declared, makes).items():
            self.names[leaf.__name__] = leaf
            part += [f"{word} k is {leaf.__name__}:", *_inside(lines)]
            word = "elif"
        part.append(f"{word} not {table}[k](a, b, found, levels, pairs): return False")
        node = [
            "if a is not b:",
            *_inside(part),
            *self._shared(cls, declared, "a is not None", makes),
        ]
        if form is _Form.NODE:
            return [f"a = x.{name}; b = y.{name}", *node]
        return [
            f"p = x.{name}; q = y.{name}",
            "if p is not q:",
            " if len(p) != len(q): return False",
            " for a, b in zip(p, q):",
            *_inside(_inside(node)),
            *self._shared(cls, declared, "p", makes),
        ]

    def _table(self, cls: type[Node], key: type[Node], name: str, makes: bool) -> list[str]:
        """Compare mappings keyed by nodes in their order."""
        table = "made" if makes else "used"
        if key.is_definition:
            keys = ["if pairs(i, j) is not j: return False"]
        else:
            keys = [
                "if i is not j:",
                " k = i.__class__",
                " if k is not j.__class__ or not used[k](i, j, found, levels, pairs):",
                "  return False",
                *self._shared(cls, key.__name__, "i", makes=False),
            ]
        return [
            f"p = x.{name}; q = y.{name}",
            "if p is not q:",
            " if len(p) != len(q): return False",
            " for (i, a), (j, b) in zip(p.items(), q.items()):",
            *_inside(_inside(keys)),
            "  if a is not b:",
            "   k = a.__class__",
            f"   if k is not b.__class__ or not {table}[k](a, b, found, levels, pairs):",
            "    return False",
            f"  else: {self._list(makes)}.append(a)",
            f"elif p: {self._list(makes)}.append(p)",
        ]

    def _list(self, makes: bool) -> str:
        return "found.made" if makes else "found.shared"

    def _shared(self, cls: type[Node], declared: str, held: str, makes: bool) -> list[str]:
        """Remember what both sides hold, unless it can hold no names."""
        if _is_nameless(cls, declared, set()):
            return []
        return [f"elif {held}: {self._list(makes)}.append({held[0]})"]

    def _leaves(self, cls: type[Node], declared: str, makes: bool) -> dict[type[Node], list[str]]:
        """Write how the commonest leaves that a field may hold are compared without a call."""
        found: dict[type[Node], list[str]] = {}
        held = _held(cls, declared)
        if len(held) != 1 or held[0] is None or not issubclass(held[0], Node):
            return found
        for leaf in NODE_CLASSES.values():
            if len(found) == _COMMON or not issubclass(leaf, held[0]) or leaf.scan:
                continue
            flat, deep = self._fields(leaf, "a", "b", leaf.is_definition)
            if leaf.is_definition and not makes:
                found[leaf] = ["if pairs(a, b) is not b: return False"]
            elif leaf.is_definition and leaf is held[0]:
                found[leaf] = [
                    "known = found.bound",
                    "if a not in known:",
                    " known[a] = b",
                    *_inside(flat + deep),
                    "elif known[a] is not b: return False",
                ]
            elif flat and not deep and not leaf.is_definition:
                found[leaf] = flat
        return found


class _Table(dict[type, Same]):
    """Functions by class, written when a class is met for the first time."""

    classes: ClassVar[int] = 0
    """How many classes of nodes there were when they were written."""

    def __init__(self, makes: bool) -> None:
        self._makes = makes

    def __missing__(self, kind: type) -> Same:
        made = self[kind] = self._of(kind)
        return made

    def _of(self, kind: type) -> Same:
        makes = self._makes
        if issubclass(kind, Node):
            return _use if kind.is_definition and not makes else _Writer(makes).function(kind)
        if issubclass(kind, tuple):
            return lambda a, b, found, levels, pairs: _tuple(a, b, found, levels, pairs, makes)
        if issubclass(kind, Mapping):
            return lambda a, b, found, levels, pairs: _mapping(a, b, found, levels, pairs, makes)
        return _float if issubclass(kind, float) else _value


_USED: Final = _Table(makes=False)
_MADE: Final = _Table(makes=True)
