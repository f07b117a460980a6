"""The executable semantics of TIR: a plain interpreter, independent of code generation."""

from loomir.interp.arguments import explain
from loomir.interp.builtins import TOLERANCE
from loomir.interp.calls import Interpreter, interpret

__all__ = ["TOLERANCE", "Interpreter", "explain", "interpret"]
