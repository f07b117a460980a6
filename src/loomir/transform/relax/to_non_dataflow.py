"""Make ordinary blocks and variables of those of dataflow."""

from __future__ import annotations

from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, rewrite
from loomir.relax.expr import (
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Function,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
)

__all__ = ["to_non_dataflow"]


@register("relax.ToNonDataflow", requires={"relax_normal_form"})
def to_non_dataflow(func: Function) -> Function:
    """Replace dataflow blocks by ordinary ones, where calls may have effects."""
    found = by_class(func)
    if DataflowBlock not in found:
        return func
    bound = [b.var for cls in (VarBinding, MatchCast) for b in found.get(cls, ())]
    mapping = {
        var: Var(var.name_hint, var.struct_info_annotation, span=var.span)
        for var in bound
        if isinstance(var, DataflowVar)
    }
    return rewrite(substitute(func, mapping), {SeqExpr: _one_block})


def _one_block(seq: SeqExpr) -> SeqExpr:
    if not any(isinstance(block, DataflowBlock) for block in seq.blocks):
        return seq
    bindings = tuple([b for block in seq.blocks for b in block.bindings])
    block = BindingBlock(bindings, span=seq.blocks[0].span)
    return SeqExpr((block,), seq.body, span=seq.span)
