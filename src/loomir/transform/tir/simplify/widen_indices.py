"""Compute indices and loop variables in int64 where that gives the same values."""

from __future__ import annotations

from typing import Final

from loomir.arith.bounds.expression_bounds import Bounds
from loomir.arith.bounds.widen import Widener
from loomir.arith.fold import INT64
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import nodes_outside, rewrite
from loomir.tir.expr import GE, GT, LE, LT, NE, Cast, Eq, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For

__all__ = ["widen_indices"]

_TESTS: Final = (Eq, NE, LT, LE, GT, GE)


@register("tir.WidenIndices", requires={"well_formed", "flat_buffers"})
def widen_indices(func: PrimFunc) -> PrimFunc:
    """Move the extension to int64 from sums and products to their operands, and loops to int64.

    LLVM analyses address arithmetic that is affine in loop variables, without conversions. A narrow
    operation that might wrap keeps its dtype, since the program means the wrapped value; so does a
    loop whose end might not fit its variable, which is an error.
    """
    widener = _Loops(func)
    rules = {For: widener.loop, Cast: widener.cast, **dict.fromkeys(_TESTS, widener.test)}
    # By substitution, since shapes of buffers mention loop variables, too.
    body = rewrite(substitute(func.body, widener.narrowed), rules)
    if body is func.body:
        return func
    return PrimFunc(func.params, body, func.ret_type, func.buffer_map, func.attrs, span=func.span)


class _Loops(Widener):
    """The loops to widen, and the known bounds of values."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(Bounds())
        self.bounds.learn(func.body)
        self.wide: dict[int, Var] = {}
        self.narrowed: dict[Var, PrimExpr] = {}
        for part in nodes_outside(func.body, PrimExpr):
            if isinstance(part, For) and self._fits(part):
                old = part.loop_var
                new = Var(old.name_hint, INT64, span=old.span)
                self.bounds.set(new, self.bounds.of(old))
                self.wide[id(old)] = new
                self.narrowed[old] = Cast(new, old.dtype)

    def _fits(self, loop: For) -> bool:
        dtype = loop.loop_var.dtype
        if dtype.bits >= 64 or loop.thread_binding is not None:
            return False
        start, extent = self.bounds.of(loop.min), self.bounds.of(loop.extent)
        return start.high + max(extent.high, 0) <= dtype.max_value

    def loop(self, s: For) -> For:
        var = self.wide.get(id(s.loop_var))
        if var is None:
            return s
        start, extent = self.widen(s.min), self.widen(s.extent)
        return For(var, start, extent, s.kind, s.body, None, s.annotations, span=s.span)

    def cast(self, e: Cast) -> PrimExpr:
        source = e.value.dtype
        if e.dtype.element is not INT64 or not source.is_integer or source.bits == 64:
            return e
        made = self.widen(e.value)
        return e if isinstance(made, Cast) and made.value is e.value else made
