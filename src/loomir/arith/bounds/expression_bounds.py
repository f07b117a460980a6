"""Bounds of integer expressions: which values they can take, and whether they can wrap."""

from __future__ import annotations

from loomir.arith.bounds import interval
from loomir.arith.bounds.interval import TRANSFER, Interval, fits, full, union, wrap
from loomir.ir.op import Op
from loomir.ir.visit import by_class, children, nodes_outside, of_classes
from loomir.tir.builtins.table import BUILTINS, IF_THEN_ELSE
from loomir.tir.expr import (
    Broadcast,
    Call,
    Cast,
    IntImm,
    Let,
    PrimExpr,
    Ramp,
    Select,
    Var,
)
from loomir.tir.stmt import For, LetStmt, Stmt

__all__ = ["Bounds"]

_LIKELY = BUILTINS["likely"].op


class Bounds:
    """The bounds of expressions in a program whose variables are bound once.

    ``learn`` reads the loops and lets of a program; variables that are bound elsewhere can have any
    value of their dtype. What is known about variables must be set before expressions that use them
    are asked about.
    """

    def __init__(self) -> None:
        self._of_vars: dict[int, tuple[Var, Interval]] = {}
        # The nodes are kept alive, so that no other object gets the same identity, which is the
        # key.
        self._known: dict[int, tuple[PrimExpr, Interval]] = {}

    def learn(self, program: Stmt) -> None:
        """Read the bounds of the variables that a program binds."""
        lets = Let in by_class(program)
        parts = of_classes(program, For, LetStmt, Let) if lets else nodes_outside(program, PrimExpr)
        for part in parts:
            if isinstance(part, For):
                self.set(part.loop_var, self.of_loop(part))
            elif isinstance(part, (LetStmt, Let)) and part.var.dtype.is_integer:
                self.set(part.var, self.of(part.value))

    def set(self, var: Var, interval: Interval) -> None:
        """Set the bounds of a variable."""
        self._of_vars[id(var)] = (var, interval)
        self._known.pop(id(var), None)

    def forget(self) -> None:
        """Drop all computed bounds, since a fact that they depend on no longer holds."""
        self._known.clear()

    def of_loop(self, loop: For) -> Interval:
        """Return the bounds of a loop's variable; those of its dtype if the end may not fit."""
        return self.of_range(loop.loop_var, loop.min, loop.extent)

    def of_range(self, var: Var, start: PrimExpr, extent: PrimExpr) -> Interval:
        """Return the bounds of a variable that runs over a range."""
        first, count = self.of(start), self.of(extent)
        reached = Interval(first.low, max(first.low, first.high + count.high - 1))
        return reached if fits(reached, var.dtype) else full(var.dtype)

    def of(self, e: PrimExpr) -> Interval:
        """Return the bounds of an integer expression's value, over all lanes."""
        known = self._known
        found = known.get(id(e))
        if found is not None:
            return found[1]
        stack = [e]
        while stack:
            top = stack[-1]
            if id(top) in known:
                stack.pop()
                continue
            pending = [
                part
                for part in children(top)
                if id(part) not in known and isinstance(part, PrimExpr) and part.dtype.is_integer
            ]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            exact = self._exact(top)
            if top.dtype.is_integer:
                exact = wrap(exact, top.dtype)
            known[id(top)] = (top, exact)
        return known[id(e)][1]

    def wraps(self, e: PrimExpr) -> bool:
        """Tell whether the operation of this node itself may wrap."""
        self.of(e)
        return not fits(self._exact(e), e.dtype)

    def _get(self, e: PrimExpr) -> Interval:
        # Recompute a variable whose bounds were set since then.
        found = self._known.get(id(e))
        return self.of(e) if found is None else found[1]

    def _exact(self, e: PrimExpr) -> Interval:
        """Return the bounds of a node's value in unbounded integers."""
        if not e.dtype.is_integer:
            return Interval(0, 0)
        if isinstance(e, IntImm):
            return Interval(e.value, e.value)
        if isinstance(e, Var):
            found = self._of_vars.get(id(e))
            return full(e.dtype) if found is None else found[1]
        rule = TRANSFER.get(type(e))
        if rule is not None:
            return rule(self._get(e.a), self._get(e.b))  # type: ignore[attr-defined]
        if isinstance(e, Broadcast):
            return self._get(e.value)
        if isinstance(e, Ramp):
            return interval.span(self._get(e.base), self._get(e.stride), e.lanes - 1)
        if isinstance(e, Cast) and e.value.dtype.is_integer:
            return self._get(e.value)
        if isinstance(e, Select):
            return union(self._get(e.true_value), self._get(e.false_value))
        if isinstance(e, Let):
            return self._get(e.body)
        if isinstance(e, Call):
            return self._call(e)
        return full(e.dtype)

    def _call(self, e: Call) -> Interval:
        if e.op is IF_THEN_ELSE:
            return union(self._get(e.args[1]), self._get(e.args[2]))
        if e.op is _LIKELY:
            return self._get(e.args[0])
        if isinstance(e.op, Op) and e.args and all(a.dtype.is_integer for a in e.args):
            args = [self._get(a) for a in e.args]
            found = interval.call(e.op.name.removeprefix("tir."), args, e.args[0].dtype.bits)
            if found is not None:
                return found
        return full(e.dtype)
