"""Report calls of programs that were not compiled, with the call that was probably meant."""

from __future__ import annotations

import ast
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from loomir.support.caller_span import parse_call, user_span
from loomir.support.diagnostics import Diagnostic, RunError

__all__ = ["UncompiledCallError", "UncompiledProgram", "is_callable"]


class UncompiledCallError(RunError, TypeError):
    """A program was called without being compiled."""


class UncompiledProgram:
    """A program, which is data. A call raises an error that says how to compile it."""

    __slots__ = ()

    def called_as(self) -> tuple[str, str]:
        """Return a name for the program, and the text after ``loomir.compile(name)`` to call it."""
        return "program", ""

    if not TYPE_CHECKING:

        def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
            """Raise the error that the program has to be compiled. Errors: RUN0123."""
            name, item = self.called_as()
            span = user_span()
            call = parse_call(span)
            if call is not None and _is_called(self, name, call.func, sys._getframe(1)):
                name = ast.unparse(call.func)
                call.func = ast.Name("call")
                arguments = ast.unparse(call).removeprefix("call")
            else:
                arguments = "(...)" if args or kwargs else "()"
            raise UncompiledCallError(
                Diagnostic(
                    "RUN0123",
                    f"{name} is not compiled: a program is data, which Python cannot call",
                    span=span,
                    help=f"compile it, and call that: loomir.compile({name}){item}{arguments}",
                )
            )


def is_callable(value: object) -> bool:
    """Tell whether a call of a value can succeed."""
    return callable(value) and not isinstance(value, UncompiledProgram)


def _is_called(program: object, name: str, func: ast.expr, caller: FrameType) -> bool:
    """Tell whether an expression in the caller denotes the program, without a call in between."""
    if isinstance(func, ast.Name):
        names = caller.f_locals if func.id in caller.f_locals else caller.f_globals
        return names.get(func.id) is program
    if isinstance(func, ast.Subscript):
        return isinstance(func.slice, ast.Constant) and func.slice.value == name
    return isinstance(func, ast.Attribute) and func.attr == name
