"""Declare functions pure (``force_pure``), so that passes may add calls with effects to them."""

from __future__ import annotations

from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.relax.expr import Call, Function

__all__ = ["remove_purity_checking"]


@register("relax.RemovePurityChecking", requires={"relax_normal_form"})
def remove_purity_checking(func: Function) -> Function:
    """Set ``relax.force_pure`` on pure functions; callers still know them as pure.

    ``call_pure_packed`` becomes an ordinary call.
    """
    if not func.is_pure or func.attrs.get("relax.force_pure"):
        return func
    attrs = {**func.attrs, "relax.force_pure": True}
    made = rewrite(func, {Call: _direct, Function: _vouch})
    return Function(
        made.params, made.body, made.ret_struct_info, made.is_pure, attrs, span=func.span
    )


def _vouch(func: Function) -> Function:
    """Set ``relax.force_pure`` on a pure local function."""
    if not func.is_pure or func.attrs.get("relax.force_pure"):
        return func
    attrs = {**func.attrs, "relax.force_pure": True}
    return Function(
        func.params, func.body, func.ret_struct_info, func.is_pure, attrs, span=func.span
    )


def _direct(call: Call) -> Call:
    if not isinstance(call.op, Op) or call.op.name != "relax.call_pure_packed":
        return call
    return Call(call.args[0], call.args[1:], call.sinfo_args, span=call.span)
