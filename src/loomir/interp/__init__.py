"""The executable semantics of programs: plain interpreters, independent of code generation."""

from loomir.interp.arguments import explain
from loomir.interp.builtins import TOLERANCE
from loomir.interp.calls import Interpreter
from loomir.interp.program import interpret

__all__ = ["TOLERANCE", "Interpreter", "explain", "interpret"]
