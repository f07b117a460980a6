"""The syntax tree of a text in Tensor Comprehensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

from loomir.support.span import Source, Span

__all__ = [
    "RESERVED",
    "Apply",
    "Assignment",
    "Binary",
    "CallStatement",
    "Comment",
    "Constraint",
    "Def",
    "Exists",
    "Expr",
    "Ident",
    "Name",
    "Number",
    "Param",
    "Program",
    "RangeIn",
    "SizeOf",
    "Statement",
    "Ternary",
    "Unary",
    "fold",
    "parts_of",
    "span_between",
    "walk",
    "with_span",
]

RESERVED: Final = frozenset({"def", "where", "in", "exists"})
"""Words that name nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Ident:
    """A name where it stands."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A literal, as written."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A bare name: an index variable, a size, or a tensor of rank 0."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class SizeOf:
    """``name.axis``: the size of an axis."""

    name: str
    axis: int
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """``name(args)``: a read of a tensor, or a call of a builtin."""

    name: str
    args: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Unary:
    """``-operand`` or ``!operand``."""

    op: str
    operand: Expr
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Binary:
    """``left op right``."""

    op: str
    left: Expr
    right: Expr
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Ternary:
    """``condition ? then : otherwise``."""

    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span


Expr: TypeAlias = Number | Name | SizeOf | Apply | Unary | Binary | Ternary


@dataclass(frozen=True, slots=True, eq=False)
class RangeIn:
    """``index in start:stop`` after ``where``."""

    index: Ident
    start: Expr
    stop: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Exists:
    """``exists tensor(indices)`` after ``where``: an access that only tells about ranges."""

    access: Apply


Constraint: TypeAlias = RangeIn | Exists


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """``target(indices) op value where …``."""

    target: Ident
    indices: tuple[Ident, ...]
    op: str
    value: Expr
    where: tuple[Constraint, ...]
    span: Span
    op_span: Span


@dataclass(frozen=True, slots=True, eq=False)
class CallStatement:
    """``targets = callee(args)``."""

    targets: tuple[Ident, ...]
    callee: Ident
    args: tuple[Ident, ...]
    span: Span


Statement: TypeAlias = Assignment | CallStatement


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """``type(sizes) name``; ``sizes`` is None if no list was written."""

    type: Ident
    sizes: tuple[Ident, ...] | None
    name: Ident
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Def:
    """A function."""

    name: Ident
    params: tuple[Param, ...]
    returns: tuple[Ident, ...]
    body: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Comment:
    """A comment, without the mark that starts it."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """All functions of a text."""

    source: Source
    functions: tuple[Def, ...]
    comments: tuple[Comment, ...]


def span_between(first: Span, last: Span) -> Span:
    """Return the span from the start of one span to the end of another."""
    return Span(first.source, first.line, first.column, last.end_line, last.end_column)


def with_span(expr: Expr, span: Span) -> Expr:
    """Return an expression with another span, such as that of the parentheses around it."""
    return replace(expr, span=span)


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands of an expression, in order."""
    if isinstance(expr, Binary):
        return expr.left, expr.right
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Unary):
        return (expr.operand,)
    if isinstance(expr, Ternary):
        return expr.condition, expr.then, expr.otherwise
    return ()


def walk(root: Expr) -> Iterator[Expr]:
    """List an expression and all in it, from left to right."""
    stack = [root]
    while stack:
        expr = stack.pop()
        yield expr
        stack.extend(reversed(parts_of(expr)))


_R = TypeVar("_R")


def fold(root: Expr, fn: Callable[[Expr, list[_R]], _R]) -> _R:
    """Compute a value from the values of the parts, with a stack instead of recursion."""
    todo: list[tuple[Expr, bool]] = [(root, False)]
    done: list[_R] = []
    while todo:
        expr, ready = todo.pop()
        parts = parts_of(expr)
        if ready or not parts:
            start = len(done) - len(parts)
            values = done[start:]
            del done[start:]
            done.append(fn(expr, values))
        else:
            todo.append((expr, True))
            todo.extend((part, False) for part in reversed(parts))
    return done[0]
