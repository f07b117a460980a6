"""Parse index expressions as sums of digits, and conditions as limits of fused iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from loomir.arith.analyzer import Analyzer
from loomir.arith.iterators.digits import Chain, Digits, Mark, Sum
from loomir.arith.iterators.size import ONE, ZERO, IterMapError, NotAnIterMap, Poly, Sizes, holds
from loomir.ir.node import Node
from loomir.ir.visit import children, pre_order
from loomir.support.dtype import BOOL, DataType
from loomir.tir.buffer import Range
from loomir.tir.builtins.table import BUILTINS, IF_THEN_ELSE
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Call,
    Cast,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    PrimExpr,
    Select,
    Sub,
    Var,
)

__all__ = ["Reader", "index_dtype"]

Result: TypeAlias = "Sum | IterMapError"
_LIKELY: Final = BUILTINS["likely"].op
_WIDEST: Final = DataType("int64")
_NARROWEST: Final = DataType("int32")


def _is_index(dtype: DataType) -> bool:
    return dtype.is_integer and dtype.lanes == 1


def index_dtype(exprs: list[PrimExpr], iters: Mapping[Var, Range]) -> DataType:
    """Return the dtype for sizes: the common dtype, or else int64."""
    found = {e.dtype for e in (*exprs, *iters)}
    if len(found) == 1:
        (only,) = found
        if only.is_int and only.lanes == 1:
            return only
    return _WIDEST if any(d.bits > _NARROWEST.bits for d in found) or not found else _NARROWEST


class Reader:
    """Reads expressions over iterators; refuses others with a reason."""

    def __init__(self, analyzer: Analyzer, dtype: DataType) -> None:
        self.analyzer = analyzer
        self.sizes = Sizes(analyzer, dtype)
        self.digits = Digits(self.sizes)
        self.marks: dict[int, Mark] = {}
        self._vars: dict[int, tuple[Var, Sum]] = {}
        self._varying: set[int] = set()
        self._read: list[PrimExpr] = []
        self._done: dict[int, Result] = {}

    # -- iterators ---------------------------------------------------------------------------------
    def declare(self, iters: Mapping[Var, Range]) -> None:
        """Declare the iterators and their ranges; the analyzer learns them for its scope."""
        for var, range_ in iters.items():
            self._declare(var, range_, iters)
        for var, range_ in iters.items():
            if not self.analyzer.is_bound(var):
                self.analyzer.bind(var, range_)

    def _declare(self, var: Var, range_: Range, iters: Mapping[Var, Range]) -> None:
        if not (var.dtype.is_int and var.dtype.lanes == 1):
            raise NotAnIterMap(f"an iterator is a signed integer, not {var.dtype}", var)
        ends = [range_.min] if range_.extent is None else [range_.min, range_.extent]
        for end in ends:
            if any(isinstance(part, Var) and part in iters for part in pre_order(end)):
                raise NotAnIterMap("the range of an iterator depends on another one", end)
        first = self.sizes.read(range_.min)
        extent = ONE if range_.extent is None else self.sizes.size(self.sizes.read(range_.extent))
        if not extent.atoms and extent.number <= 0:
            raise NotAnIterMap(f"the extent is {extent.number}, so that there are no values", var)
        if not self.sizes.is_at_least(extent, ZERO):
            raise NotAnIterMap("the extent may be negative", range_.extent)
        last = self.sizes.plus(self.sizes.plus(first, self.sizes.poly(extent)), {(): 1}, -1)
        if not _fits(first, last, var.dtype):
            raise NotAnIterMap(f"the range does not fit {var.dtype}", var)
        mark = Mark(var, extent, first)
        self.marks[id(var)] = mark
        self._vars[id(var)] = (var, self.digits.gather((self.digits.make_single(mark),), first))

    # -- expressions -------------------------------------------------------------------------------
    def read(self, expr: PrimExpr) -> Sum:
        """Read an index as a sum, which has the same value in unbounded integers."""
        if not _is_index(expr.dtype):
            raise NotAnIterMap(f"an index is a scalar integer, not {expr.dtype}", expr)
        if expr.dtype.is_uint:
            raise NotAnIterMap(f"an index is a signed integer, not {expr.dtype}", expr)
        return self.digits.tidy(self._value(expr))

    def _value(self, expr: PrimExpr) -> Sum:
        self._read.append(expr)  # kept alive, so that no other expression gets its id
        made = self._follow(expr)
        if isinstance(made, IterMapError):
            raise NotAnIterMap(made.message, made.expr)
        self._exact(expr, made)
        return made

    def _follow(self, root: PrimExpr) -> Result:
        """Read an expression bottom-up; shared parts are read once."""
        done = self._done
        stack: list[Node] = [root]
        while stack:
            node = stack[-1]
            if id(node) in done:
                stack.pop()
                continue
            parts = children(node)
            missing = [part for part in parts if id(part) not in done]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            done[id(node)] = self._visit(node, parts, [done[id(part)] for part in parts])
        return done[id(root)]

    def _exact(self, expr: PrimExpr, made: Sum) -> None:
        """Refuse an expression that may wrap, so that its value differs from the sum."""
        ends = self.digits.bounds(made.digits.values(), made.base)
        if ends is not None and all(not atoms for end in ends for atoms in end):
            if _fits(*ends, expr.dtype):
                return
        elif self.analyzer.is_exact(expr):
            return
        raise NotAnIterMap(f"the value may not fit {expr.dtype}", expr)

    def _visit(self, expr: Any, below: list[Node], parts: list[Result]) -> Result:
        if id(expr) in self._vars or any(id(part) in self._varying for part in below):
            self._varying.add(id(expr))
        rule = _RULES.get(expr.__class__)
        try:
            if rule is not None and (_is_index(expr.dtype) or rule is Reader._call):
                return rule(self, expr, parts)
            return self._read_symbol(expr, parts)
        except NotAnIterMap as refused:
            return refused.error

    def _constant(self, expr: Any, a: Sum, b: Sum) -> Sum:
        """Read an operation with invariant operands."""
        if id(expr) in self._varying:
            kind: Any = expr.__class__
            expr = kind(self.sizes.expr(a.base), self.sizes.expr(b.base))
        return Sum({}, self.sizes.read(expr))

    def _sum_of(self, parts: list[Result], number: int) -> Sum:
        part = parts[number]
        if isinstance(part, IterMapError):
            raise NotAnIterMap(part.message, part.expr)
        return part

    def _read_symbol(self, expr: PrimExpr, parts: list[Result]) -> Result:
        """Read any other expression: a symbol, if it contains no iterator."""
        for number in range(len(parts)):
            self._sum_of(parts, number)
        if id(expr) in self._varying:
            raise NotAnIterMap("not understood as arithmetic of iterators", expr)
        if not _is_index(expr.dtype):
            return Sum({}, {})  # a part of a symbol
        return Sum({}, self.sizes.read(expr))

    def _var(self, expr: Var, parts: list[Result]) -> Sum:
        found = self._vars.get(id(expr))
        return found[1] if found is not None else Sum({}, self.sizes.read(expr))

    def _number(self, expr: IntImm, parts: list[Result]) -> Sum:
        return Sum({}, {(): expr.value} if expr.value else {})

    def _add(self, expr: Add | Sub, parts: list[Result]) -> Sum:
        a, b = self._sum_of(parts, 0), self._sum_of(parts, 1)
        return self.digits.plus(a, b, 1 if isinstance(expr, Add) else -1)

    def _mul(self, expr: Mul, parts: list[Result]) -> Sum:
        a, b = self._sum_of(parts, 0), self._sum_of(parts, 1)
        if not b.is_invariant:
            a, b = b, a
        if not b.is_invariant:
            raise NotAnIterMap("a product of two iterators", expr)
        return self.digits.times(a, b.base)

    def _divide(self, expr: FloorDiv | FloorMod | Div | Mod, parts: list[Result]) -> Sum:
        a, b = self._sum_of(parts, 0), self._sum_of(parts, 1)
        if not b.is_invariant:
            raise NotAnIterMap("a divisor that changes with an iterator", expr)
        self._exact(expr.a, a)
        self._exact(expr.b, b)
        if a.is_invariant:
            return self._constant(expr, a, b)
        by = self.sizes.size(b.base)
        if by.number <= 0 or self.sizes.sign(by) <= 0:
            raise NotAnIterMap("a divisor that is not known to be positive", expr)
        if isinstance(expr, (Div, Mod)):
            ends = self.digits.bounds(a.digits.values(), a.base)
            if ends is None or not self.sizes.is_nonnegative(ends[0]):
                raise NotAnIterMap(
                    "a division that rounds towards 0, of what may be negative", expr
                )
        quotient, rest = self.digits.divide(a, by, expr)
        return quotient if isinstance(expr, (FloorDiv, Div)) else rest

    def _cast(self, expr: Cast, parts: list[Result]) -> Sum:
        made = self._sum_of(parts, 0)
        if id(expr) not in self._varying:
            return Sum({}, self.sizes.read(expr))
        if not _is_index(expr.value.dtype):
            raise NotAnIterMap("not understood as arithmetic of iterators", expr)
        self._exact(expr.value, made)
        self._exact(expr, made)
        return made

    def _extreme(self, expr: Min | Max, parts: list[Result]) -> Sum:
        a, b = self._sum_of(parts, 0), self._sum_of(parts, 1)
        self._exact(expr.a, a)
        self._exact(expr.b, b)
        if a.is_invariant and b.is_invariant:
            return self._constant(expr, a, b)
        for x, y in ((a, b), (b, a)):
            gap = self.digits.plus(x, y, -1)
            ends = self.digits.bounds(gap.digits.values(), gap.base)
            if ends is not None and self.sizes.is_nonnegative(ends[0]):
                return y if isinstance(expr, Min) else x
        raise NotAnIterMap("a minimum or maximum that changes sides", expr)

    def _choice(self, expr: Select | Call, parts: list[Result]) -> Sum:
        values = (expr.true_value, expr.false_value) if isinstance(expr, Select) else expr.args[1:]
        condition = expr.condition if isinstance(expr, Select) else expr.args[0]
        if id(expr) not in self._varying:
            return Sum({}, self.sizes.read(expr))
        if condition.dtype is BOOL:
            if self.analyzer.can_prove(condition):
                return self._sum_of(parts, len(parts) - len(values))
            if self.analyzer.can_prove(Not(condition)):
                return self._sum_of(parts, len(parts) - 1)
        raise NotAnIterMap("a choice that is not the same for all values", expr)

    def _call(self, expr: Call, parts: list[Result]) -> Result:
        if expr.op is IF_THEN_ELSE and _is_index(expr.dtype):
            return self._choice(expr, parts)
        if expr.op is _LIKELY:
            return self._sum_of(parts, len(parts) - 1)
        return self._read_symbol(expr, parts)

    # -- conditions --------------------------------------------------------------------------------
    def limit(self, predicate: PrimExpr) -> None:
        """Use a predicate's comparisons as limits; those with fewer iterators first."""
        if predicate.dtype is not BOOL:
            raise NotAnIterMap(
                f"a predicate is a scalar condition, not {predicate.dtype}", predicate
            )
        read = [(part, self._comparison(part)) for part in _conjunction(predicate)]
        tests = [(part, test) for part, test in read if test is not None]
        tests.sort(key=lambda item: len(item[1][0].digits))
        for part, (made, is_equal) in tests:
            self._limit(part, made, is_equal)

    def _comparison(self, part: PrimExpr) -> tuple[Sum, bool] | None:
        """Read a condition as ``sum < 0`` or ``sum == 0``; None if no iterator is in it."""
        if isinstance(part, IntImm):
            if part.value:
                return None
            raise NotAnIterMap("the predicate never holds", part)
        if not isinstance(part, (LT, LE, GT, GE, Eq)) or not _is_index(part.a.dtype):
            self._read.append(part)
            self._follow(part)
            if id(part) not in self._varying:
                return None
            raise NotAnIterMap("not understood as a limit of iterators", part)
        sides = [self._value(part.a), self._value(part.b)]
        if id(part.a) not in self._varying and id(part.b) not in self._varying:
            return None
        if isinstance(part, (GT, GE)):
            sides.reverse()
        gap = self.digits.plus(sides[0], sides[1], -1)
        if isinstance(part, (LE, GE)):
            gap = Sum(gap.digits, self.sizes.plus(gap.base, {(): 1}, -1))
        return gap, isinstance(part, Eq)

    def _limit(self, part: PrimExpr, gap: Sum, is_equal: bool) -> None:
        sizes, digits = self.sizes, self.digits
        gap = digits.tidy(gap)
        found = list(gap.digits.values())
        if not found:
            less = sizes.plus(sizes.times(gap.base, {(): -1}), {(): 1}, -1)
            if gap.base if is_equal else not sizes.is_nonnegative(less):
                raise NotAnIterMap("the condition may never hold", part)
            return
        below = all(sizes.sign(digit.scale) > 0 for digit in found)
        if not below:
            gap = digits.times(gap, {(): -1})
            found = list(gap.digits.values())
        chain = digits.chain(found, part)
        rest = sizes.times(gap.base, {(): -1})  # chain < rest, chain > rest, or chain == rest
        whole = sizes.poly(chain.extent)
        low: Poly = {}
        high: Poly | None = None
        if is_equal or not below:
            low = rest if is_equal else sizes.plus(rest, {(): 1})
        if is_equal or below:
            high = sizes.plus(rest, {(): 1}) if is_equal else rest
        low = self._steps(low, chain, part)
        digits.limit(chain, low, whole if high is None else self._steps(high, chain, part), part)

    def _steps(self, end: Poly, chain: Chain, part: PrimExpr) -> Poly:
        """Convert an end of values to steps of a chain."""
        sizes = self.sizes
        size = sizes.size(end)
        exact = sizes.divide(size, chain.scale)
        if exact is not None:
            return sizes.poly(exact)
        if size.atoms or chain.scale.atoms:
            raise NotAnIterMap("the limit is not a multiple of what the iterators step by", part)
        return sizes.poly(sizes.ceil_divide(size, chain.scale))


