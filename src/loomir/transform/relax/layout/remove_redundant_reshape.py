"""Remove reshapes of reshapes, and reshapes to the same shape."""

from __future__ import annotations

from loomir.arith.analyzer import Analyzer
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.transform.relax.bindings.eliminate_common_subexpr import find_escaping

__all__ = ["remove_redundant_reshape"]


@register("relax.RemoveRedundantReshape", requires={"relax_normal_form"})
def remove_redundant_reshape(func: Function) -> Function:
    """Merge a reshape of a reshape into one, and remove a reshape to the same shape.

    This applies in dataflow blocks. A tensor only replaces a reshaped one if nothing keeps or
    writes the latter. Unused reshapes are left to ``DeadCodeElimination``.
    """
    return rewrite(func, {SeqExpr: _sequence})


def _sequence(seq: SeqExpr) -> SeqExpr:
    same: dict[Var, RelaxExpr] = {}
    blocks: list[BindingBlock] = []
    for block in seq.blocks:
        blocks.append(_block(block, same) if isinstance(block, DataflowBlock) else block)
    if all(a is b for a, b in zip(blocks, seq.blocks)):
        return seq
    return substitute(SeqExpr(tuple(blocks), seq.body, span=seq.span), same)


def _block(block: DataflowBlock, same: dict[Var, RelaxExpr]) -> DataflowBlock:
    escaping = find_escaping(block)
    analyzer = Analyzer()
    source: dict[Var, RelaxExpr] = {}
    """The source of each reshaped tensor."""
    kept: list[Binding] = []
    for binding in block.bindings:
        if not isinstance(binding, VarBinding) or not _is_reshape(binding.value):
            kept.append(binding)
            continue
        call = binding.value
        assert isinstance(call, Call)
        data = call.args[0]
        if isinstance(data, Var):
            data = same.get(data, data)
        if isinstance(data, Var):
            data = source.get(data, data)
        if id(data) not in escaping:  # which might be written in between
            source[binding.var] = data
        free = binding.var in source and id(binding.var) not in escaping
        ends = free and isinstance(binding.var, DataflowVar)
        if ends and isinstance(data, Var) and _is_same(data, binding.var, analyzer):
            same[binding.var] = data
        elif data is call.args[0]:
            kept.append(binding)
        else:
            args = (data, *call.args[1:])
            made = Call(call.op, args, call.sinfo_args, call.attrs, span=call.span)
            kept.append(VarBinding(binding.var, made, span=binding.span))
    if len(kept) == len(block.bindings) and all(a is b for a, b in zip(kept, block.bindings)):
        return block
    return DataflowBlock(tuple(kept), span=block.span)


def _is_reshape(value: RelaxExpr) -> bool:
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "relax.reshape"


def _is_same(a: Var, b: Var, analyzer: Analyzer) -> bool:
    first, second = a.struct_info, b.struct_info
    if not isinstance(first, TensorStructInfo) or not isinstance(second, TensorStructInfo):
        return False
    x, y = first.dims, second.dims
    if x is None or y is None or len(x) != len(y) or first.dtype is not second.dtype:
        return False
    return all(analyzer.can_prove_equal(i, j) for i, j in zip(x, y))
