"""Compute indices and loop variables in int64 where that gives the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.arith.bounds import Bounds
from loomir.arith.fold import INT64, add, int64, mul, sub
from loomir.arith.interval import fits
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order, rewrite
from loomir.tir.effects import is_nonzero
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Broadcast,
    Cast,
    CmpOp,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Sub,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For

__all__ = ["widen_indices"]

_TESTS: Final = (Eq, NE, LT, LE, GT, GE)
_RING: Final[dict[type, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {Add: add, Sub: sub, Mul: mul}
_ORDER: Final = frozenset({FloorDiv, FloorMod, Min, Max})


@register("tir.WidenIndices", requires={"well_formed", "flat_buffers"})
def widen_indices(func: PrimFunc) -> PrimFunc:
    """Move the extension to int64 from sums and products to their operands, and loops to int64.

    Address arithmetic that is affine in loop variables, without conversions, is what LLVM
    understands. A narrow operation that might wrap keeps its dtype, since its wrapped value is what
    the program means; so does a loop whose end might not fit its variable, which is an error.
    """
    widener = _Widener(func)
    rules = {For: widener.loop, Cast: widener.cast, **dict.fromkeys(_TESTS, widener.test)}
    # By substitution, since the shapes of buffers mention loop variables as well.
    body = rewrite(substitute(func.body, widener.narrowed), rules)
    if body is func.body:
        return func
    return PrimFunc(func.params, body, func.ret_type, func.buffer_map, func.attrs, span=func.span)


class _Widener:
    """The loops that are widened, and what is known about values."""

    def __init__(self, func: PrimFunc) -> None:
        self.bounds = Bounds()
        self.bounds.learn(func.body)
        self.wide: dict[int, Var] = {}
        self.narrowed: dict[Var, PrimExpr] = {}
        self.done: dict[int, tuple[PrimExpr, PrimExpr]] = {}
        for part in pre_order(func.body):
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
        start, extent = self.widened(s.min), self.widened(s.extent)
        return For(var, start, extent, s.kind, s.body, None, s.annotations, span=s.span)

    def cast(self, e: Cast) -> PrimExpr:
        source = e.value.dtype
        if e.dtype.element is not INT64 or not source.is_integer or source.bits == 64:
            return e
        made = self.widened(e.value)
        return e if isinstance(made, Cast) and made.value is e.value else made

    def test(self, e: CmpOp) -> CmpOp:
        """Compare in int64 where that frees a side of conversions that is more than a constant."""
        if not e.a.dtype.is_integer or e.a.dtype.bits == 64:
            return e
        a, b = self.widened(e.a), self.widened(e.b)
        if isinstance(a, (Cast, IntImm)) and isinstance(b, (Cast, IntImm)):
            return e
        kind: Any = type(e)
        return kind(a, b, span=getattr(e, "span", None))

    def widened(self, e: PrimExpr) -> PrimExpr:
        """Give the int64 expression of the same value."""
        stack = [e]
        while stack:
            top = stack[-1]
            if id(top) in self.done:
                stack.pop()
                continue
            parts = self._exact_parts(top)
            pending = [part for part in parts if id(part) not in self.done]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            self.done[id(top)] = (top, self._made(top, [self.done[id(p)][1] for p in parts]))
        return self.done[id(e)][1]

    def _exact_parts(self, e: PrimExpr) -> tuple[PrimExpr, ...]:
        """List the operands on which the operation can be done in int64 instead, if it can."""
        if e.dtype.bits == 64:
            return ()
        kind = type(e)
        if isinstance(e, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)):
            exact = kind in _ORDER or not self.bounds.wraps(e)
            if isinstance(e, FloorDiv):
                exact = is_nonzero(e.b) and not self.bounds.wraps(e) and self.bounds.of(e.b).low > 0
            elif isinstance(e, FloorMod):
                exact = is_nonzero(e.b)
            return (e.a, e.b) if exact else ()
        if isinstance(e, Broadcast):
            return (e.value,)
        if isinstance(e, Ramp):
            return () if self.bounds.wraps(e) else (e.base, e.stride)
        if isinstance(e, Cast) and e.value.dtype.is_integer:
            return (e.value,) if fits(self.bounds.of(e.value), e.dtype) else ()
        return ()

    def _made(self, e: PrimExpr, parts: list[PrimExpr]) -> PrimExpr:
        if not parts:
            return int64(e)
        if isinstance(e, Broadcast):
            return Broadcast(parts[0], e.lanes)
        if isinstance(e, Ramp):
            return Ramp(parts[0], parts[1], e.lanes)
        if isinstance(e, Cast):
            return parts[0]
        rule = _RING.get(type(e))
        return type(e)(*parts) if rule is None else rule(parts[0], parts[1])
