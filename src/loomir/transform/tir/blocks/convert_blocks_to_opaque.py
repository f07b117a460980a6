"""Replace block iterators by the expressions to which they are bound."""

from __future__ import annotations

from typing import Final

from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, of_classes, pre_order, rewrite
from loomir.tir.analysis.effects import is_nonzero
from loomir.tir.buffer import BufferRegion, MatchBufferRegion, Range
from loomir.tir.expr import (
    Add,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
    cast,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import TRUE, Block, BlockRealize, IfThenElse, LetStmt, Stmt

__all__ = ["convert_blocks_to_opaque", "is_cheap"]

_CHEAP: Final = frozenset({Var, IntImm, Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, Cast})
_LIMIT: Final = 24
"""Nodes of an expression that may be repeated; as ``inline._CHEAP`` of the default schedule."""


def is_cheap(e: PrimExpr) -> bool:
    """Tell whether repeating an expression costs little and changes nothing.

    It must be arithmetic that index analysis understands, of few nodes, that neither reads memory
    nor can fail.
    """
    for count, part in enumerate(pre_order(e)):
        if count >= _LIMIT or part.__class__ not in _CHEAP:
            return False
        if isinstance(part, (FloorDiv, FloorMod)) and not is_nonzero(part.b):
            return False
    return True


@register("tir.ConvertBlocksToOpaque", requires={"no_init"}, establishes={"opaque_blocks"})
def convert_blocks_to_opaque(func: PrimFunc) -> PrimFunc:
    """Replace iterators by cheap bindings, bind the others; predicates become conditions.

    The predicate is tested first; if it is false, no binding is evaluated.
    Source: decision T2.
    """
    inlined: dict[Var, PrimExpr] = {}
    blocks: list[BlockRealize] = []
    if BlockRealize in by_class(func.body):
        blocks = of_classes(func.body, BlockRealize)
    for part in blocks:
        for it, value in zip(part.block.iter_vars, part.values):
            bound = substitute(cast(value, it.var.dtype), inlined)
            if is_cheap(bound):
                inlined[it.var] = bound

    def lower(realize: BlockRealize) -> Stmt:
        block, lets = _opaque(realize.block)
        made: Stmt = realize
        if block is not realize.block or realize.predicate is not TRUE:
            made = BlockRealize((), TRUE, block, span=realize.span)
        for var, value in reversed(lets):
            made = LetStmt(var, value, made, span=block.span)
        for it, value in zip(reversed(realize.block.iter_vars), reversed(realize.values)):
            if it.var not in inlined:
                made = LetStmt(it.var, cast(value, it.var.dtype), made, span=it.span)
        predicate = realize.predicate
        if isinstance(predicate, IntImm) and predicate.value:
            return made
        return IfThenElse(predicate, made, span=realize.span)

    return substitute(rewrite(func, {BlockRealize: lower}), inlined)


def _opaque(block: Block) -> tuple[Block, list[tuple[Var, PrimExpr]]]:
    """Remove the iterators of a block, and costly expressions in the offsets of its aliases.

    The offset of an alias is that of its region when the block was entered, whatever the body
    stores.
    """
    lets: list[tuple[Var, PrimExpr]] = []
    matches: list[MatchBufferRegion] = []
    for match in block.match_buffers:
        region: list[Range] = []
        for r in match.source.region:
            if is_cheap(r.min):
                region.append(r)
                continue
            start = Var(f"{match.buffer.name}_start", r.min.dtype, span=match.span)
            lets.append((start, r.min))
            region.append(Range(start, r.extent, span=r.span))
        source = BufferRegion(match.source.buffer, tuple(region), span=match.source.span)
        matches.append(MatchBufferRegion(match.buffer, source, span=match.span))
    if not lets and not block.iter_vars:
        return block, lets
    opaque = Block(
        (),
        block.reads,
        block.writes,
        block.name_hint,
        block.body,
        block.init,
        block.alloc_buffers,
        tuple(matches) if lets else block.match_buffers,
        block.annotations,
        span=block.span,
    )
    return opaque, lets
