"""The functions of programs, and the names that a command can set."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from loomir.cli.files.source import Program
from loomir.cli.graphs import graph_names, graphs_of
from loomir.ir.module import IRModule
from loomir.relax.expr import Function
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of

__all__ = ["check_names", "functions_of", "public_functions"]


def check_names(
    settings: Mapping[str, int | float],
    module: ModuleType,
    programs: Mapping[str, Program],
) -> None:
    """Refuse a setting of a name that the file does not have. Errors: CLI0006."""
    known = {name for name, value in vars(module).items() if issubclass(type(value), (int, float))}
    for program in programs.values():
        for graph in graphs_of(program).values():
            known |= graph_names(graph)
        for func in public_functions(program).values():
            signature = signature_of(func)
            known |= {b.var.name_hint for b in signature.bindings}
            known |= {p.name for p in signature.parameters if p.buffer is None}
    for name in settings:
        if name not in known:
            raise CompileError(
                Diagnostic(
                    "CLI0006",
                    f"--size {name}: nothing has that name",
                    notes=(f"names: {', '.join(sorted(known)) or 'none'}",),
                    help="use a top-level constant of the file, a size, or a scalar parameter",
                )
            )


def functions_of(program: Program) -> list[PrimFunc]:
    """List the loop-level functions of a program."""
    if isinstance(program, PrimFunc):
        return [program]
    if isinstance(program, Function):
        return []
    return [f for f in program.functions.values() if isinstance(f, PrimFunc)]


def public_functions(program: Program) -> dict[str, PrimFunc]:
    """List the public functions by name."""
    if isinstance(program, IRModule):
        return {f.name: f for f in functions_of(program) if "global_symbol" in f.attrs}
    return {f.name: f for f in functions_of(program)}
