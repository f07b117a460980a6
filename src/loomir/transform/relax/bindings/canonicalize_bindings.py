"""Copy propagation: replace aliases, and fields of known tuples, by the original values."""

from __future__ import annotations

from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr

__all__ = ["canonicalize_bindings"]


@register("relax.CanonicalizeBindings", requires={"relax_normal_form"})
def canonicalize_bindings(func: Function) -> Function:
    """Replace copies ``y = x``, and fields ``y = t[i]`` of tuples built here, by the values.

    The copy of a variable that is local to a dataflow block stays if it is an output of the block.
    """
    return rewrite(func, {SeqExpr: _sequence})


def _sequence(seq: SeqExpr) -> SeqExpr:
    same: dict[Var, RelaxExpr] = {}
    tuples: dict[Var, Tuple] = {}
    blocks: list[BindingBlock] = []
    for block in seq.blocks:
        kept: list[Binding] = []
        for binding in block.bindings:
            target = _target(binding, same, tuples)
            if target is None or not _may_stand(binding, target, block):
                kept.append(binding)
            else:
                assert isinstance(binding, VarBinding)
                same[binding.var] = target
        if len(kept) == len(block.bindings):
            blocks.append(block)
        elif kept:
            blocks.append(type(block)(tuple(kept), span=block.span))
    if not same:
        return seq
    return substitute(SeqExpr(tuple(blocks), seq.body, span=seq.span), same)


def _target(
    binding: Binding, same: dict[Var, RelaxExpr], tuples: dict[Var, Tuple]
) -> RelaxExpr | None:
    """Return the value that a binding only renames, or None."""
    if not isinstance(binding, VarBinding):
        return None
    value = binding.value
    if isinstance(value, Tuple):
        tuples[binding.var] = value
    if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Var):
        source = same.get(value.tuple_value, value.tuple_value)
        made = tuples.get(source) if isinstance(source, Var) else None
        if made is None or value.index >= len(made.fields):
            return None
        value = made.fields[value.index]
    if not isinstance(value, Var):
        return None
    return same.get(value, value)


def _may_stand(binding: Binding, target: RelaxExpr, block: BindingBlock) -> bool:
    assert isinstance(binding, VarBinding)
    ends = isinstance(target, DataflowVar) and isinstance(block, DataflowBlock)
    return not (ends and not isinstance(binding.var, DataflowVar))
