"""Rewrite ``call_tir`` as the allocation of its results and a call in destination-passing style."""

from __future__ import annotations

from typing import cast

from loomir.ir.module import GlobalVar
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import by_class, rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Function,
    Tuple,
    Var,
    VarBinding,
)
from loomir.relax.operator.definition import find_op
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import UNIT, TensorStructInfo, TupleStructInfo
from loomir.support.diagnostics import InternalError
from loomir.transform.relax.bindings.to_non_dataflow import to_non_dataflow
from loomir.transform.relax.graph_reading import integers_of

__all__ = ["call_tir_rewrite"]


@register("relax.CallTIRRewrite", requires={"relax_normal_form"})
def call_tir_rewrite(func: Function) -> Function:
    """Replace ``call_tir`` by ``builtin.alloc_tensor`` and a direct call of the kernel.

    A call stays if its integers are passed as a shape of which only the rank is known. A directly
    called kernel writes its arguments, so dataflow blocks become ordinary ones, and the function
    gets ``relax.force_pure``.
    """
    if not any(_is_kernel_call(call) for call in by_class(func).get(Call, ())):
        return func
    made = rewrite(to_non_dataflow(func), {BindingBlock: _block, Function: _vouch})
    return cast("Function", made)


def _vouch(func: Function) -> Function:
    if not func.is_pure or func.attrs.get("relax.force_pure"):
        return func
    attrs = {**func.attrs, "relax.force_pure": True}
    return Function(
        func.params, func.body, func.ret_struct_info, func.is_pure, attrs, span=func.span
    )


def _is_kernel_call(value: object) -> bool:
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    known = all(isinstance(i, TensorStructInfo) and i.dims is not None for i in value.sinfo_args)
    return value.op.name == "relax.call_tir" and known and integers_of(value) is not None


def _block(block: BindingBlock) -> BindingBlock:
    made: list[Binding] = []
    for binding in block.bindings:
        if isinstance(binding, VarBinding) and _is_kernel_call(binding.value):
            made += _write_out(binding, cast("Call", binding.value))
        else:
            made.append(binding)
    if len(made) == len(block.bindings):
        return block
    return BindingBlock(tuple(made), span=block.span)


def _write_out(binding: VarBinding, call: Call) -> list[Binding]:
    kernel, given = call.args[0], call.args[1]
    if not isinstance(kernel, GlobalVar) or not isinstance(given, Tuple):
        raise InternalError("call_tir is not in normal form")
    alloc = find_op("relax.builtin.alloc_tensor")
    assert alloc is not None
    single = not isinstance(binding.var.struct_info, TupleStructInfo)
    made: list[Binding] = []
    outputs: list[Var] = []
    for index, info in enumerate(cast("tuple[TensorStructInfo, ...]", call.sinfo_args)):
        out = binding.var if single else Var(f"{binding.var.name_hint}_{index}", info)
        value = alloc.call(ShapeExpr(info.dims or ()), info.dtype, 0)
        made.append(VarBinding(out, value, span=binding.span))
        outputs.append(out)
    ints = integers_of(call)
    assert ints is not None
    direct = Call(kernel, (*given.fields, *ints, *outputs), span=call.span)
    made.append(VarBinding(Var("_", UNIT), direct, span=binding.span))
    if not single:
        made.append(VarBinding(binding.var, Tuple(tuple(outputs)), span=binding.span))
    return made
