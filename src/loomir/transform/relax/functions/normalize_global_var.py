"""Rename functions of a module to their external names (``global_symbol``)."""

from __future__ import annotations

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.visit import pre_order, rewrite
from loomir.tir.rules import refuse

__all__ = ["normalize_global_var"]


@register("relax.NormalizeGlobalVar")
def normalize_global_var(mod: IRModule) -> IRModule:
    """Rename each function to its ``global_symbol``, and private functions that clash with one.

    A private function whose name is taken gets a number as suffix.
    Errors: RLX0336 for two functions of one ``global_symbol``.
    """
    names: dict[GlobalVar, str] = {}
    taken: dict[str, GlobalVar] = {}
    for var, func in mod.functions.items():
        symbol = func.attrs.get("global_symbol")
        if symbol is None:
            continue
        if str(symbol) in taken:
            refuse(
                "RLX0336",
                f"two functions have the global_symbol {str(symbol)!r}",
                help="give each public function a name of its own",
                span=getattr(func, "span", None),
            )
        names[var] = str(symbol)
        taken[str(symbol)] = var
    wanted = {var.name_hint for var in mod.functions}
    for var in mod.functions:
        if var in names:
            continue
        name, count = var.name_hint, 0
        while name in taken or (count and name in wanted):
            count += 1
            name = f"{var.name_hint}_{count}"
        names[var] = name
        taken[name] = var
    if all(var.name_hint == name for var, name in names.items()):
        return mod
    made = {var: GlobalVar(name) for var, name in names.items() if name != var.name_hint}
    by_name: dict[str, GlobalVar] = {}
    for var in mod.functions:  # a use may be another object with the same name
        by_name.setdefault(var.name_hint, var)

    def rename(use: GlobalVar) -> Node:
        known = use if use in names else by_name.get(use.name_hint, use)
        return made.get(known, use)

    functions: dict[GlobalVar, BaseFunc] = {}
    for var, func in mod.functions.items():
        mentions = any(isinstance(part, GlobalVar) for part in pre_order(func))
        functions[made.get(var, var)] = rewrite(func, {GlobalVar: rename}) if mentions else func
    return mod.with_functions(functions)
