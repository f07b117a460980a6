"""Make every function callable from outside, by its name in the module."""

from __future__ import annotations

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.passes import register
from loomir.relax.expr import Function
from loomir.tir.function import PrimFunc

__all__ = ["attach_global_symbol"]


@register("relax.AttachGlobalSymbol")
def attach_global_symbol(mod: IRModule) -> IRModule:
    """Set the ``global_symbol`` of each function to its name in the module."""
    made = {var: _attach_name(func, var) for var, func in mod.functions.items()}
    if all(made[var] is func for var, func in mod.functions.items()):
        return mod
    return mod.with_functions(made)


def _attach_name(func: BaseFunc, var: GlobalVar) -> BaseFunc:
    if func.attrs.get("global_symbol") == var.name_hint:
        return func
    attrs = {**func.attrs, "global_symbol": var.name_hint}
    if isinstance(func, Function):
        return Function(
            func.params, func.body, func.ret_struct_info, func.is_pure, attrs, span=func.span
        )
    if isinstance(func, PrimFunc):
        return PrimFunc(
            func.params, func.body, func.ret_type, func.buffer_map, attrs, span=func.span
        )
    return func
