"""Infer the ranges of index variables, in rounds.

A round visits each linear index expression with exactly one variable without a range. The largest
interval for this variable follows from the condition that the index is within its axis, for all
values of the variables that have a range. All intervals of a round are intersected. Rounds repeat
until every variable has a range. Remaining conditions are checked before the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, fold_node, imm64, mul, sub
from loomir.arith.linear_form import LinearForm, read_linear_form
from loomir.ir.visit import children, post_order
from loomir.support.span import Span
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import (
    GE,
    LE,
    And,
    Call,
    FloorDiv,
    IntImm,
    Max,
    Min,
    Not,
    Or,
    PrimExpr,
    Var,
)

__all__ = [
    "AxisAccess",
    "Interval",
    "extremes",
    "find_accesses",
    "infer",
    "is_plain",
    "linear_of",
    "reads_memory",
    "variables_in",
]


# Constants from here on are left to checks that compute as the program does, so that sums of
# smaller ones never leave 64 bits.
_LARGE: Final = 1 << 16
_FAR: Final = 1 << 41


class AxisAccess(NamedTuple):
    """One index of an access to a tensor: its axis, the size of that, the conditions around it.

    ``guards`` is a chain ``(condition, rest)``. An access that only informs (``exists``) need not
    stay inside.
    """

    name: str
    axis: int
    size: PrimExpr
    at: PrimExpr
    guards: Any
    span: Span | None
    informs: bool = False


class Interval(NamedTuple):
    """The integers from ``start`` up to ``stop``, which is not among them."""

    start: PrimExpr
    stop: PrimExpr


# -- reading index expressions ---------------------------------------------------------------------
def reads_memory(expr: PrimExpr) -> bool:
    """Tell whether an expression depends on data."""
    return any(isinstance(node, BufferLoad) for node in post_order(expr))


def variables_in(expr: PrimExpr, wanted: Iterable[Var]) -> list[Var]:
    """List those of the variables that an expression mentions, in their order."""
    found = {id(node) for node in post_order(expr) if isinstance(node, Var)}
    return [var for var in wanted if id(var) in found]


def linear_of(expr: PrimExpr, variables: Iterable[Var]) -> LinearForm[Var] | None:
    """Read an index as a linear form of the variables; None if it is none, or reads memory."""
    form = None if reads_memory(expr) else read_linear_form(expr, variables, literal=True)
    if form is None or any(abs(f) >= _LARGE for f in form.terms.values()):
        return None
    return form if _is_small(form.rest) else None


def is_plain(analyzer: Analyzer, expr: PrimExpr) -> bool:
    """Tell whether a size is certainly computed without leaving 64 bits."""
    return _is_small(expr) and analyzer.is_exact(expr)


def _is_small(expr: PrimExpr) -> bool:
    numbers = (node.value for node in post_order(expr) if isinstance(node, IntImm))
    return all(abs(n) < _FAR for n in numbers)


def find_accesses(
    value: PrimExpr, sizes: Mapping[int, tuple[str, tuple[PrimExpr, ...]]]
) -> Iterator[AxisAccess]:
    """List the accesses of an expression from left to right, with the conditions around them.

    ``sizes`` gives name and sizes of the tensor that a data variable belongs to, by its id.
    """
    stack: list[tuple[Any, Any]] = [(value, None)]
    while stack:
        node, guards = stack.pop()
        if isinstance(node, BufferLoad):
            buffer: Buffer = node.buffer
            name, dims = sizes[id(buffer.data)]
            for axis, (index, size) in enumerate(zip(node.indices, dims, strict=True)):
                yield AxisAccess(name, axis, size, index, guards, node.span)
        parts: list[tuple[Any, Any]]
        if isinstance(node, Call) and node.op is IF_THEN_ELSE:
            condition, then, otherwise = node.args
            parts = [
                (condition, guards),
                (then, (condition, guards)),
                (otherwise, (Not(condition), guards)),
            ]
        elif isinstance(node, And):
            parts = [(node.a, guards), (node.b, (node.a, guards))]
        elif isinstance(node, Or):
            parts = [(node.a, guards), (node.b, (Not(node.a), guards))]
        else:
            parts = [(part, guards) for part in children(node)]
        stack.extend(reversed(parts))


# -- rounds ----------------------------------------------------------------------------------------
def extremes(form: LinearForm[Var], ranges: Mapping[Var, Interval]) -> tuple[PrimExpr, PrimExpr]:
    """Return the least and the greatest value of a form whose variables all have ranges."""
    least = greatest = form.rest
    for var, factor in form.terms.items():
        first, last = ranges[var].start, sub(ranges[var].stop, imm64(1))
        if factor < 0:
            first, last = last, first
        least = add(least, mul(first, imm64(factor)))
        greatest = add(greatest, mul(last, imm64(factor)))
    return least, greatest


def _divide(a: PrimExpr, divisor: int) -> PrimExpr:
    return fold_node(FloorDiv(a, imm64(divisor)))


def _solve(
    var: Var, form: LinearForm[Var], size: PrimExpr, ranges: Mapping[Var, Interval]
) -> Interval:
    """Solve ``0 <= index < size`` for one variable, for all values of the others."""
    factor = form.terms[var]
    others = LinearForm({v: f for v, f in form.terms.items() if v is not var}, form.rest)
    least, greatest = extremes(others, ranges)
    above = sub(sub(size, imm64(1)), greatest)  # factor * var must not be more
    if factor > 0:
        start = sub(imm64(0), _divide(least, factor))
        return Interval(start, add(_divide(above, factor), imm64(1)))
    start = sub(imm64(0), _divide(above, -factor))
    return Interval(start, add(_divide(least, -factor), imm64(1)))


def _pick(analyzer: Analyzer, terms: Sequence[PrimExpr], greatest: bool) -> PrimExpr:
    """Return the greatest (or least) of expressions, without those that cannot be it."""
    order = GE if greatest else LE
    kept: list[PrimExpr] = []
    for term in map(analyzer.simplify, terms):
        if any(analyzer.can_prove(order(k, term)) for k in kept):
            continue
        kept = [*(k for k in kept if not analyzer.can_prove(order(term, k))), term]
    made = kept[0]
    for term in kept[1:]:
        made = Max(made, term) if greatest else Min(made, term)
    return made


def infer(
    variables: Sequence[Var],
    fixed: Mapping[Var, Interval],
    accesses: Sequence[AxisAccess],
    analyzer: Analyzer,
) -> tuple[dict[Var, Interval], list[AxisAccess], list[Var]]:
    """Return ranges, the accesses that gave none, and the variables that are without a range."""
    ranges = dict(fixed)
    left: list[tuple[AxisAccess, LinearForm[Var] | None]] = [
        (a, linear_of(a.at, variables)) for a in accesses
    ]
    missing = [v for v in variables if v not in ranges]
    while missing:
        found: dict[Var, list[Interval]] = {}
        unused: list[tuple[AxisAccess, LinearForm[Var] | None]] = []
        for access, form in left:
            open_ = [v for v in form.terms if v not in ranges] if form is not None else []
            if form is not None and len(open_) == 1:
                solved = _solve(open_[0], form, access.size, ranges)
                found.setdefault(open_[0], []).append(solved)
            else:
                unused.append((access, form))
        if not found:
            break
        for var, intervals in found.items():
            start = _pick(analyzer, [i.start for i in intervals], True)
            stop = _pick(analyzer, [i.stop for i in intervals], False)
            ranges[var] = Interval(start, stop)
        left = unused
        missing = [v for v in missing if v not in ranges]
    return ranges, [access for access, _ in left], missing
