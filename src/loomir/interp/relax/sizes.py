"""Evaluate scalar expressions in graphs: sizes, extents, scalars.

int64 arithmetic is exact: overflow is an error, and so is a division by zero, even in the operand
that a ``Select`` does not choose. Everything else means what it means in loop-level programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from loomir.interp.arithmetic import InexactResult
from loomir.interp.machine import Code, Environment, evaluate
from loomir.interp.scope import Scope
from loomir.interp.tir.expr import compile_expr
from loomir.interp.values import Scalar
from loomir.ir.substitution import free_definitions
from loomir.relax import faults
from loomir.relax.info.describe import format_extent
from loomir.runtime.errors import RunZeroDivisionError
from loomir.support.diagnostics import InternalError
from loomir.support.span import Span
from loomir.tir.expr import IntImm, PrimExpr, Var

__all__ = ["Sizes", "variables_of"]


class _CompiledSize(NamedTuple):
    root: PrimExpr
    """Kept alive, so that no other expression gets its identity."""
    code: Code
    slots: tuple[tuple[Var, int], ...]
    size: int


def variables_of(expr: PrimExpr) -> tuple[Var, ...]:
    """List the variables that the value of an expression depends on."""
    return tuple(v for v in free_definitions(expr) if isinstance(v, Var))


_MOST: Final = 10_000


class Sizes:
    """Evaluates expressions; each is compiled on first use."""

    def __init__(self) -> None:
        self._known: dict[int, _CompiledSize] = {}

    def value(
        self, expr: PrimExpr, values: Mapping[Var, Scalar], span: Span | None = None
    ) -> Scalar:
        """Return the value of an expression.

        Errors: TIR0401 for a variable without a value, RUN0201, RUN0410.
        """
        if isinstance(expr, IntImm):
            return bool(expr.value) if expr.dtype.is_bool else expr.value
        if isinstance(expr, Var) and expr in values:
            return values[expr]
        found = self._known.get(id(expr))
        if found is None or any(var not in values for var, _ in found.slots):
            found = self._compile(expr, values)
        env: Environment = [None] * found.size
        for var, slot in found.slots:
            env[slot] = values[var]
        place = getattr(expr, "span", None) or span
        try:
            next(evaluate(found.code, env))
        except StopIteration as stop:
            value: Scalar = stop.value
            return value
        except InexactResult:
            raise faults.overflow(place, format_extent(expr)).error() from None
        except RunZeroDivisionError as error:
            raise RunZeroDivisionError(*(d.at(place) for d in error.diagnostics)) from None
        raise InternalError("the value of an expression asks for a call")

    def knows(self, expr: PrimExpr, values: Mapping[Var, Scalar]) -> bool:
        """Tell whether each variable of an expression has a value."""
        if isinstance(expr, IntImm):
            return True
        return all(var in values for var in variables_of(expr))

    def _compile(self, expr: PrimExpr, values: Mapping[Var, Scalar]) -> _CompiledSize:
        scope = Scope(exact=True)
        slots = tuple((v, scope.bind(v)) for v in variables_of(expr) if v in values)
        made = _CompiledSize(expr, compile_expr(expr, scope), slots, scope.size)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[id(expr)] = made
        return made
