"""Lower one statement with known ranges to loops around a block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.ir.substitution import substitute
from loomir.ir.visit import post_order
from loomir.support.span import Span
from loomir.tc.preconditions import extent_of
from loomir.tc.ranges import Interval, linear_of, variables_in
from loomir.tc.types import INDEX, common_dtype, convert, identity
from loomir.tir.analysis.access_regions import infer_access_regions
from loomir.tir.buffer import Buffer, BufferLoad, IterVar, IterVarType, Range
from loomir.tir.expr import (
    LE,
    Add,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Var,
)
from loomir.tir.stmt import (
    TRUE,
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
)

__all__ = ["Update", "blocks_of"]


class Update(NamedTuple):
    """A statement whose ranges are known: ``buffer[left] op value``."""

    buffer: Buffer
    left: tuple[Var, ...]
    reduced: tuple[Var, ...]
    op: str
    value: PrimExpr
    name: str
    span: Span


def blocks_of(update: Update, ranges: Mapping[Var, Interval], analyzer: Analyzer) -> list[Stmt]:
    """Return the statements that carry out an update."""
    made: list[Stmt] = []
    starts = update.op.endswith("!")
    if starts and update.reduced:
        # The block starts an element in the first of its iterations, so there must be one.
        tests = [
            LE(extent_of(ranges[v], analyzer), IntImm(0, INDEX))
            for v in update.reduced
            if not analyzer.can_prove(LE(IntImm(1, INDEX), extent_of(ranges[v], analyzer)))
        ]
        if tests:
            condition: PrimExpr = tests[0]
            for test in tests[1:]:
                condition = Or(condition, test)
            start = identity(update.op, update.buffer.dtype)
            fill = update._replace(op="=", reduced=(), value=start, name=f"{update.name}_start")
            made.append(IfThenElse(condition, _nest(fill, ranges, analyzer), span=update.span))
    return [*made, _nest(update, ranges, analyzer)]


def _nest(update: Update, ranges: Mapping[Var, Interval], analyzer: Analyzer) -> Stmt:
    order = _order(update)
    reduced = {id(v) for v in update.reduced}
    values: dict[Var, PrimExpr] = {}
    iter_vars: list[IterVar] = []
    starts: dict[Var, PrimExpr] = {}
    for var in order:
        inner = Var(f"v{var.name_hint}", INDEX, span=var.span)
        start, extent = ranges[var].start, extent_of(ranges[var], analyzer)
        kind = IterVarType.COMM_REDUCE if id(var) in reduced else IterVarType.DATA_PAR
        values[var] = inner
        if id(var) in reduced and not isinstance(start, IntImm):
            # Where a reduction starts must be plain to see: it counts from 0, and is moved.
            values[var], start = Add(inner, start), IntImm(0, INDEX)
        starts[var] = start
        iter_vars.append(IterVar(Range(start, extent), inner, kind))
    outer = {var: Var(var.name_hint, INDEX, span=var.span) for var in order}
    indices = tuple(values[v] for v in update.left)
    value = substitute(update.value, values)
    body = BufferStore(
        update.buffer, _combine_stored(update, value, indices), indices, span=update.span
    )
    init: Stmt | None = None
    if update.op.endswith("!"):
        start = identity(update.op, update.buffer.dtype)
        init = BufferStore(update.buffer, start, indices, span=update.span)
    reads, writes = infer_access_regions(body, init)
    block = Block(tuple(iter_vars), reads, writes, update.name, body, init, span=update.span)
    nest: Stmt = BlockRealize(tuple(outer[v] for v in order), TRUE, block, span=update.span)
    for var in reversed(order):
        extent = extent_of(ranges[var], analyzer)
        nest = For(outer[var], starts[var], extent, ForKind.SERIAL, nest, span=var.span)
    return nest


def _combine_stored(update: Update, value: PrimExpr, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """Return what is stored: the value, or its combination with what is there, as C computes it."""
    dtype = update.buffer.dtype
    if update.op == "=":
        return convert(value, dtype)
    there: PrimExpr = BufferLoad(update.buffer, indices, span=update.span)
    if value.dtype is not dtype:
        common = common_dtype(dtype, value.dtype) or dtype
        there, value = convert(there, common), convert(value, common)
    made: PrimExpr
    if update.op[0] in "+*":
        made = (Add if update.op[0] == "+" else Mul)(there, value, span=update.span)
    else:
        made = (Max if update.op.startswith("max") else Min)(there, value, span=update.span)
    return convert(made, dtype)


def _order(update: Update) -> list[Var]:
    """Order the loops: the left side's, then what is reduced.

    Where every access runs along memory with the last index of the left side, that one goes
    innermost, so that neighbours are computed together.
    """
    left, reduced = list(update.left), list(update.reduced)
    if not left or not reduced or not _runs_along(update, left[-1]):
        return [*left, *reduced]
    return [*left[:-1], *reduced, left[-1]]


def _runs_along(update: Update, var: Var) -> bool:
    """Tell whether a step of a variable is a step in memory, or none, for every access."""
    some = False
    for node in post_order(update.value):
        if not isinstance(node, BufferLoad) or not node.indices:
            continue
        if any(variables_in(index, [var]) for index in node.indices[:-1]):
            return False
        form = linear_of(node.indices[-1], [var])
        if form is None or form.terms.get(var, 0) not in (0, 1):
            return False
        some = some or bool(form.terms)
    return some
