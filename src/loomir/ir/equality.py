"""Structural equality: the same program up to the names and identity of what it defines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain, compress
from typing import Any, Final, NamedTuple, cast

from loomir.ir.node import Node, Role
from loomir.ir.visit import plan_of
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType

__all__ = ["Difference", "assert_structural_equal", "first_difference", "structural_equal"]


_MANY: Final = 50_000
_PLAIN: Final = {int, str, bool, type(None), DataType}
"""Types whose values are equal where ``==`` of two of the same type says so."""


class _Path(NamedTuple):
    """Where in the tree, as a link to the step before; spelled out only when shown."""

    before: _Path | None
    step: str

    def __str__(self) -> str:
        steps: list[str] = []
        at: _Path | None = self
        while at is not None:
            steps.append(at.step)
            at = at.before
        return "".join(reversed(steps))


class Difference(NamedTuple):
    """The first place where two programs differ."""

    path: str
    left: object
    right: object


class _Task(NamedTuple):
    left: object
    right: object
    role: Role
    path: _Path


def first_difference(left: Node, right: Node) -> Difference | None:
    """Find the first place where two programs differ, or None where they are equal."""
    return None if structural_equal(left, right) else _search(left, right)


def _search(left: Node, right: Node) -> Difference | None:
    """Walk both programs and keep the path: slower than to tell whether they are equal."""
    to_right: dict[int, Node] = {}
    to_left: dict[int, Node] = {}
    keep: list[Node] = []  # ids stay valid while their objects live
    stack = [_Task(left, right, Role.CHILD, _Path(None, "root"))]
    while stack:
        task = stack.pop()
        a, b = task.left, task.right
        if isinstance(a, Node) and isinstance(b, Node):
            if type(a) is not type(b):
                return Difference(str(task.path), a, b)
            if a.is_definition:
                known_a, known_b = to_right.get(id(a)), to_left.get(id(b))
                if known_a is not None or known_b is not None:
                    if known_a is b and known_b is a:
                        continue
                    if task.role is not Role.BINDS:
                        return Difference(str(task.path), a, b)
                elif a is b and task.role is not Role.BINDS:
                    continue
                elif task.role is not Role.BINDS:
                    return Difference(str(task.path), a, b)
                to_right[id(a)], to_left[id(b)] = b, a
                keep += (a, b)
            stack.extend(_parts(a, b, task))
        elif isinstance(a, tuple) and isinstance(b, tuple):
            xs, ys = cast("tuple[object, ...]", a), cast("tuple[object, ...]", b)
            if len(xs) != len(ys):
                return Difference(f"{task.path}.length", len(xs), len(ys))
            for i in range(len(xs) - 1, -1, -1):
                stack.append(_Task(xs[i], ys[i], task.role, _Path(task.path, f"[{i}]")))
        elif isinstance(a, Mapping) and isinstance(b, Mapping):
            difference = _mappings(
                cast("Mapping[Any, object]", a), cast("Mapping[Any, object]", b), task, stack
            )
            if difference is not None:
                return difference
        elif not _same_leaf(a, b):  # pyright: ignore[reportUnknownArgumentType]
            return Difference(str(task.path), a, b)
    return None


def _parts(a: Node, b: Node, task: _Task) -> list[_Task]:
    """List the comparisons of two nodes' fields, last first since a stack takes them."""
    tasks: list[_Task] = []
    for field in a.node_fields:
        if field.role is Role.ATTR:
            path = _Path(task.path, f".{field.name}")
            tasks.append(_Task(getattr(a, field.name), getattr(b, field.name), Role.ATTR, path))
    for field in a.scan:
        # Inside a definition (a buffer's shape), names not seen before are defined too.
        role = Role.BINDS if task.role is Role.BINDS else field.role
        path = _Path(task.path, f".{field.name}")
        tasks.append(_Task(getattr(a, field.name), getattr(b, field.name), role, path))
    tasks.reverse()
    return tasks


def _mappings(
    a: Mapping[Any, object], b: Mapping[Any, object], task: _Task, stack: list[_Task]
) -> Difference | None:
    """Compare mappings: keyed by strings in any order, keyed by definitions in theirs."""
    if len(a) != len(b):
        return Difference(f"{task.path}.length", len(a), len(b))
    if all(isinstance(key, Node) for key in a):
        pairs = zip(a.items(), b.items(), strict=True)
        for (key_a, item_a), (key_b, item_b) in reversed(list(pairs)):
            path = _Path(task.path, f"[{_name_of(key_a)}]")
            stack.append(_Task(item_a, item_b, task.role, path))
            stack.append(_Task(key_a, key_b, Role.USES, path))
        return None
    for key in sorted(a, key=str, reverse=True):
        path = _Path(task.path, f"[{key!r}]")
        if key not in b:
            return Difference(str(path), a[key], None)
        stack.append(_Task(a[key], b[key], task.role, path))
    return None


def _name_of(key: object) -> str:
    return str(getattr(key, "name_hint", key))


def _same_leaf(a: object, b: object) -> bool:
    if a is b:
        return True
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
    return type(a) is type(b) and a == b


def structural_equal(left: Node, right: Node) -> bool:
    """Tell whether two programs are the same up to names."""
    return _Pairing().holds(left, right)


class _Unequal(Exception):
    """Raised inside of this module when a comparison fails."""


