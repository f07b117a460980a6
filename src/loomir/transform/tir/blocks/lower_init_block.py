"""Lower the ``init`` of a block to an ordinary conditional statement."""

from __future__ import annotations

from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.support.dtype import DataType
from loomir.tir.buffer import IterVarType
from loomir.tir.expr import And, Eq, IntImm, PrimExpr, cast
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, IfThenElse, Stmt, seq

__all__ = ["build_init_condition", "lower_init_block"]


def build_init_condition(block: Block) -> PrimExpr | None:
    """Return the condition under which ``init`` runs, None if it always does."""
    condition: PrimExpr | None = None
    for it in block.iter_vars:
        if it.iter_type is IterVarType.COMM_REDUCE:
            first = IntImm(0, DataType("int32")) if it.dom is None else it.dom.min
            holds = Eq(it.var, cast(first, it.var.dtype))
            condition = holds if condition is None else And(condition, holds)
    return condition


@register("tir.LowerInitBlock", requires={"well_formed"}, establishes={"no_init"})
def lower_init_block(func: PrimFunc) -> PrimFunc:
    """Run ``init`` before the body when every reducing iterator is at its start.

    Source: decision T1.
    """

    def lower(block: Block) -> Block:
        if block.init is None:
            return block
        condition = build_init_condition(block)
        init: Stmt = block.init
        if condition is not None:
            init = IfThenElse(condition, init, span=block.span)
        return Block(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            seq((init, block.body), span=block.span),
            None,
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
            span=block.span,
        )

    return rewrite(func, {Block: lower})
