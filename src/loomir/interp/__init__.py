"""The executable semantics of programs: plain interpreters, independent of code generation."""

from loomir.interp.builtins import TOLERANCE
from loomir.interp.program import interpret
from loomir.interp.tir.arguments import explain
from loomir.interp.tir.calls import ExactRun, Interpreter
from loomir.support.argument_errors import explain_exported as _explain_exported

__all__ = ["TOLERANCE", "ExactRun", "Interpreter", "explain", "interpret"]

globals().update(_explain_exported(globals(), __all__))
