"""Emit interrupt checks (Ctrl-C) in long loops, at no measurable cost.

Code has a *budget*, counted in TIR nodes and worth some milliseconds, in its context
(``faults.BUDGET``). When it is used up, the code calls ``loomir_poll`` (``ir.process``), which
refills it.

- Code that is certainly short does not count.
- A loop around other loops that may be long runs in *strips*. The length of a strip follows from
  the budget and from the sizes on entry; the loop counts between strips, and its body is unchanged.
- An innermost loop whose trip count is bounded by the size of an array is unchanged inside other
  loops, which count its work. One that is bounded only by a number also runs in strips.
- ``while`` loops count in each iteration. Calls and parallel regions count as a share of the
  budget, since they may be all that a loop does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import I32, I64, PTR
from loomir.codegen.llvm.assembler.values import FALSE, Value, const
from loomir.codegen.llvm.math.floats import cast
from loomir.codegen.llvm.support.ir.faults import BUDGET, CONTEXT, FULL
from loomir.codegen.llvm.support.ir.names import POLL
from loomir.codegen.llvm.tir.constants import constant_of
from loomir.codegen.llvm.tir.frame import FunctionFrame, LongLoop, WorkTerm
from loomir.ir.equality import structural_equal
from loomir.ir.module import GlobalVar
from loomir.ir.substitution import substitute
from loomir.ir.visit import Step, by_class, children, of_classes, trampoline
from loomir.support.dtype import DataType
from loomir.tir.expr import (
    Add,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from loomir.tir.faults import fault
from loomir.tir.stmt import For, ForKind, LetStmt, Stmt, While

__all__ = ["CALL", "REGION", "count", "long_loops", "strip_length", "weight_of"]

CALL: Final = FULL >> 12
"""The work that a call of a function of the program counts as."""
REGION: Final = FULL >> 6
"""The work that a parallel region counts as: waking other threads takes microseconds."""
_FEW: Final = 64
"""A loop of up to so many iterations may be unrolled by LLVM, so that it should not count."""
_SHORT: Final = FULL << 3
"""Loops of constant extents with up to so much work do not count: at worst tens of milliseconds."""
_TERMS: Final = 8
"""Terms of a weight that are computed at run time; more are left out, so that code stays short."""
_HEAVY: Final = FULL >> 10
"""The least work of an iteration beside which counting after each one is not measurable."""
_MOST: Final = 1 << 20
"""The most that an extent counts as, so that its product with a weight fits 64 bits."""
_NAMES: Final = 4
"""How many levels of names that are bound to other names are replaced."""
_INT64: Final = DataType("int64")
_QUIET: Final[dict[str, str | None]] = {
    "cold": None,
    "nounwind": None,
    "willreturn": None,
    "memory(argmem: readwrite, inaccessiblemem: readwrite)": None,
}

_SAVES: Final[dict[str, str | None]] = {'"no_caller_saved_registers"': None}


class _Work(NamedTuple):
    """The work of a statement, in nodes, that no loop inside counts: ``flat`` plus the ``terms``.

    ``counts`` tells whether a loop inside counts.
    """

    flat: float
    terms: tuple[WorkTerm, ...] = ()
    counts: bool = False


def long_loops(body: Stmt, sizes: Collection[Var]) -> dict[int, LongLoop]:
    """Find the loops that have to count, by id; ``sizes`` are the variables of arrays' extents."""
    if not {For, While} & by_class(body).keys():
        return {}
    plan = _Plan(body, sizes)
    stack: list[tuple[Stmt, tuple[list[Stmt], float] | None, int]] = [(body, None, 0)]
    while stack:
        stmt, parts, depth = stack.pop()
        if parts is None:
            parts = _parts(stmt)
            deeper = depth + isinstance(stmt, (For, While))
            if parts[0]:
                stack.append((stmt, parts, depth))
                stack += [(part, None, deeper) for part in parts[0]]
                continue
        plan.settle(stmt, *parts, depth)
    return plan.found