def _fits(low: Poly, high: Poly, dtype: DataType) -> bool:
    ends = [end.get((), 0) for end in (low, high) if all(not atoms for atoms in end)]
    return all(holds(dtype, end, end) for end in ends)


def _conjunction(predicate: PrimExpr) -> Iterator[PrimExpr]:
    todo = [predicate]
    while todo:
        part = todo.pop()
        if isinstance(part, And):
            todo += (part.b, part.a)
        elif isinstance(part, Call) and part.op is _LIKELY:
            todo.append(part.args[0])
        else:
            yield part


_RULES: Final[dict[type, Callable[[Reader, Any, list[Result]], Result]]] = {
    Var: Reader._var,  # pyright: ignore[reportPrivateUsage]
    IntImm: Reader._number,  # pyright: ignore[reportPrivateUsage]
    Add: Reader._add,  # pyright: ignore[reportPrivateUsage]
    Sub: Reader._add,  # pyright: ignore[reportPrivateUsage]
    Mul: Reader._mul,  # pyright: ignore[reportPrivateUsage]
    FloorDiv: Reader._divide,  # pyright: ignore[reportPrivateUsage]
    FloorMod: Reader._divide,  # pyright: ignore[reportPrivateUsage]
    Div: Reader._divide,  # pyright: ignore[reportPrivateUsage]
    Mod: Reader._divide,  # pyright: ignore[reportPrivateUsage]
    Cast: Reader._cast,  # pyright: ignore[reportPrivateUsage]
    Min: Reader._extreme,  # pyright: ignore[reportPrivateUsage]
    Max: Reader._extreme,  # pyright: ignore[reportPrivateUsage]
    Select: Reader._choice,  # pyright: ignore[reportPrivateUsage]
    Call: Reader._call,  # pyright: ignore[reportPrivateUsage]
}
