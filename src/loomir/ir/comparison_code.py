"""Generate functions that compare nodes, from the roles of the fields of their classes.

Most nodes of most programs belong to a few classes, which are inlined into one loop; each other
class has a function of its own.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from itertools import islice, takewhile
from typing import Any, Final, TypeAlias, cast

from loomir.ir.node import DECLARED, NODE_CLASSES, Node, Role
from loomir.support.dtype import DataType

__all__ = ["COMPARERS", "MOST", "ComparisonState", "Nodes", "comparer", "is_same_leaf"]

MOST: Final = 4_000
"""How many pairs are compared before the remaining ones are checked for repetitions."""
_COMMON: Final = (
    "tir.Var",
    "tir.IntImm",
    "tir.BufferLoad",
    "tir.BufferStore",
    "tir.Add",
    "tir.For",
    "tir.Mul",
    "tir.FloatImm",
    "tir.Call",
    "tir.SeqStmt",
    "ir.IRModule",
    "tir.PrimFunc",
    "tir.Buffer",
)
"""The kinds of nodes that are compared without calls: the most frequent ones of most programs, and
those that every program of TIR holds: code that runs once is slow outside of the loop."""
_COUNTED: Final = {"tir.BufferLoad": "indices", "tir.BufferStore": "indices"}
"""Tuples with one element for each axis of a buffer, whose counterpart has as many axes."""
_NUMBERS: Final = {"tir.For": ("min", "extent")}
"""The fields that are constants in most programs."""

Nodes: TypeAlias = list[Any]
_Pairs: TypeAlias = Callable[[Any, Any], Any]
"""Returns the counterpart of a definition of the left side; by default the given one."""
_Bind: TypeAlias = Callable[[Any], None]
"""Records that the left side makes a definition."""
ComparisonState: TypeAlias = tuple[Nodes, Nodes, Nodes, Nodes, _Pairs, _Bind, Nodes, Nodes]
"""The state of a comparison of two programs.

