"""Emit integer sums and products by plain calls: most indices are such, and visitors are slower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.floats import register_type
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.tir.expr import Add, IntImm, Mul, Sub, Var

__all__ = ["sum_of"]

_RING: Final[dict[type, Callable[[Builder, Value, Value], Value]]] = {
    Add: Builder.add,
    Sub: Builder.sub,
    Mul: Builder.mul,
}
_LEVELS: Final = 8
"""Levels of a sum that are emitted recursively."""


def sum_of(frame: FunctionFrame, e: Any, levels: int = _LEVELS) -> Value | None:
    """Emit a sum; None if it is deep, holds anything else, or overflow has to be checked."""
    if frame.checks_arithmetic:
        return None
    kind = e.__class__
    if kind is Var:
        return frame.lookup(e)
    if kind is IntImm:
        return const(register_type(e.dtype), e.value)
    emit = _RING.get(kind)
    if emit is None or not levels or not e.dtype.is_integer:
        return None
    # If this fails further on, the general visitor emits the same again, and the builder reuses it.
    x = sum_of(frame, e.a, levels - 1)
    if x is None:
        return None
    y = sum_of(frame, e.b, levels - 1)
    return None if y is None else emit(frame.b, x, y)
