"""Remove builtins that only inform the compiler, such as ``T.assume``."""

from __future__ import annotations

from loomir.ir.op import Effect
from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.tir.builtins.table import effect_of
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Evaluate, SeqStmt, Stmt

__all__ = ["remove_assume"]


@register("tir.RemoveAssume")
def remove_assume(func: PrimFunc) -> PrimFunc:
    """Remove statements such as ``T.assume``, which are never evaluated."""

    def evaluate(s: Evaluate) -> Stmt:
        return SeqStmt(()) if effect_of(s.value) is Effect.EMBED_INFO else s

    def sequence(s: SeqStmt) -> Stmt:
        left = tuple(p for p in s.seq if not isinstance(p, SeqStmt) or p.seq)
        if len(left) == 1:
            return left[0]
        return s if len(left) == len(s.seq) else SeqStmt(left, span=s.span)

    return rewrite(func, {Evaluate: evaluate, SeqStmt: sequence})
