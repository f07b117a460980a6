"""Refuse numbers of expressions, with what to write instead, as in ``math.exp(x[i])``."""

from __future__ import annotations

from typing import Final, NoReturn

from loomir.ir.op import Op
from loomir.support.caller_span import read_call, user_span
from loomir.support.diagnostics import CompileError, Diagnostic

__all__ = ["refuse_number"]

_RENAMED: Final = {"fabs": "abs", "gamma": "tgamma"}


class NoNumberError(CompileError, TypeError):
    """An expression was asked for its number."""


def refuse_number() -> NoReturn:
    """Refuse to convert an expression to a number of Python. Errors: TIR0112."""
    span = user_span()
    called = read_call(span)
    help_ = "compile the program, call it, and use what it writes"
    asked = "float()"
    if called is not None and called.module == "math":
        asked = f"math.{called.name}()"
        name = _RENAMED.get(called.name, called.name)
        if Op.get(f"tir.{name}") is not None:
            help_ = f"write T.{name}({called.arguments})"
    elif called is not None and called.name == "float" and not called.module:
        help_ = f'write T.cast({called.arguments}, "float32")'
    message = f"{asked} needs a number, and an expression has none before the program runs"
    raise NoNumberError(Diagnostic("TIR0112", message, span, help=help_))
