"""Names of ``T``, ``R`` and ``I``: signatures and descriptions."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from types import ModuleType
from typing import Any, Final, NamedTuple

from loomir.script import ir, relax, tir

__all__ = ["Name", "aliases_of", "completions", "describe"]

_MODULES: Final[dict[str, ModuleType]] = {"tir": tir, "relax": relax, "ir": ir}
_ALIASES: Final = {"T": "tir", "R": "relax", "I": "ir"}
_MAX_SIGNATURE: Final = 300


class Name(NamedTuple):
    """A name of a dialect: its signature, and what it does."""

    name: str
    signature: str
    text: str
    is_function: bool


def aliases_of(text: str) -> dict[str, str]:
    """Find a file's names of dialects, such as ``{"T": "tir"}``, even in invalid Python."""
    found = dict(_ALIASES)
    for line in text.splitlines():
        if "import" not in line or "script" not in line:
            continue
        try:
            tree = ast.parse(line.strip())
        except (SyntaxError, ValueError):
            continue
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name in _MODULES:
                        found[alias.asname or alias.name] = alias.name
    return found


def _find(dotted: str, aliases: dict[str, str]) -> Any:
    """Find the object of a dotted name; None if it is not in a dialect."""
    first, *rest = dotted.split(".")
    value: Any = _MODULES.get(aliases.get(first, ""))
    for part in rest:
        if value is None or part.startswith("_"):
            return None
        value = getattr(value, part, None)
    return value


def describe(dotted: str, aliases: dict[str, str]) -> Name | None:
    """Describe a name such as ``T.exp`` or ``R.nn.relu``; None if it is not in a dialect."""
    value = _find(dotted, aliases)
    return None if value is None or "." not in dotted else _name(dotted, value)


def completions(dotted: str, aliases: dict[str, str]) -> tuple[Name, ...]:
    """List the names after ``T.`` or ``R.nn.``."""
    value = _find(dotted, aliases)
    return () if value is None else _names(dotted.partition(".")[2], _Key(value))


class _Key:
    """A namespace, compared by identity."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.value is self.value


@cache
def _names(prefix: str, space: _Key) -> tuple[Name, ...]:
    listed = getattr(space.value, "__all__", None) or dir(space.value)
    found: list[Name] = []
    for name in sorted(set(listed)):
        if not name.startswith("_"):
            value = getattr(space.value, name, None)
            if value is not None:
                found.append(_name(name, value))
    return tuple(found)


def _drop_types(signature: inspect.Signature) -> str:
    empty = inspect.Parameter.empty
    bare = [p.replace(annotation=empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare))


def _name(name: str, value: Any) -> Name:
    short = name.rpartition(".")[2]
    signature = ""
    if callable(value):
        try:
            signature = _drop_types(inspect.signature(value))
        except (TypeError, ValueError):
            signature = "(…)"
    if len(signature) > _MAX_SIGNATURE:
        signature = signature[: _MAX_SIGNATURE - 1] + "…"
    text = inspect.getdoc(value) or ""
    return Name(short, f"{name}{signature}", text, callable(value))
