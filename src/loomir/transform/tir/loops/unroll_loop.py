"""Unroll loops of kind ``unrolled``."""

from __future__ import annotations

from dataclasses import dataclass

from loomir.arith.fold import imm
from loomir.ir.passes import register
from loomir.ir.visit import by_class, pre_order, rewrite
from loomir.tir.analysis.copy_statement import fresh_copies
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP
from loomir.tir.expr import Call, IntImm
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For, ForKind, Stmt, seq

__all__ = ["UnrollOptions", "unroll_loop"]


@dataclass(frozen=True, slots=True)
class UnrollOptions:
    """``max_nodes`` is the most IR nodes of an unrolled loop.

    LLVM's time grows faster than the size of a basic block: 20,000 instructions take seconds, and
    unrolling that far gains nothing over the loop.
    """

    max_nodes: int = 8192


@register("tir.UnrollLoop", requires={"well_formed"}, establishes={"no_unroll_loops"})
def unroll_loop(func: PrimFunc, options: UnrollOptions = UnrollOptions()) -> PrimFunc:
    """Unroll loops marked ``UNROLLED``, innermost first.

    A loop becomes serial instead if its extent is not constant, if it is too large, or if its body
    contains break or continue.
    """
    if not any(s.kind is ForKind.UNROLLED for s in by_class(func.body).get(For, ())):
        return func

    def unroll(loop: For) -> Stmt:
        if loop.kind is not ForKind.UNROLLED:
            return loop
        start, extent = loop.min, loop.extent
        if (
            isinstance(start, IntImm)
            and isinstance(extent, IntImm)
            and start.value + extent.value - 1 <= start.dtype.max_value
            and _can_repeat(loop.body, options.max_nodes // max(extent.value, 1))
        ):
            values = [imm(start.value + k, start.dtype) for k in range(extent.value)]
            return seq(fresh_copies(loop.body, [{loop.loop_var: v} for v in values]), loop.span)
        return For(
            loop.loop_var,
            start,
            extent,
            ForKind.SERIAL,
            loop.body,
            None,
            loop.annotations,
            span=loop.span,
        )

    return rewrite(func, {For: unroll})


def _can_repeat(body: Stmt, limit: int) -> bool:
    """Tell whether a body is small enough, and always runs to its end."""
    for count, part in enumerate(pre_order(body)):
        if count >= limit:
            return False
        if isinstance(part, Call) and part.op in (BREAK_LOOP, CONTINUE_LOOP):
            return False
    return True
