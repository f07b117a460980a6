"""Remove parameters of private functions that they do not use."""

from __future__ import annotations

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.relax.expr import Call, Function, Var
from loomir.relax.free_vars import free_relax_vars, free_shape_vars, shape_vars_bound_by
from loomir.relax.node import StructInfo
from loomir.tir.expr import Var as ShapeVar
from loomir.transform.relax.functions.private_functions import find_only_called

__all__ = ["remove_unused_parameters"]


@register("relax.RemoveUnusedParameters", requires={"relax_normal_form"})
def remove_unused_parameters(mod: IRModule) -> IRModule:
    """Remove unused parameters of private functions, and the arguments of their callers.

    The only parameter that binds a shape variable stays.
    """
    kept: dict[str, list[int]] = {}
    for name, func in find_only_called(mod).items():
        places = _find_used(func)
        if len(places) < len(func.params):
            kept[name] = places
    if not kept:
        return mod

    def call(value: Call) -> Call:
        places = kept.get(value.op.name_hint) if isinstance(value.op, GlobalVar) else None
        if places is None:
            return value
        args = tuple([value.args[k] for k in places])
        return Call(value.op, args, value.sinfo_args, value.attrs, span=value.span)

    functions = dict(mod.functions)
    for var, func in mod.functions.items():
        if not isinstance(func, Function):
            continue
        made = rewrite(func, {Call: call})
        places = kept.get(var.name_hint)
        if places is not None:
            params = tuple([func.params[k] for k in places])
            made = Function(
                params, made.body, func.ret_struct_info, func.is_pure, func.attrs, span=func.span
            )
        functions[var] = made
    return mod.with_functions(functions)


def _find_used(func: Function) -> list[int]:
    """List the indices of the parameters that are needed."""
    names = set(free_relax_vars(func.body))
    inner = Function((), func.body, func.ret_struct_info)
    wanted: set[ShapeVar] = set(free_shape_vars(inner, _find_told(list(func.params))))
    kept = {k for k, param in enumerate(func.params) if param in names}
    for k in kept:
        wanted |= set(free_shape_vars(Function((), func.params[k]), _find_told(list(func.params))))
    for k, param in enumerate(func.params):
        missing = wanted - _find_told([func.params[i] for i in kept])
        if k not in kept and missing & _find_told([param]):
            kept.add(k)
    return sorted(kept)


def _find_told(params: list[Var]) -> set[ShapeVar]:
    infos: list[StructInfo] = [p.struct_info for p in params]
    return {var for info in infos for var in shape_vars_bound_by(info)}
