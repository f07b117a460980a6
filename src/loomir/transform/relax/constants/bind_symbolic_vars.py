"""Bind shape variables of functions to numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.relax.expr import Function, Var
from loomir.relax.free_vars import shape_vars_bound_by
from loomir.relax.shape import INT64
from loomir.support.diagnostics import nearest
from loomir.tir.expr import IntImm
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.rules import refuse

__all__ = ["BindSymbolicVarsOptions", "bind_symbolic_vars"]


@dataclass(frozen=True, slots=True)
class BindSymbolicVarsOptions:
    """Numbers by the names of shape variables; in all functions if ``func_name`` is None."""

    binding_map: Mapping[str, int] = field(default_factory=dict[str, int])
    func_name: str | None = None


@register("relax.BindSymbolicVars", requires={"relax_normal_form"})
def bind_symbolic_vars(
    mod: IRModule, options: BindSymbolicVarsOptions = BindSymbolicVarsOptions()
) -> IRModule:
    """Replace shape variables that parameters bind by numbers.

    Errors: RLX0330 for a name without such a variable.
    """
    if not options.binding_map:
        return mod
    name = options.func_name
    chosen: dict[GlobalVar, Function] = {}
    for var, func in mod.functions.items():
        wanted = name is None or var.name_hint == name
        if wanted and isinstance(func, Function):
            chosen[var] = func
    if name is not None:
        mod[name]  # raises if there is none
    known = {v.name_hint for func in chosen.values() for v in _find_bound(func)}
    for unknown in options.binding_map.keys() - known:
        guess = nearest(unknown, known)
        refuse(
            "RLX0330",
            f"no parameter binds a shape variable {unknown!r}",
            help=f"did you mean {guess!r}?" if guess else "use one of its shape variables",
        )
    functions: dict[GlobalVar, BaseFunc] = dict(mod.functions)
    for var, func in chosen.items():
        functions[var] = _with_numbers(func, options.binding_map)
    return mod.with_functions(functions)


def _find_bound(func: Function) -> set[ShapeVar]:
    infos = [p.struct_info_annotation for p in func.params]
    return {var for info in infos if info is not None for var in shape_vars_bound_by(info)}


def _with_numbers(func: Function, numbers: Mapping[str, int]) -> Function:
    table: dict[Node, Node] = {
        var: IntImm(numbers[var.name_hint], INT64)
        for var in _find_bound(func)
        if var.name_hint in numbers
    }
    if not table:
        return func
    for param in func.params:
        info = param.struct_info
        made = substitute(info, table)
        if made is not info:
            table[param] = Var(param.name_hint, made, span=param.span)
    return substitute(func, table)
