"""Find where two programs differ, up to renaming of what they define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from loomir.ir.comparison import structural_equal
from loomir.ir.comparison_code import is_same_leaf
from loomir.ir.node import Node, Role
from loomir.support.diagnostics import CompileError, Diagnostic

__all__ = [
    "Difference",
    "are_equal",
    "assert_structural_equal",
    "first_difference",
    "structural_equal",
]


class _Path(NamedTuple):
    """The path to a place in the tree, as linked steps; formatted only when shown."""

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


def are_equal(left: Sequence[Node], right: Sequence[Node]) -> bool:
    """Tell whether two sequences of nodes are as long, and structurally equal one by one."""
    return len(left) == len(right) and all(
        a is b or structural_equal(a, b) for a, b in zip(left, right)
    )


def first_difference(left: Node, right: Node) -> Difference | None:
    """Find the first place where two programs differ, or None if they are equal."""
    return None if structural_equal(left, right) else _search(left, right)


def _search(left: Node, right: Node) -> Difference | None:
    """Walk both programs with their paths, which is slower than testing for equality."""
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
                    return Difference(str(task.path), a, b)
                if a is b and task.role is not Role.BINDS:
                    continue
                if task.role is not Role.BINDS:
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
        elif not is_same_leaf(a, b):  # pyright: ignore[reportUnknownArgumentType]
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
        # Inside a definition, such as a buffer's shape, new names are defined, too.
        role = Role.BINDS if task.role is Role.BINDS else field.role
        path = _Path(task.path, f".{field.name}")
        tasks.append(_Task(getattr(a, field.name), getattr(b, field.name), role, path))
    tasks.reverse()
    return tasks


def _mappings(
    a: Mapping[Any, object], b: Mapping[Any, object], task: _Task, stack: list[_Task]
) -> Difference | None:
    """Compare mappings: with strings as keys in any order, with definitions in order."""
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


def assert_structural_equal(left: Node, right: Node) -> None:
    """Raise an error that names the first place where two programs differ, if they do.

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
