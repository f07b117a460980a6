"""Verify modules of loops and graphs: report every mistake and every warning."""

from __future__ import annotations

from typing import NamedTuple, cast

from loomir.check.relax.well_formed import well_formed
from loomir.check.tir.verify import verify as verify_kernels
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.visit import trampoline
from loomir.relax.expr import Function
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.support.argument_errors import explain_arguments
from loomir.support.diagnostics import CompileError, Diagnostic, with_article
from loomir.tir.function import PrimFunc

__all__ = ["Verdict", "derivation_mistakes", "judge", "verify", "warnings_of"]


class Verdict(NamedTuple):
    """The mistakes in a program, and the warnings about what may be one."""

    mistakes: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]


@explain_arguments
def verify(program: BaseFunc | IRModule) -> tuple[Diagnostic, ...]:
    """List every mistake of a function or a module; empty if there is none.

    Check kernels by the rules of TIR and graphs by those of well-formedness. Where a graph follows
    these, derive everything in it: operators accept their arguments, annotations are those of the
    values, calls are pure where they must be.
    """
    return judge(program).mistakes


@explain_arguments
def warnings_of(program: BaseFunc | IRModule) -> tuple[Diagnostic, ...]:
    """List warnings: code that may be unintended, and checks that are left to run time."""
    return judge(program).warnings


def judge(program: BaseFunc | IRModule) -> Verdict:
    """List the mistakes and the warnings of a program."""
    if not isinstance(cast("object", program), (BaseFunc, IRModule)):
        raise CompileError(
            Diagnostic(
                "TIR0005",
                f"{with_article(type(program).__name__)} is not a program",
                help="give a function decorated with @T.prim_func or @R.function, or a module with "
                "@I.ir_module; a text is read by loomir.script.from_source",
            )
        )
    found: list[Diagnostic] = []
    if isinstance(program, (PrimFunc, IRModule)):
        found += verify_kernels(program)
    functions = program.functions.values() if isinstance(program, IRModule) else (program,)
    if not any(isinstance(func, Function) for func in functions):
        return Verdict(tuple(found), ())
    broken = well_formed(program)
    found += (d for d in broken if d.severity == "error")
    warnings = [d for d in broken if d.severity == "warning"]
    # Structural information can be derived only if all names are right.
    if all(d.severity == "warning" for d in broken):
        derived = _derive(program)
        found += derived.mistakes
        warnings += derived.warnings
    return Verdict(tuple(found), tuple(warnings))


def _derive(program: BaseFunc | IRModule) -> Verdict:
    """Derive what is known of every variable, and compare it with the annotations."""
    if isinstance(program, Function):
        mod = IRModule({GlobalVar(program.name): program})
    elif isinstance(program, IRModule):
        mod = program
    else:
        return Verdict((), ())
    builder = BlockBuilder(mod)
    functions = (func for func in mod.functions.values() if isinstance(func, Function))
    mistakes = tuple(found for func in functions for found in _mistakes_in(builder, func))
    return Verdict(mistakes, tuple(builder.warnings))


def _mistakes_in(builder: BlockBuilder, func: Function) -> list[Diagnostic]:
    normalizer = builder.normalizer
    mistakes = normalizer.mistakes = []
    try:
        normalizer.derive(trampoline(normalizer.function(func)))
    except CompileError as error:
        mistakes += error.diagnostics
    return mistakes


def derivation_mistakes(func: Function, mod: IRModule) -> list[Diagnostic]:
    """List the mistakes that derivation finds in a function of a module, whose names are right."""
    return _mistakes_in(BlockBuilder(mod), func)
