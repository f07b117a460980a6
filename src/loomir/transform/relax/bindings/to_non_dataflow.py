"""Replace dataflow blocks and their variables by ordinary ones."""

from __future__ import annotations

from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, pre_order, rewrite
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
from loomir.relax.node import RelaxExpr

__all__ = ["ordinary_variables", "to_non_dataflow"]


@register("relax.ToNonDataflow", requires={"relax_normal_form"}, establishes={"no_dataflow"})
def to_non_dataflow(func: Function) -> Function:
    """Replace dataflow blocks by ordinary ones, where calls may have effects."""
    found = by_class(func)
    if DataflowBlock not in found:
        return func
    return rewrite(substitute(func, ordinary_variables(func)), {SeqExpr: _merge_blocks})


def ordinary_variables(root: RelaxExpr) -> dict[Node, Node]:
    """Make an ordinary variable for each dataflow variable."""
    made: dict[Node, Node] = {}
    for part in pre_order(root):
        var = part.var if isinstance(part, (VarBinding, MatchCast)) else None
        if not isinstance(var, DataflowVar):
            continue
        info = var.struct_info_annotation
        if info is not None:  # it may refer to other variables
            told = {p: made[p] for p in pre_order(info) if p in made}
            info = substitute(info, told) if told else info
        made[var] = Var(var.name_hint, info, span=var.span)
    return made


def _merge_blocks(seq: SeqExpr) -> SeqExpr:
    if not any(isinstance(block, DataflowBlock) for block in seq.blocks):
        return seq
    bindings = tuple([b for block in seq.blocks for b in block.bindings])
    block = BindingBlock(bindings, span=seq.blocks[0].span)
    return SeqExpr((block,), seq.body, span=seq.span)