class _Pairing:
    """The pairs of nodes that must agree, a column of them for each class.

    A definition must go with one definition of the other side throughout, and what neither side
    defines must be the same on both. So the order of comparisons does not matter, and whole columns
    are read and compared at once, which Python does many times faster than node by node.
    """

    def __init__(self) -> None:
        self.todo: dict[tuple[type[Node], bool], tuple[list[Any], list[Any]]] = {}
        self.bound: set[tuple[Node, Node]] = set()
        self.used: set[tuple[Node, Node]] = set()
        # What both sides share is compared only where names in it might differ.
        self.shared: dict[tuple[Node, bool], None] = {}
        self.skip_shared = True

    def holds(self, left: Node, right: Node) -> bool:
        """Compare all below a pair."""
        try:
            self._add([left], [right], False)
            self._run()
            if self.shared and any(a is not b for a, b in self.bound):
                self.skip_shared = False
                for part, defines in self.shared:
                    self._queue(part.__class__, defines, [part], [part])
                self._run()
        except _Unequal:
            return False
        pairs = self.used | self.bound
        return (
            all(a is b for a, b in self.used - self.bound)
            and len({a for a, _ in pairs}) == len(pairs)
            and len({b for _, b in pairs}) == len(pairs)
        )

    def _run(self) -> None:
        while self.todo:
            level, self.todo = self.todo, {}
            for (cls, defines), (xs, ys) in level.items():
                if cls.is_definition:
                    pairs = set(zip(xs, ys))
                    if not defines:
                        self.used |= pairs
                        continue
                    self._compare(cls, True, list(pairs - self.bound))
                    self.bound |= pairs
                elif len(xs) > _MANY:
                    # A program that shares parts within itself has few different pairs.
                    self._compare(cls, defines, list(dict.fromkeys(zip(xs, ys))))
                else:
                    self._columns(cls, defines, xs, ys)

    def _compare(self, cls: type[Node], defines: bool, pairs: list[tuple[Node, Node]]) -> None:
        self._columns(cls, defines, [a for a, _ in pairs], [b for _, b in pairs])

    def _columns(self, cls: type[Node], defines: bool, xs: list[Any], ys: list[Any]) -> None:
        plan = plan_of(cls)
        for get in plan.attr_columns:
            self._add(list(map(get, xs)), list(map(get, ys)), False)
        for get, binds in plan.scan_columns:
            self._add(list(map(get, xs)), list(map(get, ys)), defines or binds)

    def _add(self, xs: list[Any], ys: list[Any], defines: bool) -> None:
        """Demand that two columns of values agree; raises where they cannot."""
        kinds = list(map(type, xs))
        if kinds != list(map(type, ys)):
            raise _Unequal
        few = set(kinds)
        if few <= _PLAIN:
            if xs != ys:
                raise _Unequal
        elif len(few) > 1:
            for kind in few:
                chosen = [k is kind for k in kinds]
                self._add(list(compress(xs, chosen)), list(compress(ys, chosen)), defines)
        else:
            self._add_kind(kinds[0], xs, ys, defines)

    def _add_kind(self, kind: type, xs: list[Any], ys: list[Any], defines: bool) -> None:
        if issubclass(kind, Node):
            if xs[0] is ys[0] and self.skip_shared and not kind.is_definition:
                same = [a is b for a, b in zip(xs, ys)]
                self.shared.update(dict.fromkeys((a, defines) for a in compress(xs, same)))
                other = [not s for s in same]
                xs, ys = list(compress(xs, other)), list(compress(ys, other))
            if xs:
                self._queue(kind, defines, xs, ys)
        elif issubclass(kind, tuple):
            if list(map(len, xs)) != list(map(len, ys)):
                raise _Unequal
            inside = list(chain.from_iterable(xs)), list(chain.from_iterable(ys))
            if inside[0]:
                self._add(*inside, defines)
        elif issubclass(kind, Mapping):
            for a, b in zip(xs, ys):
                self._add_mapping(a, b, defines)
        elif not all(map(_same_leaf, xs, ys)):
            raise _Unequal

    def _queue(self, kind: type[Node], defines: bool, xs: list[Any], ys: list[Any]) -> None:
        known = self.todo.get((kind, defines))
        if known is None:
            self.todo[kind, defines] = (xs, ys)
        else:
            known[0].extend(xs)
            known[1].extend(ys)

    def _add_mapping(self, a: Mapping[Any, Any], b: Mapping[Any, Any], defines: bool) -> None:
        if len(a) != len(b):
            raise _Unequal
        if all(isinstance(key, Node) for key in a):  # keyed by definitions, in their order
            if a:
                self._add(list(a), list(b), False)
                self._add(list(a.values()), list(b.values()), defines)
        elif a.keys() != b.keys():
            raise _Unequal
        else:
            self._add(list(a.values()), [b[key] for key in a], defines)


def assert_structural_equal(left: Node, right: Node) -> None:
    """Raise, naming the first place where two programs differ.

    Errors: TIR0002.
    """
    found = first_difference(left, right)
    if found is not None:
        raise CompileError(
            Diagnostic(
                "TIR0002",
                f"the programs differ at {found.path}",
                notes=(f"left:  {found.left}", f"right: {found.right}"),
                help="compare both with .script()",
            )
        )