class _Plan:
    def __init__(self, body: Stmt, sizes: Collection[Var]) -> None:
        self.found: dict[int, LongLoop] = {}
        self._known: dict[int, _Work] = {}
        self._sizes = _Sizes(body, sizes)

    def settle(self, stmt: Stmt, inner: Sequence[Stmt], nodes: float, depth: int) -> None:
        """Record the work of a statement from that of its parts, which is known."""
        below = [self._known[id(part)] for part in inner]
        terms = tuple(term for work in below for term in work.terms)
        flat = nodes + sum(work.flat for work in below)
        work = _Work(flat, terms, any(work.counts for work in below))
        if isinstance(stmt, While):
            self.found[id(stmt)] = LongLoop(int(min(flat, FULL)), terms, 0, each=True, last=True)
            work = _Work(1, (), True)
        elif isinstance(stmt, For):
            work = self._loop(stmt, work, depth)
        if len(work.terms) > _TERMS:
            work = _Work(work.flat, work.terms[:_TERMS], work.counts)
        self._known[id(stmt)] = work

    def _loop(self, loop: For, body: _Work, depth: int) -> _Work:
        times = self._sizes.find_bound(loop.extent)
        extent = self._sizes.write_by_extents(loop.extent) if times is None else None
        weight = int(min(body.flat, FULL))
        is_shared = loop.kind is ForKind.PARALLEL
        if times is not None:
            times = max(times, 0)
            whole = _Work(
                body.flat * times,
                tuple([WorkTerm(t.weight * times, t.extents) for t in body.terms]),
                body.counts,
            )
            if whole.flat <= _SHORT and (times <= _FEW or not (body.terms or body.counts)):
                return _Work(1, (), True) if is_shared else whole
        terms = body.terms
        innermost = not terms and not body.counts
        inside = extent if depth and not is_shared else None
        if inside is not None and innermost:
            return _Work(1, (WorkTerm(weight, (inside,)),))
        each = innermost and weight >= _HEAVY
        strip = 0
        if not terms and not each:
            strip = max(1, FULL // weight)
        self.found[id(loop)] = LongLoop(weight, terms, strip, each=each, last=inside is None)
        if inside is None:
            return _Work(1, (), True)
        whole = [WorkTerm(t.weight, (inside, *t.extents)) for t in terms]
        return _Work(1, (WorkTerm(weight, (inside,)), *whole), True)


def _parts(stmt: Stmt) -> tuple[list[Stmt], float]:
    """Return a statement's direct children and the work of its own expressions."""
    inner: list[Stmt] = []
    nodes = 1.0
    stack = children(stmt)
    while stack:
        part = stack.pop()
        if isinstance(part, Stmt):
            inner.append(part)
            continue
        nodes += CALL if isinstance(part, Call) and isinstance(part.op, GlobalVar) else 1
        stack += children(part)
    return inner, nodes


# -- sizes ---------------------------------------------------------------------------------------
_PLAIN: Final = (Add, Sub, Mul, Min, Max, FloorDiv, FloorMod, Cast, IntImm, Var)


class _Sizes:
    """Upper bounds of integers; those computed from arrays' extents are bounded by array sizes.

    This assumes that nothing overflows, and that differences of such numbers are not negative. A
    wrong bound only changes how often interrupts are checked.
    """

    def __init__(self, body: Stmt, sizes: Collection[Var]) -> None:
        self._sizes = sizes
        self._bound: dict[Var, PrimExpr] = {}
        self._named: dict[Var, PrimExpr] = {}
        self._most: dict[Var, int | None] = {}
        for part in of_classes(body, LetStmt, For):
            if isinstance(part, LetStmt):
                self._bound[part.var] = self._named[part.var] = part.value
            else:
                self._bound[part.loop_var] = part.min + part.extent

    def write_by_extents(self, expr: PrimExpr) -> PrimExpr | None:
        """Express a value only by extents, so that it can be computed on entry, or return None."""
        for _ in range(_NAMES):
            if not _is_plain(expr):
                return None
            named = [v for v in _variables(expr) if v not in self._sizes]
            if not named:
                return expr
            if any(v not in self._named for v in named):
                return None
            expr = substitute(expr, {v: self._named[v] for v in named})
        return None

    def find_bound(self, expr: PrimExpr) -> int | None:
        """Return an upper bound of an expression, or None."""
        return trampoline(self._find_bound(expr))

    def _is_derived(self, expr: PrimExpr) -> bool:
        """Tell whether an expression depends only on extents, loop variables and let bindings."""
        pending = [*_variables(expr)] if _is_plain(expr) else None
        seen: set[Var] = set()
        while pending:
            var = pending.pop()
            if var in seen or var in self._sizes:
                continue
            seen.add(var)
            value = self._bound.get(var)
            if value is None or not _is_plain(value):
                return False
            pending += _variables(value)
        return pending is not None

    def _find_bound(self, expr: PrimExpr) -> Step[int | None]:
        if isinstance(expr, IntImm):
            return expr.value
        if isinstance(expr, Var):
            if expr not in self._most:
                self._most[expr] = None
                if expr in self._bound:
                    self._most[expr] = yield self._find_bound(self._bound[expr])
            return self._most[expr]
        if isinstance(expr, Cast):
            return (yield self._find_bound(expr.value))
        if isinstance(expr, FloorMod):
            divisor = constant_of(expr.b)
            return divisor - 1 if divisor is not None and divisor > 0 else None
        if isinstance(expr, Sub):
            return (yield self._difference(expr))
        if isinstance(expr, (FloorDiv, Mul)):
            by = constant_of(expr.b)
            if by is None or by < isinstance(expr, FloorDiv):
                return None
            most: int | None = yield self._find_bound(expr.a)
            if most is None:
                return None
            return most * by if isinstance(expr, Mul) else most // by
        if isinstance(expr, (Add, Min, Max, Select)):
            x = expr.true_value if isinstance(expr, Select) else expr.a
            y = expr.false_value if isinstance(expr, Select) else expr.b
            a: int | None = yield self._find_bound(x)
            b: int | None = yield self._find_bound(y)
            if isinstance(expr, Min):
                return min((n for n in (a, b) if n is not None), default=None)
            if a is None or b is None:
                return None
            return a + b if isinstance(expr, Add) else max(a, b)
        return None

    def _difference(self, expr: Sub) -> Step[int | None]:
        rest = _rest_of(expr)
        if rest:
            return rest - 1
        most: int | None = yield self._find_bound(expr.a)
        less = constant_of(expr.b)
        if most is None or (less is None and not self._is_derived(expr.b)):
            return None
        return most - (less or 0)


def _rest_of(expr: Sub) -> int | None:
    """Return ``n`` of ``x - x // n * n``, which is a remainder, or None."""
    product = expr.b
    if not isinstance(product, Mul) or not isinstance(product.a, FloorDiv):
        return None
    divisor = constant_of(product.b)
    if divisor is None or divisor <= 0 or constant_of(product.a.b) != divisor:
        return None
    return divisor if structural_equal(expr.a, product.a.a) else None


def _variables(expr: PrimExpr) -> list[Var]:
    return list(of_classes(expr, Var))


def _is_plain(expr: PrimExpr) -> bool:
    """Tell whether an expression consists of arithmetic that cannot fail."""
    stack: list[object] = [expr]
    while stack:
        part = stack.pop()
        if not isinstance(part, _PLAIN):
            return False
        if isinstance(part, (FloorDiv, FloorMod)) and not constant_of(part.b):
            return False
        stack += children(part)
    return True


# -- code ----------------------------------------------------------------------------------------
def weight_of(frame: FunctionFrame, long: LongLoop) -> Step[Value]:
    """Emit the work of an iteration of a loop, at most the whole budget."""
    total: Value = const(I64, long.weight)
    for term in long.terms:
        product: Value = const(I64, min(term.weight, FULL))
        for extent in term.extents:
            value: Value = yield frame.value(extent)
            b = frame.b
            wide = _limit(b, cast(b, value, extent.dtype, _INT64), _MOST)
            some = b.select(b.icmp("slt", wide, const(I64, 0)), const(I64, 0), wide)
            product = _limit(b, b.mul(product, some), FULL)
        total = frame.b.add(total, product)
    return _limit(frame.b, total, FULL)


def strip_length(frame: FunctionFrame, weight: Value) -> Value:
    """Emit how many iterations of that weight the budget allows, rounded down to a power of two."""
    b = frame.b
    zeros = b.intrinsic("llvm.ctlz", [weight, FALSE], result=I64, overloads=[I64])
    length = b.lshr(const(I64, FULL), b.sub(const(I64, 64), zeros))
    return b.or_(length, const(I64, 1))


def _limit(b: Builder, value: Value, limit: int) -> Value:
    return b.select(b.icmp("slt", value, const(I64, limit)), value, const(I64, limit))


def count(frame: FunctionFrame, amount: Value) -> None:
    """Take an amount from the budget; if that is used up, poll, and stop if interrupted."""
    unit, b = frame.unit, frame.b
    if not unit.polls:
        return
    at = b.field(CONTEXT, frame.context, BUDGET)
    left = b.sub(b.load(I64, at), amount)
    b.store(left, at)
    ask, stop, on = b.append("ask"), b.append("stop"), b.append("on")
    on.continues(b.block)
    b.condbr(b.icmp("sge", left, const(I64, 0)), on, ask, meta=unit.faults.rare())
    b.position_at_end(ask)
    # The call saves no registers: constants that a loop keeps in vectors would be reloaded.
    saved = _SAVES if unit.module.triple.startswith("x86_64") else {}
    poll = unit.module.declare(POLL, I32, [PTR], attributes={**_QUIET, **saved})
    status = b.call(poll, [frame.context])
    b.condbr(b.icmp("eq", status, const(I32, 0)), on, stop, meta=unit.faults.rare())
    b.position_at_end(stop)
    if unit.interrupted < 0:
        unit.interrupted = unit.faults.add(fault("interrupted", None))
    unit.faults.record(b, frame.context, unit.interrupted, ())
    b.br(frame.cleanup.fail)
    b.position_at_end(on)
