"""Find private functions that are never used as values, so that all their callers are known."""

from __future__ import annotations

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import children, pre_order
from loomir.relax.expr import Call, Function

__all__ = ["find_only_called", "list_called_names"]


def find_only_called(mod: IRModule) -> dict[str, Function]:
    """Return the private graphs that are only called: never passed on as values."""
    found = {
        var.name_hint: func
        for var, func in mod.functions.items()
        if isinstance(func, Function) and "global_symbol" not in func.attrs
    }
    for func in mod.functions.values():
        if not found or not isinstance(func, Function):
            continue
        for part in pre_order(func):
            inner = part.args if isinstance(part, Call) else children(part)
            for value in inner:  # not the callee of a call
                if isinstance(value, GlobalVar):
                    found.pop(value.name_hint, None)
    return found


def list_called_names(func: Function) -> set[str]:
    """List the names of the module's functions that a function mentions."""
    return {part.name_hint for part in pre_order(func) if isinstance(part, GlobalVar)}
