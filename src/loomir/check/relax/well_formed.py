"""Rules of well-formed graphs, in normal form or not.

Rule n is reported as RLX01nn. Constructors check rules 10, 17, 19, 20 and 22, and those parts of 14
and 15 that concern a single node. This package checks what needs a whole program: scopes,
recursion, and the contents of a module. All mistakes are reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from loomir.check.relax.scoping import Program, check_function
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.relax.expr import Function
from loomir.support.diagnostics import Diagnostic

__all__ = ["well_formed"]


def well_formed(program: IRModule | BaseFunc) -> tuple[Diagnostic, ...]:
    """List violations of rules, in program order; empty if the program is well-formed.

    A function outside of a module may call itself by its name. Two rules only give warnings: that a
    module can be called from outside (12), and by the names of its functions (13).
    Source: relax.md, Well-Formedness Criteria; decisions R12, R13, R17, R18, R38, R39.
    """
    if isinstance(program, IRModule):
        found = [*_linkage(program)]
        made = Program(program)
        for var, func in program.functions.items():
            if isinstance(func, Function):
                found += _find_unannotated(var, func, made)
                found += check_function(var, func, made)
        return tuple(found)
    if not isinstance(program, Function):
        return ()
    var = GlobalVar(program.name)
    made = Program(IRModule({var: program}), is_single=True)
    return (*_find_unannotated(var, program, made), *check_function(var, program, made))


def _find_unannotated(var: GlobalVar, func: Function, program: Program) -> Iterator[Diagnostic]:
    """Rule 8: the result of a recursive function is annotated."""
    if var.name_hint in program.recursive and func.ret_struct_info is None:
        others = sorted(program.recursive[var.name_hint] - {var.name_hint})
        way = f" by way of {', '.join(others)}" if others else ""
        yield Diagnostic(
            "RLX0108",
            f"{var.name_hint!r} calls itself{way}, and its result is not annotated (rule 8)",
            func.span,
            help="annotate what it returns, as in -> R.Tensor((n,), 'float32')",
        )


def _linkage(mod: IRModule) -> Iterator[Diagnostic]:
    """Rules 12 and 13: a program can be called from outside, by the names in its module."""
    graphs = {v: f for v, f in mod.functions.items() if isinstance(f, Function)}
    if graphs and not any("global_symbol" in f.attrs for f in mod.functions.values()):
        first = next(iter(graphs.values()))
        yield Diagnostic(
            "RLX0112",
            "no function of the module can be called from outside (rule 12)",
            first.span or mod.span,
            help="leave private=True out for one of them",
            severity="warning",
        )
    for var, func in graphs.items():
        symbol = func.attrs.get("global_symbol", var.name_hint)
        if symbol != var.name_hint:
            yield Diagnostic(
                "RLX0113",
                f"the function {var.name_hint!r} has the global_symbol {symbol!r} (rule 13)",
                func.span or mod.span,
                help=f"give it the global_symbol {var.name_hint!r}, or rename the function",
                severity="warning",
            )
