"""Lift computations that depend only on a model's weights into a function that runs once."""

from __future__ import annotations

from typing import Final, NamedTuple

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order
from loomir.relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.free_vars import free_relax_vars, free_shape_vars, shape_vars_bound_by
from loomir.relax.normal.rewriter import copy_with_fresh_vars
from loomir.relax.operator.definition import op_def
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.tir.expr import Var as ShapeVar
from loomir.transform.relax.constants.fold_constant import find_written
from loomir.transform.relax.constants.model_params import count_of_inputs

__all__ = ["lift_transform_params"]

_STAYS: Final = frozenset(
    {"relax.builtin.stop_lift_params", "relax.call_tir_inplace", "relax.call_inplace_packed"}
)


@register("relax.LiftTransformParams", requires={"relax_normal_form"})
def lift_transform_params(mod: IRModule) -> IRModule:
    """Move computations in dataflow blocks that use only weights to ``NAME_transform_params``.

    Weights are the parameters after the first ``num_input``, a function attribute. The new function
    takes a tuple of them, and returns a tuple of the parameters that replace them: the weights that
    are still used, then the computed values. So ``f(x, *weights)`` becomes
    ``f(x, *f_transform_params(weights))``, and the inner call is needed only once. A value that may
    be written, or that is returned, is still computed in each call; so is the result of
    ``builtin.stop_lift_params``.
    Errors: RLX0331 for a ``num_input`` that is not a number of parameters.
    """
    functions: dict[GlobalVar, BaseFunc] = {}
    names = {var.name_hint for var in mod.functions}
    changed = False
    for var, func in mod.functions.items():
        name = f"{var.name_hint}_transform_params"
        made = None
        if isinstance(func, Function) and name not in names:
            made = _lift(func, name)
        functions[var] = func if made is None else made.function
        if made is not None:
            functions[GlobalVar(name)] = made.transform
            changed = True
    return mod.with_functions(functions) if changed else mod


class _LiftedFunctions(NamedTuple):
    """A function that takes transformed weights, and the one that transforms them."""

    function: Function
    transform: Function


def _lift(func: Function, name: str) -> _LiftedFunctions | None:
    count = count_of_inputs(func)
    body = func.body
    if count is None or not isinstance(body, SeqExpr):
        return None
    weights = func.params[count:]
    moved = _movable(func, body, weights)
    if not moved:
        return None
    blocks: list[BindingBlock] = []
    for block in body.blocks:
        left = [b for b in block.bindings if id(b) not in moved]
        if len(left) == len(block.bindings):
            blocks.append(block)
        elif left:
            blocks.append(type(block)(tuple(left), span=block.span))
    rest = SeqExpr(tuple(blocks), body.body, span=body.span)
    used = set(free_relax_vars(rest))
    kept = [w for w in weights if w in used]
    crossing = [b.var for b in moved.values() if b.var in used]
    if not crossing:
        return None
    table: dict[Node, Node] = {v: Var(v.name_hint, v.struct_info, span=v.span) for v in crossing}
    made = Function(
        (*func.params[:count], *kept, *(table[v] for v in crossing)),  # type: ignore[arg-type]
        substitute(rest, table),
        func.ret_struct_info,
        func.is_pure,
        func.attrs,
        span=func.span,
    )
    if free_shape_vars(made):  # a size that only a removed weight bound
        return None
    transform = _transform(weights, list(moved.values()), [*kept, *crossing])
    attrs = {"global_symbol": name} if "global_symbol" in func.attrs else {}
    info = TupleStructInfo(tuple([v.struct_info for v in (*kept, *crossing)]))
    separate = Function(transform.params, transform.body, info, attrs=attrs, span=func.span)
    return (
        None
        if free_shape_vars(separate)
        else _LiftedFunctions(made, copy_with_fresh_vars(separate))
    )


def _movable(func: Function, body: SeqExpr, weights: tuple[Var, ...]) -> dict[int, VarBinding]:
    """Return, by identity, the bindings that depend only on weights."""
    known: set[Node] = set(weights)
    sizes: set[ShapeVar] = {v for w in weights for v in shape_vars_bound_by(w.struct_info)}
    written = find_written(func)
    moved: dict[int, VarBinding] = {}
    for block in body.blocks:
        for binding in block.bindings if isinstance(block, DataflowBlock) else ():
            if not isinstance(binding, VarBinding) or binding.var in written:
                continue
            if _is_movable(binding, known, sizes):
                moved[id(binding)] = binding
                known.add(binding.var)
    return moved


def _is_movable(binding: VarBinding, known: set[Node], sizes: set[ShapeVar]) -> bool:
    """Tell whether a binding is a tensor that an operator computes from known values."""
    call = binding.value
    if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.name in _STAYS:
        return False
    definition = op_def(call.op)
    fresh = call.op.name == "relax.call_tir" or definition.reference is not None
    if not fresh or not definition.is_pure:
        return False
    info = binding.var.struct_info
    if not isinstance(info, TensorStructInfo):
        return False
    parts = [p for root in (call, info) for p in pre_order(root)]
    names = [p for p in parts if isinstance(p, Var)]
    if not names or not all(v in known for v in names):
        return False
    return all(p in sizes for p in parts if isinstance(p, ShapeVar))


def _transform(weights: tuple[Var, ...], moved: list[VarBinding], results: list[Var]) -> Function:
    """Make the function that computes the moved values from a tuple of the weights."""
    params = Var("params", TupleStructInfo(tuple([w.struct_info for w in weights])))
    taken = [VarBinding(w, TupleGetItem(params, k)) for k, w in enumerate(weights)]
    table: dict[Node, Node] = {b.var: Var(b.var.name_hint, b.var.struct_info) for b in moved}
    block = substitute(BindingBlock((*taken, *moved)), table)
    out = Tuple(tuple([table.get(v, v) for v in results]))  # type: ignore[arg-type]
    return Function((params,), SeqExpr((block,), out))
