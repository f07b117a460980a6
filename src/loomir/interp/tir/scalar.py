"""Evaluate one scalar expression, such as an extent."""

from __future__ import annotations

from collections.abc import Mapping

from loomir.interp.machine import Environment, evaluate
from loomir.interp.scope import Scope
from loomir.interp.tir.expr import compile_expr
from loomir.interp.values import Scalar
from loomir.support.diagnostics import InternalError
from loomir.tir.expr import PrimExpr, Var

__all__ = ["value_of"]


def value_of(expr: PrimExpr, values: Mapping[Var, Scalar]) -> Scalar:
    """Evaluate an expression of any depth, without loads or calls, with values for its names.

    Errors: TIR0401 for a name without a value; RunError for what happens, such as RUN0201.
    """
    scope = Scope()
    slots = {scope.bind(var): value for var, value in values.items()}
    code = compile_expr(expr, scope)
    env: Environment = [slots.get(slot) for slot in range(scope.size)]
    try:
        next(evaluate(code, env))
    except StopIteration as stop:
        value: Scalar = stop.value
        return value
    raise InternalError("the value of an expression asks for a call")
