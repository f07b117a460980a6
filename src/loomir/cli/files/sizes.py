"""Evaluate a size, such as an extent or a loop's bound."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping

from loomir.interp.machine import Environment, evaluate
from loomir.interp.scope import Scope
from loomir.interp.tir.expr import compile_expr
from loomir.ir.substitution import free_definitions
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir.expr import PrimExpr, Var

__all__ = ["require_whole", "size_of"]


def require_whole(name: str, value: int | float) -> int:
    """Return a size as an integer. Errors: CLI0003 if it is no integer, or does not fit int64."""
    if abs(value) < 1 << 63 and int(value) == value:
        return int(value)
    raise CompileError(
        Diagnostic(
            "CLI0003",
            f"{name} is {reprlib.repr(value)}, and a size is a whole number of int64",
            help=f"give another size, as in {name}=64",
        )
    )


def size_of(expr: PrimExpr, values: Mapping[Var, int]) -> int | None:
    """Evaluate an integer expression; None if it depends on unknown values."""
    scope = Scope()
    slots: dict[int, int] = {}
    for name in free_definitions(expr):
        if not isinstance(name, Var) or name not in values:
            return None
        slots[scope.bind(name)] = values[name]
    code = compile_expr(expr, scope)
    env: Environment = [None] * scope.size
    for slot, value in slots.items():
        env[slot] = value
    steps = evaluate(code, env)
    try:
        next(steps)
    except StopIteration as stop:
        return int(stop.value)
    return None  # it contains a call
