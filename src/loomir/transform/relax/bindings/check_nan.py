"""Insert checks that stop a graph at the first call that returns NaN or infinity."""

from __future__ import annotations

from typing import Final

from loomir.ir.module import IRModule
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import pre_order
from loomir.relax.expr import Call, Constant, ExternFunc, StringImm, Tuple, Var, VarBinding
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import TensorStructInfo
from loomir.runtime.packed.nan_check import CHECK_NAN

__all__ = ["check_nan"]

_MEMORY: Final = ("relax.memory.", "relax.vm.", "relax.builtin.")
"""Prefixes of operators whose tensors are uninitialised."""


@register("relax.CheckNaN", requires={"relax_normal_form"})
def check_nan(mod: IRModule) -> IRModule:
    """Check the result of every call that computes floats for NaN and infinity.

    The check raises RUN0481, with the variable's name, for the first NaN or infinity that the
    inputs did not have. It is bound between a value and its uses, so that no other pass drops it;
    kernels are not fused across it.
    """
    return _Checks(mod).rewrite_module()


class _Checks(Rewriter):
    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Bind a call to a new variable, and its checked value to the original one."""
        var = binding.var
        if not isinstance(value, Call) or not _makes_floats(value, var.struct_info):
            self.emit_binding(binding, value)
            return
        made = self.builder.emit(value, var.name_hint)
        inputs = [part for arg in value.args for part in _values(arg)]
        args = (
            ExternFunc(CHECK_NAN),
            made,
            StringImm(var.name_hint),
            StringImm(_name(value)),
            *inputs,
        )
        span = value.span or binding.span
        packed = find_op("relax.call_pure_packed")
        assert packed is not None
        checked = Call(packed.op, args, (made.struct_info,), span=span)
        self.emit_binding(binding, checked)


def _makes_floats(call: Call, info: StructInfo) -> bool:
    if isinstance(call.op, Op) and call.op.name.startswith(_MEMORY):
        return False
    return any(
        isinstance(part, TensorStructInfo) and (part.dtype.is_void or part.dtype.is_float)
        for part in pre_order(info)
    )


def _values(arg: RelaxExpr) -> tuple[RelaxExpr, ...]:
    if isinstance(arg, Tuple):
        return tuple(f for f in arg.fields if isinstance(f, (Var, Constant)))
    return (arg,) if isinstance(arg, (Var, Constant)) else ()


def _name(call: Call) -> str:
    """Return the name of the called kernel, function or operator."""
    op = call.op
    if isinstance(op, Op):
        first = call.args[0] if call.args else None
        named = getattr(first, "name_hint", None) or getattr(first, "global_symbol", None)
        if op.name.startswith("relax.call_") and named:
            return str(named)
        return "R." + op.name.removeprefix("relax.")
    return str(getattr(op, "name_hint", None) or getattr(op, "global_symbol", "the function"))
