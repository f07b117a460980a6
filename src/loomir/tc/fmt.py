"""Format a syntax tree as text in one canonical style; comments stay in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.tc.syntax import (
    Apply,
    Assignment,
    Binary,
    CallStatement,
    Comment,
    Def,
    Expr,
    Ident,
    Name,
    Number,
    Param,
    Program,
    RangeIn,
    SizeOf,
    Statement,
    Ternary,
    Unary,
)

__all__ = ["fmt", "fmt_expr"]

_BINDS: Final = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
"""How tightly operators bind; a ternary binds 0, a sign 7."""
_WIDTH: Final = 100
"""Columns of a line: what ends a longer one goes below it."""


def fmt(program: Program) -> str:
    """Write all functions of a text."""
    writer = _Writer(program.comments)
    for number, function in enumerate(program.functions):
        if number:
            writer.lines.append("")
        writer.function(function)
    writer.write_rest()
    return "\n".join(writer.lines) + "\n"


class _Writer:
    def __init__(self, comments: Sequence[Comment]) -> None:
        self.lines: list[str] = []
        self.comments = list(reversed(comments))

    def write_before(self, line: int, column: int, indent: str) -> None:
        """Write the comments that stand before a place."""
        while self.comments:
            span = self.comments[-1].span
            if (span.line, span.column) >= (line, column):
                return
            self.lines.append(f"{indent}#{self.comments.pop().text}")

    def write_beside(self, line: int) -> None:
        """Write the comment that ends a line beside what the line holds."""
        if self.comments and self.comments[-1].span.line == line:
            self.lines[-1] += f"  #{self.comments.pop().text}"

    def write_rest(self) -> None:
        for comment in reversed(self.comments):
            self.lines.append(f"#{comment.text}")

    def function(self, function: Def) -> None:
        self.write_before(function.span.line, function.span.column, "")
        params = ", ".join(_param(p) for p in function.params)
        returns = _idents(function.returns)
        head = f"def {function.name.name}({params})"
        self.lines += _break_line(head, f" -> ({returns}) {{", "    ")
        for statement in function.body:
            self.write_before(statement.span.line, statement.span.column, "  ")
            self.lines += _break_line(
                f"  {_statement(statement)}", _write_where(statement), "      "
            )
            self.write_beside(_find_last_line(statement))
        self.write_before(function.span.end_line, function.span.end_column, "  ")
        self.lines.append("}")
        self.write_beside(function.span.end_line)


def _find_last_line(statement: Statement) -> int:
    line = statement.span.end_line
    if isinstance(statement, Assignment):
        for part in statement.where:
            span = part.stop.span if isinstance(part, RangeIn) else part.access.span
            line = max(line, span.end_line)
    return line


def _idents(idents: Sequence[Ident]) -> str:
    return ", ".join(i.name for i in idents)


def _param(param: Param) -> str:
    sizes = "" if param.sizes is None else f"({_idents(param.sizes)})"
    return f"{param.type.name}{sizes} {param.name.name}"


def _statement(statement: Statement) -> str:
    if isinstance(statement, CallStatement):
        args = _idents(statement.args)
        return f"{_idents(statement.targets)} = {statement.callee.name}({args})"
    left = f"{statement.target.name}({_idents(statement.indices)})"
    return f"{left} {statement.op} {fmt_expr(statement.value)}"


def _write_where(statement: Statement) -> str:
    """Write the ranges and conditions of a statement; empty if it has none."""
    if isinstance(statement, CallStatement) or not statement.where:
        return ""
    parts: list[str] = []
    for part in statement.where:
        if isinstance(part, RangeIn):
            start, stop = fmt_expr(part.start), fmt_expr(part.stop)
            parts.append(f"{part.index.name} in {start}:{stop}")
        else:
            parts.append(f"exists {fmt_expr(part.access)}")
    return f" where {', '.join(parts)}"


def _break_line(text: str, end: str, indent: str) -> list[str]:
    """Write a text and its end on one line, or on two where that is longer than a line may be."""
    if not end or len(text + end) <= _WIDTH:
        return [text + end]
    return [text, indent + end.lstrip()]


def fmt_expr(root: Expr) -> str:
    """Write an expression with the parentheses that it needs."""
    out: list[str] = []
    todo: list[str | tuple[Expr, int]] = [(root, 0)]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            out.append(item)
            continue
        expr, least = item
        binds, parts = _pieces(expr)
        if binds < least:
            parts = ["(", *parts, ")"]
        todo.extend(reversed(parts))
    return "".join(out)


def _pieces(expr: Expr) -> tuple[int, list[str | tuple[Expr, int]]]:
    """Return how tightly an expression binds, and its text with operands in place."""
    if isinstance(expr, Number):
        return 8, [expr.text]
    if isinstance(expr, Name):
        return 8, [expr.name]
    if isinstance(expr, SizeOf):
        return 8, [f"{expr.name}.{expr.axis}"]
    if isinstance(expr, Apply):
        parts: list[str | tuple[Expr, int]] = [f"{expr.name}("]
        for number, arg in enumerate(expr.args):
            parts += [", ", (arg, 0)] if number else [(arg, 0)]
        return 8, [*parts, ")"]
    if isinstance(expr, Unary):
        return 7, [expr.op, (expr.operand, 7)]
    if isinstance(expr, Binary):
        binds = _BINDS[expr.op]
        return binds, [(expr.left, binds), f" {expr.op} ", (expr.right, binds + 1)]
    return _ternary(expr)


def _ternary(expr: Ternary) -> tuple[int, list[str | tuple[Expr, int]]]:
    return 0, [(expr.condition, 1), " ? ", (expr.then, 0), " : ", (expr.otherwise, 0)]
