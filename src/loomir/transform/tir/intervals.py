"""Bounds of integer expressions: what values they can take, and whether they can wrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from loomir.ir.visit import children, pre_order
from loomir.support.dtype import DataType
from loomir.tir.expr import (
    Add,
    Broadcast,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
)
from loomir.tir.op import IF_THEN_ELSE
from loomir.tir.stmt import For, LetStmt, Stmt

__all__ = ["Bounds", "Interval", "fits"]


class Interval(NamedTuple):
    """All integers from ``low`` to ``high``, both inclusive."""

    low: int
    high: int


def full(dtype: DataType) -> Interval:
    """Give all values of an integer dtype."""
    return Interval(dtype.min_value, dtype.max_value)


def fits(interval: Interval, dtype: DataType) -> bool:
    """Tell whether a dtype holds all values of an interval."""
    return dtype.min_value <= interval.low and interval.high <= dtype.max_value


def _add(e: Add, a: Interval, b: Interval) -> Interval:
    return Interval(a.low + b.low, a.high + b.high)


def _sub(e: Sub, a: Interval, b: Interval) -> Interval:
    return Interval(a.low - b.high, a.high - b.low)


def _mul(e: Mul, a: Interval, b: Interval) -> Interval:
    corners = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
    return Interval(min(corners), max(corners))


def _min(e: Min, a: Interval, b: Interval) -> Interval:
    return Interval(min(a.low, b.low), min(a.high, b.high))


def _max(e: Max, a: Interval, b: Interval) -> Interval:
    return Interval(max(a.low, b.low), max(a.high, b.high))


def _floordiv(e: FloorDiv, a: Interval, b: Interval) -> Interval:
    if b.low == b.high and b.low > 0:
        return Interval(a.low // b.low, a.high // b.low)
    return full(e.dtype)


def _floormod(e: FloorMod, a: Interval, b: Interval) -> Interval:
    if b.low == b.high and b.low > 0:
        return a if a.low >= 0 and a.high < b.low else Interval(0, b.low - 1)
    return full(e.dtype)


def _div(e: Div, a: Interval, b: Interval) -> Interval:
    if b.low == b.high and b.low > 0:
        step = b.low
        return Interval(
            a.low // step if a.low >= 0 else -(-a.low // step),
            a.high // step if a.high >= 0 else -(-a.high // step),
        )
    return full(e.dtype)


def _mod(e: Mod, a: Interval, b: Interval) -> Interval:
    if b.low == b.high and b.low > 0 and a.low >= 0:
        return a if a.high < b.low else Interval(0, b.low - 1)
    return full(e.dtype)


_BINARY: Final[dict[type, Callable[[Any, Interval, Interval], Interval]]] = {
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    Min: _min,
    Max: _max,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Div: _div,
    Mod: _mod,
}


class Bounds:
    """The bounds of expressions in a program whose variables are bound once.

    ``learn`` reads the loops and lets of a program; variables that are bound elsewhere can have any
    value of their dtype.
    """

    def __init__(self) -> None:
        self._of_vars: dict[int, Interval] = {}
        # The nodes are kept so that no other object takes over the identity that is the key.
        self._known: dict[int, tuple[PrimExpr, Interval]] = {}

    def learn(self, program: Stmt) -> None:
        """Read the bounds of the variables that a program binds."""
        for part in pre_order(program):
            if isinstance(part, For):
                self.set(part.loop_var, self.of_loop(part))
            elif isinstance(part, (LetStmt, Let)) and part.var.dtype.is_integer:
                self.set(part.var, self.of(part.value))

    def set(self, var: Var, interval: Interval) -> None:
        """Note the bounds of a variable."""
        self._of_vars[id(var)] = interval

    def of_loop(self, loop: For) -> Interval:
        """Give the bounds of a loop's variable; all of its dtype where the end may not fit it."""
        start, extent = self.of(loop.min), self.of(loop.extent)
        reached = Interval(start.low, max(start.low, start.high + extent.high - 1))
        return reached if fits(reached, loop.loop_var.dtype) else full(loop.loop_var.dtype)

    def of(self, e: PrimExpr) -> Interval:
        """Give the bounds of an integer expression's value, over all lanes."""
        stack = [e]
        while stack:
            top = stack[-1]
            if id(top) in self._known:
                stack.pop()
                continue
            pending = [
                part
                for part in children(top)
                if isinstance(part, PrimExpr)
                and part.dtype.is_integer
                and id(part) not in self._known
            ]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            exact = self._exact(top)
            if top.dtype.is_integer and not fits(exact, top.dtype):
                exact = full(top.dtype)
            self._known[id(top)] = (top, exact)
        return self._known[id(e)][1]

    def wraps(self, e: PrimExpr) -> bool:
        """Tell whether the value of this node may have wrapped, its parts left aside."""
        self.of(e)
        return not fits(self._exact(e), e.dtype)

    def _get(self, e: PrimExpr) -> Interval:
        return self._known[id(e)][1]

    def _exact(self, e: PrimExpr) -> Interval:
        """Give the bounds of a node's value as if integers did not end."""
        if not e.dtype.is_integer:
            return Interval(0, 0)
        if isinstance(e, IntImm):
            return Interval(e.value, e.value)
        if isinstance(e, Var):
            return self._of_vars.get(id(e)) or full(e.dtype)
        rule = _BINARY.get(type(e))
        if rule is not None:
            return rule(e, self._get(e.a), self._get(e.b))  # type: ignore[attr-defined]
        if isinstance(e, Broadcast):
            return self._get(e.value)
        if isinstance(e, Ramp):
            base, stride = self._get(e.base), self._get(e.stride)
            far = (stride.low * (e.lanes - 1), stride.high * (e.lanes - 1), 0)
            return Interval(base.low + min(far), base.high + max(far))
        if isinstance(e, Cast) and e.value.dtype.is_integer:
            inside = self._get(e.value)
            return inside if fits(inside, e.dtype) else full(e.dtype)
        if isinstance(e, Select):
            return _union(self._get(e.true_value), self._get(e.false_value))
        if isinstance(e, Call) and e.op is IF_THEN_ELSE:
            return _union(self._get(e.args[1]), self._get(e.args[2]))
        return full(e.dtype)


def _union(a: Interval, b: Interval) -> Interval:
    return Interval(min(a.low, b.low), max(a.high, b.high))
