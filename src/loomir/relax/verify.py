"""The check of programs of both IRs: every mistake in them, and every warning."""

from __future__ import annotations

from typing import NamedTuple

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.visit import trampoline
from loomir.relax.block_builder import BlockBuilder
from loomir.relax.expr import Function
from loomir.relax.well_formed import well_formed
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir.function import PrimFunc
from loomir.tir.verify import verify as verify_kernels

__all__ = ["verify", "warnings_of"]


class _Found(NamedTuple):
    mistakes: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]


def verify(program: BaseFunc | IRModule) -> tuple[Diagnostic, ...]:
    """List every mistake of a function or a module; none where it is right.

    Kernels are held to the rules of TIR. Graphs are held to those of well-formedness, and where
    these hold, everything in them is derived: operators accept their arguments, annotations are
    those of the values, calls are pure where they must be.
    """
    return _judged(program).mistakes


def warnings_of(program: BaseFunc | IRModule) -> tuple[Diagnostic, ...]:
    """List what is no mistake, but may not be meant: what is left to be checked when it runs."""
    return _judged(program).warnings


def _judged(program: BaseFunc | IRModule) -> _Found:
    found: list[Diagnostic] = []
    if isinstance(program, (PrimFunc, IRModule)):
        found += verify_kernels(program)
    broken = well_formed(program)
    found += (d for d in broken if d.severity == "error")
    warnings = [d for d in broken if d.severity == "warning"]
    # What is known of variables takes programs in which names are right.
    if all(d.severity == "warning" for d in broken):
        derived = _derived(program)
        found += derived.mistakes
        warnings += derived.warnings
    return _Found(tuple(found), tuple(warnings))


def _derived(program: BaseFunc | IRModule) -> _Found:
    """Derive what is known of every variable, and hold it against the annotations."""
    if isinstance(program, Function):
        mod = IRModule({GlobalVar(program.name): program})
    elif isinstance(program, IRModule):
        mod = program
    else:
        return _Found((), ())
    builder = BlockBuilder(mod)
    normalizer = builder.normalizer
    mistakes = normalizer.mistakes = []
    for func in mod.functions.values():
        if not isinstance(func, Function):
            continue
        try:
            normalizer.derive(trampoline(normalizer.function(func)))
        except CompileError as error:
            mistakes += error.diagnostics
    return _Found(tuple(mistakes), tuple(builder.warnings))