The pairs to be compared, left and right; those in which names are made; the definition that the
right side has where the left has one; what notes those that the left makes; what both sides hold
and may hold names; what both sides hold where names are made.
"""
_UNPACK: Final = "left, right, made_left, made_right, pairs, bind, shared, made = found"
Comparer: TypeAlias = Callable[[Any, Any, ComparisonState], bool]
"""Compares two values of one class and adds pairs of their parts; False if they differ."""


def is_same_leaf(a: object, b: object) -> bool:
    """Tell whether plain values are the same: NaN equals NaN, but 0.0 differs from -0.0."""
    if a is b:
        return True
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
    return type(a) is type(b) and a == b


# -- values other than nodes ---------------------------------------------------------------------


def _compare_value(x: Any, y: Any, found: ComparisonState) -> bool:
    return x == y


def _compare_float(x: Any, y: Any, found: ComparisonState) -> bool:
    return is_same_leaf(x, y)


def _compare_used_tuple(x: Any, y: Any, found: ComparisonState) -> bool:
    return _add(found[0], found[1], x, y)


def _compare_made_tuple(x: Any, y: Any, found: ComparisonState) -> bool:
    return _add(found[2], found[3], x, y)


def _compare_used_mapping(x: Any, y: Any, found: ComparisonState) -> bool:
    return _compare_mapping(x, y, found, found[0], found[1])


def _compare_made_mapping(x: Any, y: Any, found: ComparisonState) -> bool:
    return _compare_mapping(x, y, found, found[2], found[3])


def _add(left: Nodes, right: Nodes, x: Iterable[Any], y: Iterable[Any]) -> bool:
    """Add pairs if both sides have equally many; tell whether they do."""
    left += x
    right += y
    return len(left) == len(right)


def _compare_mapping(x: Any, y: Any, found: ComparisonState, left: Nodes, right: Nodes) -> bool:
    """Compare mappings: with definitions as keys in order, with strings in any order."""
    kinds = set(map(type, x))
    if str not in kinds and all(issubclass(kind, Node) for kind in kinds):
        return _add(found[0], found[1], x, y) and _add(left, right, x.values(), y.values())
    return x.keys() == y.keys() and _add(left, right, x.values(), [y[key] for key in x])


# -- nodes ---------------------------------------------------------------------------------------


class _Method(Enum):
    """How values of a field are compared."""

    VALUE = "plain data"
    FLOAT = "a float"
    NAME = "a reference to a definition"
    NODE = "a node, or what its class says"
    NODES = "a tuple of nodes"
    TABLE = "a mapping"


_FLAT: Final = (_Method.VALUE, _Method.FLOAT, _Method.NAME)
"""The methods that visit no parts."""


def _form(cls: type[Node], declared: str, makes: bool) -> _Method:
    """Choose the method for values of a declared type."""
    if declared.startswith("tuple[") and "|" not in declared:
        return _Method.NODES
    if declared.startswith("Mapping[") and "|" not in declared:
        return _Method.TABLE
    if declared == "float":
        return _Method.FLOAT
    if declared in _PLAIN:
        return _Method.VALUE
    named = _class_named(cls, declared)
    if named is not None:
        if issubclass(named, (DataType, Enum)):
            return _Method.VALUE
        if issubclass(named, Node) and named.is_definition and not makes:
            return _Method.NAME
    return _Method.NODE


def _class_named(cls: type[Node], declared: str) -> type | None:
    """Find a class by its name in a declaration."""
    found: object = vars(sys.modules[cls.__module__]).get(declared)
    return found if isinstance(found, type) else None


_PLAIN: Final[dict[str, type]] = {"int": int, "str": str, "bool": bool, "float": float}


def _classes_of(cls: type[Node], declared: str) -> list[type | None]:
    """Find the classes of the values that a field, or its tuple, may hold."""
    item = declared.removeprefix("tuple[").removesuffix(", ...]")
    names = [name for name in item.split(" | ") if name != "None"]
    return [_PLAIN.get(name) or _class_named(cls, name) for name in names]


def _key(cls: type[Node], declared: str) -> type[Node] | None:
    """Find the class of nodes that are the keys of a declared mapping."""
    named = _class_named(cls, declared.removeprefix("Mapping[").split(",")[0])
    return named if named is not None and issubclass(named, Node) else None


def _list_compared_fields(cls: type[Node]) -> dict[str, str]:
    """Return the declared types of the compared fields, plain data first."""
    declared = {f.name: str(f.type) for f in dataclasses.fields(cast("Any", cls))}
    names = [f.name for f in cls.node_fields if f.role is Role.ATTR]
    return {name: declared[name] for name in (*names, *(f.name for f in cls.scan))}


def _is_nameless(cls: type[Node], declared: str, met: set[type]) -> bool:
    """Tell whether no value of a declared type contains names, by the existing classes."""
    for value_class in _classes_of(cls, declared):
        if value_class is None or not issubclass(
            value_class, (Node, DataType, Enum, int, str, float)
        ):
            return False
        if value_class not in met:
            met.add(value_class)
            for kind in DECLARED:
                if issubclass(kind, value_class) and (
                    kind.is_definition
                    or not all(
                        _is_nameless(kind, d, met) for d in _list_compared_fields(kind).values()
                    )
                ):
                    return False
    return True


def _is_rare(cls: type[Node], name: str) -> bool:
    """Tell whether a field is empty by default."""
    for field in dataclasses.fields(cast("Any", cls)):
        if field.name == name:
            return field.default in (None, ()) or field.default_factory is dict
    return False


def _inside(lines: Iterable[str]) -> list[str]:
    return [f" {line}" for line in lines]


class _NamelessClasses(dict[type, bool]):
    """Caches whether values of a class contain no names."""

    def __missing__(self, kind: type) -> bool:
        made = issubclass(kind, (DataType, Enum, *_PLAIN.values(), type(None)))
        if issubclass(kind, Node) and not kind.is_definition:
            made = all(_is_nameless(kind, d, {kind}) for d in _list_compared_fields(kind).values())
        self[kind] = made
        return made


class _Writer:
    """Generates the code that compares the fields of two nodes.

    Most compared programs are equal, and in a small program most classes occur once or twice. So
    the code is short, with rare cases in blocks that are skipped as a whole.
    """

    def __init__(self, makes: bool) -> None:
        self.makes = makes
        self.names: dict[str, Any] = {
            "islice": islice,
            "len": len,
            "made_table": _MADE,
            "mapping": _compare_mapping,
            "most": MOST,
            "nameless": _NAMELESS,
            "is_same_leaf": is_same_leaf,
            "used_table": _USED,
            "zip": zip,
        }

    def function(self, cls: type[Node]) -> Comparer:
        """Generate the function for a class."""
        return cast("Comparer", self._compile("same(x, y, found", [*self.node(cls), "return True"]))

    def loop(self) -> Callable[[ComparisonState], bool]:
        """Generate the loop, which handles the most common classes without calls."""
        common = [NODE_CLASSES[kind] for kind in _COMMON if kind in NODE_CLASSES]
        lines: list[str] = []
        for makes in (False, True):
            self.makes = makes
            first = [c for c in common if c.is_definition and (makes or self._is_known(c))]
            others = [c for c in common if not c.is_definition]
            leaves = list(takewhile(self._is_flat, others))
            others = [] if makes else others[len(leaves) :]
            if makes:
                first, leaves = [], first + leaves
            left, right = self._list_names(makes)
            lines += [
                f"for x, y in islice(zip({left}, {right}), most):",
                " k = x.__class__",
                *_inside(self._cases(first, "if")),
                f" {'elif' if first else 'if'} k is not y.__class__: return False",
                *_inside(self._cases(leaves, "elif")),
                " elif x is y:",
                f"  if not nameless[k]: {'made' if makes else 'shared'}.append(x)",
                *_inside(self._cases(others, "elif")),
                f" elif not {'made' if makes else 'used'}_table[k](x, y, found): return False",
                f"del {left}[:most], {right}[:most]",
            ]
        return cast(
            "Callable[[ComparisonState], bool]",
            self._compile("loop(found", [*lines, "return True"]),
        )

    def _compile(self, head: str, lines: list[str]) -> Any:
        """Compile a function; the objects it needs are arguments, which are the fastest to read."""
        text = "\n".join(lines)
        needs = [name for name in self.names if name in text]
        arguments = "".join(f", {name}={name}" for name in needs)
        code = "\n".join([f"def {head}{arguments}):", *_inside([_UNPACK, *lines])])
        exec(code, self.names)  # noqa: S102 - written here, from the names of fields
        return self.names[head.split("(")[0]]

    def _cases(self, classes: list[type[Node]], word: str) -> list[str]:
        lines: list[str] = []
        for cls in classes:
            lines += [f"{word} k is {self._name(cls)}:", *_inside(self.node(cls))]
            word = "elif"
        return lines

    def _name(self, cls: type[Node]) -> str:
        name = cls.node_kind.replace(".", "_")
        self.names[name] = cls
        return name

    # -- fields ----------------------------------------------------------------------------------
    def _is_flat(self, cls: type[Node]) -> bool:
        """Tell whether nodes of a class have no parts that are compared separately."""
        return all(form in _FLAT for _, form, _ in self._fields(cls, self.makes).values())

    def _is_known(self, cls: type[Node] | None) -> bool:
        """Tell whether two nodes are the same, up to their names, if all their fields are."""
        return cls is not None and all(
            _is_nameless(cls, declared, {cls}) for declared in _list_compared_fields(cls).values()
        )

    def _fields(self, cls: type[Node], makes: bool) -> dict[str, tuple[str, _Method, bool]]:
        """List fields with declared type, method of comparison, and whether they define names."""
        binds = {f.name for f in cls.scan if makes or f.role is Role.BINDS}
        return {
            name: (declared, _form(cls, declared, name in binds), name in binds)
            for name, declared in _list_compared_fields(cls).items()
        }

    def node(self, cls: type[Node]) -> list[str]:
        """Compare the fields of two nodes of a class."""
        lines: list[str] = []
        if cls.is_definition:
            lines = ["if pairs(x, y) is not y: return False"]
            if not self.makes:
                return lines
            lines.append("bind(x)")
        usual: list[str] = []
        rare: list[str] = []
        given: list[str] = []
        together: dict[bool, list[str]] = {}
        same: dict[str, list[str]] = {}
        for name, (declared, form, makes) in self._fields(cls, self.makes).items():
            v, w = f"x.{name}", f"y.{name}"
            add = self._add("v", "w", makes)
            if form is _Method.NAME:
                lines += [f"w = {w}", f"if pairs({v}, w) is not w: return False"]
            elif form is _Method.FLOAT:
                lines += [
                    f"v = {v}; w = {w}",
                    "if v != w or not v or v.__class__ is not w.__class__:",
                    " if not is_same_leaf(v, w): return False",
                ]
            elif form is _Method.VALUE:
                same[name] = [
                    "if v is not w and (v != w or v.__class__ is not w.__class__): return False"
                ]
            elif form is _Method.NODE and _is_nameless(cls, declared, set()):
                same[name] = [f"if v is not w: {add}"]
            elif (
                form is _Method.NODE
                and not _is_rare(cls, name)
                and not self._definition(cls, declared, makes)
            ):
                together.setdefault(makes, []).append(name)
            else:
                code = self._deep(cls, declared, form, name, makes)
                if _is_rare(cls, name):
                    test = " is not None" if form is _Method.NODE else ""
                    given += [f"{v}{test}", f"{w}{test}"]
                    rare += code
                else:
                    usual += code
        if same:
            lines.append(f"if {' or '.join(f'x.{name} is not y.{name}' for name in same)}:")
            for name, code in same.items():
                lines += [f" v = x.{name}; w = y.{name}", *_inside(code)]
        lines += usual
        for makes, names in together.items():
            numbers = [name for name in names if name in _NUMBERS.get(cls.node_kind, ())]
            lines += self._add_fields([name for name in names if name not in numbers], makes)
            for name in numbers:
                lines += [f"a = x.{name}; b = y.{name}", *self._number(makes)]
        if rare:
            lines += [f"if {' or '.join(given)}:", *_inside(rare)]
        return lines

    def _list_names(self, makes: bool) -> tuple[str, str]:
        """Return the names of the lists to which pairs are added."""
        return ("made_left", "made_right") if makes else ("left", "right")

    def _add(self, x: str, y: str, makes: bool) -> str:
        left, right = self._list_names(makes)
        return f"{left}.append({x}); {right}.append({y})"

    def _add_all(self, x: str, y: str, makes: bool) -> str:
        left, right = self._list_names(makes)
        return f"{left} += {x}; {right} += {y}"

    def _add_fields(self, names: list[str], makes: bool) -> list[str]:
        if len(names) == 1:
            return [self._add(f"x.{names[0]}", f"y.{names[0]}", makes)]
        x, y = (", ".join(f"{side}.{name}" for name in names) for side in "xy")
        return [self._add_all(f"({x})", f"({y})", makes)]

    def _number(self, makes: bool) -> list[str]:
        """Compare a field that is usually a constant."""
        kind = NODE_CLASSES["tir.IntImm"]
        return [f"if {self._differs(kind, 'a', 'b')}: {self._add('a', 'b', makes)}"]

    def _definition(self, cls: type[Node], declared: str, makes: bool) -> type[Node] | None:
        """Find the class of a field that defines names which contain only plain data."""
        classes = _classes_of(cls, declared)
        kind = classes[0] if makes and len(classes) == 1 else None
        if kind is None or not issubclass(kind, Node) or not kind.is_definition:
            return None
        return kind if self._is_known(kind) else None

    def _deep(
        self, cls: type[Node], declared: str, form: _Method, name: str, makes: bool
    ) -> list[str]:
        """Compare a field with parts."""
        if form is _Method.TABLE:
            return self._table(cls, declared, name, makes)
        kind = self._definition(cls, declared, makes)
        if form is _Method.NODE:
            if kind is None:
                return [self._add(f"x.{name}", f"y.{name}", makes)]
            return [f"a = x.{name}; b = y.{name}", *self._bind(kind)]
        if kind is None and name == _COUNTED.get(cls.node_kind):
            return [self._add_all(f"x.{name}", f"y.{name}", makes)]
        lines = [f"p = x.{name}; q = y.{name}", "if len(p) != len(q): return False"]
        if kind is None:
            return [*lines, self._add_all("p", "q", makes)]
        return [*lines, "for a, b in zip(p, q):", *_inside(self._bind(kind))]

    def _differs(self, kind: type[Node], a: str, b: str) -> str:
        """Tell whether two nodes may differ in more than their names."""
        name = self._name(kind)
        tests = [f"{a}.__class__ is not {name}", f"{b}.__class__ is not {name}"]
        return " or ".join(
            [*tests, *(f"{a}.{f} is not {b}.{f}" for f in _list_compared_fields(kind))]
        )

    def _bind(self, kind: type[Node]) -> list[str]:
        return [
            f"if {self._differs(kind, 'a', 'b')}: {self._add('a', 'b', True)}",
            "elif pairs(a, b) is not b: return False",
            "else: bind(a)",
        ]

    def _table(self, cls: type[Node], declared: str, name: str, makes: bool) -> list[str]:
        """Compare mappings with nodes as keys, in order."""
        key = _key(cls, declared)
        if key is None:
            left, right = self._list_names(makes)
            plain = "i.__class__ is str and q.get(i, found) is v and nameless[v.__class__]"
            return [
                f"p = x.{name}; q = y.{name}",
                "if len(p) != len(q): return False",
                f"if p is q: {'made' if makes else 'shared'}.append(p)",
                "else:",
                " for i, v in p.items():",
                f"  if not ({plain}):",
                f"   if not mapping(p, q, found, {left}, {right}): return False",
                "   break",
            ]
        if key.is_definition:
            keys = ["if pairs(i, j) is not j: return False"]
        elif self._is_known(key):
            differs = self._differs(key, "i", "j")
            keys = [f"if i is not j and ({differs}): {self._add('i', 'j', False)}"]
        else:
            keys = [self._add("i", "j", False)]
        return [
            f"p = x.{name}; q = y.{name}",
            "if len(p) != len(q): return False",
            "for (i, v), (j, w) in zip(p.items(), q.items()):",
            *_inside([*keys, self._add("v", "w", makes)]),
        ]


class _Table(dict[type, Comparer]):
    """Functions by class, generated on first use."""

    def __init__(self, makes: bool) -> None:
        self._makes = makes

    def __missing__(self, kind: type) -> Comparer:
        made = self[kind] = self._write(kind)
        return made

    def _write(self, kind: type) -> Comparer:
        makes = self._makes
        if issubclass(kind, Node):
            return _Writer(makes).function(kind)
        if issubclass(kind, tuple):
            return _compare_made_tuple if makes else _compare_used_tuple
        if issubclass(kind, Mapping):
            return _compare_made_mapping if makes else _compare_used_mapping
        return _compare_float if issubclass(kind, float) else _compare_value


_NAMELESS: Final = _NamelessClasses()
_USED: Final = _Table(makes=False)
_MADE: Final = _Table(makes=True)
COMPARERS: Final[dict[int, Callable[[ComparisonState], bool]]] = {}
"""The loops that compare pairs, by the number of node classes when they were generated."""


def comparer() -> Callable[[ComparisonState], bool]:
    """Return the loop that compares up to ``MOST`` pairs; the others stay listed."""
    if len(DECLARED) not in COMPARERS:  # fields may have values of new classes
        for table in (_NAMELESS, _USED, _MADE, COMPARERS):
            table.clear()
        COMPARERS[len(DECLARED)] = _Writer(makes=False).loop()
    return COMPARERS[len(DECLARED)]
