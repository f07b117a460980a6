"""Emit a choice between two values, of which only the chosen one is evaluated."""

from __future__ import annotations

from loomir.codegen.llvm.assembler.values import Value
from loomir.codegen.llvm.tir.constants import is_cheap
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.ir.visit import Step
from loomir.tir.expr import IntImm, PrimExpr, Var

__all__ = ["choose"]


def choose(
    frame: FunctionFrame, condition: Value, yes: PrimExpr | Value, no: PrimExpr | Value
) -> Step[Value]:
    """Return ``yes`` where the scalar condition holds, else ``no``.

    If both are cheap, both are evaluated: loops without branches can be vectorised.
    """
    if _is_free(frame, yes) and _is_free(frame, no):
        x: Value = yield _evaluate(frame, yes)
        y: Value = yield _evaluate(frame, no)
        return frame.b.select(condition, x, y)
    b = frame.b
    first, second, after = b.append("yes"), b.append("no"), b.append("chosen")
    first.inside(b.block)
    second.inside(b.block)
    after.continues(b.block)
    b.condbr(condition, first, second)
    b.position_at_end(first)
    x = yield _evaluate(frame, yes)
    from_first = b.block
    b.br(after)
    b.position_at_end(second)
    y = yield _evaluate(frame, no)
    from_second = b.block
    b.br(after)
    b.position_at_end(after)
    if not x.type.is_first_class:
        return x
    chosen = b.phi(x.type, "chosen")
    chosen.add(x, from_first)
    chosen.add(y, from_second)
    return chosen


def _is_free(frame: FunctionFrame, part: PrimExpr | Value) -> bool:
    if isinstance(part, (Value, Var, IntImm)):
        return True
    return not frame.checks_arithmetic and is_cheap(part)


def _evaluate(frame: FunctionFrame, part: PrimExpr | Value) -> Step[Value]:
    if isinstance(part, Value):
        return part
    return (yield frame.value(part))
