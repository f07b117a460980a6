"""Raise an error for a program that breaks a typing rule, from the constructor of a node."""

from __future__ import annotations

from typing import NoReturn

from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType
from loomir.support.span import Span

__all__ = ["bool_dtype", "refuse"]


def refuse(
    code: str,
    message: str,
    *,
    label: str = "",
    notes: tuple[str, ...] = (),
    help: str,  # named after the diagnostic's field
    span: Span | None = None,
) -> NoReturn:
    """Raise a ``CompileError``; the parser adds the place if the constructor has none."""
    raise CompileError(Diagnostic(code, message, span, label, (), notes, help))


def bool_dtype(op: type, span: Span | None, *operands: DataType) -> DataType:
    """Return the dtype of a logical operation. Errors: TIR0101, TIR0102."""
    for dtype in operands:
        if not dtype.is_bool:
            refuse(
                "TIR0102",
                f"{op.__name__} needs bool operands, not {dtype}",
                help="compare with zero, as in x != 0",
                span=span,
            )
        if dtype is not operands[0]:
            refuse(
                "TIR0101",
                f"{op.__name__} needs operands of as many lanes, not {operands[0]} and {dtype}",
                help="broadcast one of them with T.Broadcast",
                span=span,
            )
    return operands[0]
