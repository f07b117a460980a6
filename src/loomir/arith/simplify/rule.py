"""Rewrite rules as data, for the matcher, the documentation, the proof and the tests.

A pattern is written as an expression. ``x y z w`` stand for integers, ``p q r`` for conditions,
``f g h`` for floats, ``c1 c2 c3`` for integer constants, ``true`` and ``false`` for themselves.
``//`` and ``%`` round down; ``div`` and ``mod`` round towards zero; there are ``min``, ``max`` and
``select(p, x, y)``.
"""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from loomir.support.diagnostics import InternalError
from loomir.support.fork_safe import lazy_property
from loomir.support.stack_space import call_with_stack
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)

__all__ = ["WEIGHTS", "Pattern", "Rule", "is_constant", "measure", "occurrences", "parse"]


class Pattern(NamedTuple):
    """A node of a pattern: ``kind`` is a class of expressions, or the kind of a leaf.

    Leaves: ``"int"``, ``"bool"``, ``"float"``, ``"const"`` with a name; ``"number"``, ``"truth"``
    and ``"real"`` with a value.
    """

    kind: Any
    name: str = ""
    value: float = 0
    args: tuple[Pattern, ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether this is a placeholder or a literal."""
        return isinstance(self.kind, str)


_OPERATORS: Final[dict[type, type]] = {
    ast.Add: Add,
    ast.Sub: Sub,
    ast.Mult: Mul,
    ast.Div: Div,
    ast.FloorDiv: FloorDiv,
    ast.Mod: FloorMod,
    ast.Eq: Eq,
    ast.NotEq: NE,
    ast.Lt: LT,
    ast.LtE: LE,
    ast.Gt: GT,
    ast.GtE: GE,
    ast.And: And,
    ast.Or: Or,
    ast.Not: Not,
}
_FUNCTIONS: Final = {"min": Min, "max": Max, "div": Div, "mod": Mod, "select": Select}
_LEAVES: Final = {
    **dict.fromkeys("xyzw", "int"),
    **dict.fromkeys("pqr", "bool"),
    **dict.fromkeys("fgh", "float"),
    **dict.fromkeys(("c1", "c2", "c3"), "const"),
}


def parse(text: str) -> Pattern:
    """Read a pattern."""
    return _read(_parse(text))


def _parse(text: str) -> ast.expr:
    return call_with_stack(functools.partial(ast.parse, text, mode="eval")).body


def _read(e: Any) -> Pattern:
    if isinstance(e, ast.Name):
        if e.id in ("true", "false"):
            return Pattern("truth", e.id, int(e.id == "true"))
        return Pattern(_LEAVES[e.id], e.id)
    if isinstance(e, ast.Constant):
        kind = "real" if isinstance(e.value, float) else "number"
        return Pattern(kind, value=e.value)  # type: ignore[arg-type]
    if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
        inner = _read(e.operand)
        if inner.kind in ("real", "number"):
            return inner._replace(value=-inner.value)
        raise InternalError("a pattern negates by subtracting from 0")
    if isinstance(e, ast.UnaryOp):
        return Pattern(_OPERATORS[type(e.op)], args=(_read(e.operand),))
    if isinstance(e, ast.BinOp):
        return Pattern(_OPERATORS[type(e.op)], args=(_read(e.left), _read(e.right)))
    if isinstance(e, ast.Compare) and len(e.ops) == 1:
        return Pattern(_OPERATORS[type(e.ops[0])], args=(_read(e.left), _read(e.comparators[0])))
    if isinstance(e, ast.BoolOp) and len(e.values) == 2:
        return Pattern(_OPERATORS[type(e.op)], args=tuple(map(_read, e.values)))
    if isinstance(e, ast.Call) and isinstance(e.func, ast.Name):
        return Pattern(_FUNCTIONS[e.func.id], args=tuple(map(_read, e.args)))
    raise InternalError("a pattern has a part that no expression has")


def occurrences(pattern: Pattern) -> dict[str, int]:
    """Count how often each name occurs."""
    found: dict[str, int] = {}
    stack = [pattern]
    while stack:
        part = stack.pop()
        if part.is_leaf and part.name not in ("", "true", "false"):
            found[part.name] = found.get(part.name, 0) + 1
        stack.extend(part.args)
    return found


WEIGHTS: Final[dict[Any, int]] = {
    Add: 2,
    Sub: 2,
    Mul: 3,
    Min: 3,
    Max: 3,
    Eq: 2,
    LT: 2,
    LE: 2,
    NE: 3,
    GT: 3,
    GE: 3,
    Not: 2,
    And: 2,
    Or: 2,
    Select: 4,
    FloorDiv: 6,
    FloorMod: 6,
    Div: 8,
    Mod: 8,
}
"""The weights by which rules make expressions smaller; leaves weigh 1."""


def is_constant(pattern: Pattern) -> bool:
    """Tell whether a pattern has only constants, so that its instance is folded."""
    if pattern.is_leaf:
        return pattern.kind in ("const", "number", "truth", "real")
    return all(map(is_constant, pattern.args))


def measure(pattern: Pattern) -> tuple[int, int, int]:
    """Return the measure that each rule decreases: weight, left constants, divided weight."""
    if pattern.is_leaf or is_constant(pattern):
        return (1, 0, 0)
    parts = [measure(part) for part in pattern.args]
    weight = WEIGHTS[pattern.kind] + sum(part[0] for part in parts)
    left = sum(part[1] for part in parts)
    below = sum(part[2] for part in parts)
    if len(parts) == 2 and is_constant(pattern.args[0]):
        left += 1
    if pattern.kind in (FloorDiv, FloorMod):
        below += parts[0][0]
    return weight, left, below


@dataclass(frozen=True)
class Rule:
    """``lhs`` becomes ``rhs`` if ``when`` holds.

    ``cls`` is ``"W"`` for rules that hold even if integers wrap, ``"N"`` for those that hold if no
    part of either side wraps, ``"F"`` for floats.
    """

    lhs: str
    rhs: str
    when: str = ""
    cls: str = "W"

    @lazy_property
    def left(self) -> Pattern:
        """The pattern to match."""
        return parse(self.lhs)

    @lazy_property
    def right(self) -> Pattern:
        """The pattern of the replacement."""
        return parse(self.rhs)

    @lazy_property
    def condition(self) -> ast.expr | None:
        """The parsed condition."""
        return _parse(self.when) if self.when else None

    @lazy_property
    def dropped(self) -> tuple[str, ...]:
        """Names that the right side evaluates fewer times, so that they must have no effects.

        If a side is not always evaluated, these are all names.
        """
        left, right = occurrences(self.left), occurrences(self.right)
        names = tuple(n for n in left if n[0] != "c")
        if "and" in self.lhs or "or" in self.lhs:
            return names
        return tuple(n for n in names if right.get(n, 0) < left[n])

    def __str__(self) -> str:
        where = f"  where {self.when}" if self.when else ""
        return f"{self.lhs}  ->  {self.rhs}{where}"
