"""A plugin for mypy: ``plugins = ["loomir.checkers.mypy"]`` in its configuration.

mypy skips functions under a bare ``@T.prim_func``. The plugin makes it do the same under
``@T.prim_func(private=True)``, which mypy does not recognise as ``no_type_check``, and declares
that a class under ``@I.ir_module`` is a module, since mypy ignores the result of class decorators.
"""

from __future__ import annotations

from typing import Final

from mypy.nodes import (
    ARG_POS,
    AssignmentStmt,
    Block,
    CallExpr,
    ClassDef,
    Decorator,
    Expression,
    FuncDef,
    IfStmt,
    MemberExpr,
    MypyFile,
    NameExpr,
    Statement,
)
from mypy.plugin import Plugin

__all__ = ["LoomirPlugin", "plugin"]

_FUNCTIONS: Final = frozenset({"prim_func", "function", "macro", "jit"})
_CLASSES: Final = frozenset({"ir_module", "rewriter"})


class LoomirPlugin(Plugin):
    """The types that mypy sees in programs."""

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        """Rewrite the programs of a file, before names are looked up in it."""
        if "loomir" in f"{[vars_of(one) for one in file.imports]}":
            pending: list[list[Statement]] = [file.defs]
            while pending:
                statements = pending.pop()
                for index, one in enumerate(statements):
                    if isinstance(one, ClassDef):
                        statements[index] = _as_value(one)
                    _drop_options(one)
                    pending += _bodies(one)
        return []


def vars_of(statement: object) -> list[object]:
    """Return the names of modules that an import asks for."""
    return [getattr(statement, "id", ""), getattr(statement, "ids", "")]


def _bodies(statement: Statement) -> list[list[Statement]]:
    if isinstance(statement, ClassDef):
        return [statement.defs.body]
    if isinstance(statement, FuncDef):
        return [statement.body.body]
    if isinstance(statement, Decorator):
        return [statement.func.body.body]
    if isinstance(statement, IfStmt):
        blocks = [*statement.body, *([statement.else_body] if statement.else_body else [])]
        return [block.body for block in blocks]
    return [statement.body] if isinstance(statement, Block) else []


def _find_name(decorator: Expression, names: frozenset[str]) -> MemberExpr | NameExpr | None:
    """Return ``T.name`` of ``@T.name`` or ``@T.name(…)``, where it is one of the names.

    Of names without a module, only ``jit`` counts: the others are too common to belong to Loomir.
    """
    found = decorator.callee if isinstance(decorator, CallExpr) else decorator
    if isinstance(found, NameExpr):
        return found if found.name == "jit" and "jit" in names else None
    named = isinstance(found, MemberExpr) and isinstance(found.expr, NameExpr)
    return found if named and isinstance(found, MemberExpr) and found.name in names else None


def _drop_options(statement: Statement) -> None:
    """Make ``@T.prim_func`` of ``@T.prim_func(private=True)``."""
    if isinstance(statement, Decorator):
        for decorators in (statement.decorators, statement.original_decorators):
            decorators[:] = [_find_name(d, _FUNCTIONS) or d for d in decorators]


def _as_value(statement: ClassDef) -> Statement:
    """Make ``M = I.ir_module(type)`` of a class under ``@I.ir_module``."""
    for decorator in statement.decorators:
        if _find_name(decorator, _CLASSES) is not None:
            given = NameExpr("type")
            call = CallExpr(decorator, [given], [ARG_POS], [None])
            target = NameExpr(statement.name)
            made = AssignmentStmt([target], call)
            for node in (given, call, target, made):
                node.set_line(statement)
            return made
    return statement


def plugin(version: str) -> type[Plugin]:
    """Return the plugin; mypy calls this."""
    return LoomirPlugin
