"""Widen integer expressions to int64 where the values stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.arith.bounds.expression_bounds import Bounds
from loomir.arith.bounds.interval import fits
from loomir.arith.fold import add, int64, mul, sub
from loomir.tir.analysis.effects import is_nonzero
from loomir.tir.expr import (
    Add,
    Broadcast,
    Cast,
    CmpOp,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Sub,
)

__all__ = ["Widener"]

_RING: Final[dict[type, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {Add: add, Sub: sub, Mul: mul}
_ORDER: Final = frozenset({FloorDiv, FloorMod, Min, Max})


class Widener:
    """Moves the extension to int64 from sums and products to their operands.

    A narrow operation that might wrap keeps its dtype, since its wrapped value is what it means.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._done: dict[int, tuple[PrimExpr, PrimExpr]] = {}

    def test(self, e: CmpOp) -> CmpOp:
        """Compare in int64 if that removes conversions from a side that is no constant."""
        if not e.a.dtype.is_integer or e.a.dtype.bits == 64:
            return e
        a, b = self.widen(e.a), self.widen(e.b)
        if isinstance(a, (Cast, IntImm)) and isinstance(b, (Cast, IntImm)):
            return e
        kind: Any = type(e)
        return kind(a, b, span=getattr(e, "span", None))

    def widen(self, e: PrimExpr) -> PrimExpr:
        """Return an equivalent int64 expression."""
        stack = [e]
        while stack:
            top = stack[-1]
            if id(top) in self._done:
                stack.pop()
                continue
            parts = self._exact_parts(top)
            pending = [part for part in parts if id(part) not in self._done]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            self._done[id(top)] = (top, self._remake(top, [self._done[id(p)][1] for p in parts]))
        return self._done[id(e)][1]

    def _exact_parts(self, e: PrimExpr) -> tuple[PrimExpr, ...]:
        """List the operands if the operation can be done in int64 instead; else none."""
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

    def _remake(self, e: PrimExpr, parts: list[PrimExpr]) -> PrimExpr:
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
