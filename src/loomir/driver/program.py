"""The programs that ``loomir.compile`` takes, each as a module."""

from __future__ import annotations

from typing import TypeAlias

from loomir.ir.advise_program import advise_program
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import rebuild
from loomir.relax import expr as relax
from loomir.support.diagnostics import CompileError, Diagnostic, with_article
from loomir.tir.function import PrimFunc

__all__ = ["Program", "as_module"]

Program: TypeAlias = IRModule | PrimFunc | relax.Function
"""The programs that ``compile`` takes: a module or a single function."""


def as_module(program: Program) -> IRModule:
    """Return the program as a module; a single function becomes a module of one.

    Errors: TIR0005 for anything else.
    """
    if isinstance(program, (PrimFunc, relax.Function)):
        named = program
        if "global_symbol" not in program.attrs:
            attrs = {**program.attrs, "global_symbol": program.name}
            named = rebuild(program, {"attrs": attrs})
        return IRModule({GlobalVar(named.name): named}, span=program.span)
    if isinstance(program, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        return program
    raise CompileError(
        Diagnostic(
            "TIR0005",
            f"{with_article(type(program).__name__)} is not a program",
            help=advise_program(program),
        )
    )
