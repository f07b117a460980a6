"""Check indices in vectors: loops that only check bounds look for a bad index before they name it.

A check stops at the first index that is out of bounds, so its loop runs in order, one index after
the other. Whether there is any such index can be asked of vectors. Only if there is one, the
original loop runs, and raises the error that it always raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loomir.arith.fold import fold_expr, imm
from loomir.autoschedule.builders.evaluate import number, value_at
from loomir.autoschedule.builders.loops import allocate, scratch
from loomir.autoschedule.builders.reduction_ops import load_vectors, reduce_lanes
from loomir.autoschedule.builders.thread_partition import is_worth
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Combine
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class, rebuild, rewrite
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import CHECKED_INDEX
from loomir.tir.expr import GE, LT, Add, Call, Cast, Let, Max, Min, Or, PrimExpr, Sub, Var
from loomir.tir.stmt import BufferStore, Evaluate, For, ForKind, IfThenElse, SeqStmt, Stmt, seq

__all__ = ["plan_checks"]

_VECTORS: Final = 2
"""Vectors that are checked in a step of the loop."""
_CHUNK: Final = 8192
"""Indices of a row that a thread checks at a time."""
_TIME: Final = 0.25
"""Nanoseconds of a check in a vector."""


def plan_checks(part: Stmt, target: Target) -> Plan | None:
    """Plan loops that check indices and do nothing else; None for others."""
    outer: list[For] = []
    inner = part
    while isinstance(inner, For) and _is_plain(inner):
        outer.append(inner)
        inner = inner.body
    checks = _read_checks(inner)
    if not outer or not checks:
        return None
    *outer, row = outer
    bits = max(check.args[0].dtype.bits for check in checks)
    lanes = min(64, _VECTORS * target.lanes(bits))
    length = number(row.extent)
    if (length is not None and length < lanes) or not all(_is_contiguous(c, row) for c in checks):
        return None
    known = [number(loop.extent) for loop in (*outer, row)]
    work: float | None = _TIME * len(checks)
    for extent in known:
        work = None if work is None or extent is None else work * extent
    shares = work is None or is_worth(work)
    if outer:
        stmt = _check_row(row, checks, lanes)
    else:
        stmt = _check_chunks(row, checks, lanes, shares=shares)
    for loop in reversed(outer):
        kind = ForKind.PARALLEL if loop is outer[0] and shares else ForKind.SERIAL
        stmt = rebuild(loop, {"body": stmt, "kind": kind})
    how = f"a bad one is looked for in vectors of {lanes}, and named by the loop as written"
    return Plan("bounds checks", stmt, (how,))


def _is_plain(loop: For) -> bool:
    return loop.kind in (ForKind.SERIAL, ForKind.PARALLEL) and not loop.annotations


def _read_checks(stmt: Stmt) -> list[Call]:
    """List the checks of a statement; none if it does anything else, or a check is within one."""
    found: list[Call] = []
    for part in stmt.seq if isinstance(stmt, SeqStmt) else (stmt,):
        check = part.value if isinstance(part, Evaluate) else None
        if not isinstance(check, Call) or check.op is not CHECKED_INDEX:
            return []
        within = [c for arg in check.args[:2] for c in by_class(arg).get(Call, ())]
        if any(call.op is CHECKED_INDEX for call in within) or check.dtype.lanes != 1:
            return []
        found.append(check)
    return found


def _is_contiguous(check: Call, row: For) -> bool:
    """Whether neighbouring checks load neighbours, or the same."""
    loads = [load for arg in check.args[:2] for load in by_class(arg).get(BufferLoad, ())]
    for load in loads:
        if load.buffer.strides or load.dtype.lanes != 1 or load.dtype.bits < 8:
            return False
        if not load.indices:
            continue
        *before, last = (_moves(index, row.loop_var) for index in load.indices)
        if any(moved != 0 for moved in before) or last is None:
            return False
    return bool(loads)


def _moves(index: PrimExpr, var: Var) -> int | None:
    """Return by how much an index grows with a variable, 0 or 1; None for anything else."""
    while isinstance(index, (Add, Sub)):
        if var in by_class(index.b).get(Var, ()):
            if isinstance(index, Sub) or var in by_class(index.a).get(Var, ()):
                return None
            index = index.b
        else:
            index = index.a
    if index is var:
        return 1
    return None if var in by_class(index).get(Var, ()) else 0


def _check_chunks(row: For, checks: Sequence[Call], lanes: int, *, shares: bool) -> Stmt:
    """Check a single row in chunks, which threads share."""
    dtype = row.loop_var.dtype
    size = imm(_CHUNK, dtype)
    task = Var("task", dtype)
    first = fold_expr(row.min + task * size)
    left = fold_expr(Min(size, row.extent - task * size))
    chunk = rebuild(fresh_copy(row, {}), {"min": first, "extent": left, "kind": ForKind.SERIAL})
    assert isinstance(chunk, For)
    tasks = fold_expr((row.extent + imm(_CHUNK - 1, dtype)) // size)
    kind = ForKind.PARALLEL if shares else ForKind.SERIAL
    body = _check_row(chunk, _read_checks(chunk.body), lanes)
    return For(task, imm(0, dtype), tasks, kind, body)


def _check_row(row: For, checks: Sequence[Call], lanes: int) -> Stmt:
    """Look for a bad index in whole vectors, then check what is left one by one."""
    dtype = row.loop_var.dtype
    flags = [scratch("bad", (lanes,), check.args[0].dtype, "local") for check in checks]
    extent = fold_expr(Max(row.extent, imm(0, dtype)))
    width = imm(lanes, dtype)
    vectors, step = fold_expr(extent // width), Var("v", dtype)

    def mark(buffer: Buffer, check: Call) -> Stmt:
        def mark_lane(lane: PrimExpr) -> Stmt:
            place = fold_expr(row.min + step * width + lane)
            bad = value_at(_is_outside(check), {row.loop_var: place})
            term = Var("term", buffer.dtype)
            value = Let(term, Cast(bad, buffer.dtype), Max(BufferLoad(buffer, (lane,)), term))
            return BufferStore(buffer, value, (lane,))

        return _vectorize(lanes, dtype, mark_lane)

    def clear(buffer: Buffer) -> Stmt:
        return _vectorize(
            lanes, dtype, lambda lane: BufferStore(buffer, imm(0, buffer.dtype), (lane,))
        )

    def is_marked(buffer: Buffer) -> PrimExpr:
        (vector,) = load_vectors(buffer, 1, lanes)
        return LT(imm(0, buffer.dtype), reduce_lanes(Combine.MAX, vector))

    serial = rebuild(fresh_copy(row, {}), {"kind": ForKind.SERIAL})
    done = fold_expr(vectors * width)
    rest = rebuild(
        fresh_copy(serial, {}),
        {"min": fold_expr(row.min + done), "extent": fold_expr(extent - done)},
    )
    marks = seq([mark(buffer, check) for buffer, check in zip(flags, checks, strict=True)])
    parts = [
        *map(clear, flags),
        For(step, imm(0, dtype), vectors, ForKind.SERIAL, marks),
        *(IfThenElse(is_marked(buffer), fresh_copy(serial, {})) for buffer in flags),
    ]
    if number(fold_expr(extent - done)) != 0:
        parts.append(rest)
    return allocate(flags, *parts)


def _vectorize(lanes: int, dtype: DataType, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    lane = Var("lane", dtype)
    return For(lane, imm(0, dtype), imm(lanes, dtype), ForKind.VECTORIZED, body(lane))


def _is_outside(check: Call) -> PrimExpr:
    """Return whether an index is out of bounds, where each element is loaded before any choice."""
    at, extent = check.args[:2]
    names: list[tuple[Var, BufferLoad]] = []

    def name(load: BufferLoad) -> PrimExpr:
        for var, known in names:
            if structural_equal(known, load):
                return var
        names.append((Var("loaded", load.dtype), load))
        return names[-1][0]

    place = Var("place", at.dtype)
    named, end = (rewrite(arg, {BufferLoad: name}) for arg in (at, extent))
    outside: PrimExpr = Let(place, named, Or(LT(place, imm(0, at.dtype)), GE(place, end)))
    for var, load in reversed(names):
        outside = Let(var, load, outside)
    return outside
