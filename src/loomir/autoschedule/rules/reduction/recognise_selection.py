"""Read a block that selects an element, and prove whether the order of selections matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from loomir.autoschedule.builders.evaluate import (
    widest,
)
from loomir.autoschedule.ir.stage import Stage
from loomir.autoschedule.lift.lift_loops import Body, Reader, RebasedNest
from loomir.autoschedule.rules.reduction.lane_search import LaneSearch
from loomir.autoschedule.rules.reduction.selection_order import TESTS, is_order_free
from loomir.ir.equality import are_equal, structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, rewrite
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.analysis.effects import Effects, effects
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import (
    And,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Not,
    Or,
    PrimExpr,
    Select,
    Var,
)
from loomir.tir.stmt import BlockRealize, BufferStore, LetStmt, SeqStmt, Stmt

__all__ = ["Selection", "read_selection"]

_KEPT: Final = 3
"""Most buffers that a block writes."""
_MOST: Final = 200
"""Nodes of a condition that is analysed."""


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The kept element, the next one, and the condition over both to ``keep`` the former."""

    stages: tuple[Stage, ...]
    old: tuple[Var, ...]
    new: tuple[Var, ...]
    keep: PrimExpr
    free_order: bool
    lanes: int
    """Elements of the widest buffer in a register."""
    turns: LaneSearch | None = None
    """How a contiguous row is searched, if one of the buffers holds its indices."""

    @property
    def first(self) -> Stage:
        """Return the stage of the first buffer, whose axes are those of all."""
        return self.stages[0]


def read_selection(stmt: Stmt, target: Target) -> Selection | None:
    """Read a block that selects one element of a row; None for others."""
    reader = Reader()
    box = reader.box(stmt)
    if box is None:
        return None
    loops, realize = box
    if not isinstance(realize, BlockRealize):
        return None
    block = realize.block
    always = isinstance(realize.predicate, IntImm) and realize.predicate.value == 1
    if block.alloc_buffers or block.match_buffers or block.annotations or not always:
        return None
    axes = reader.axes(loops, realize)
    stores, inits = _stores(block.body), [] if block.init is None else _stores(block.init)
    if axes is None or not axes[1] or not stores or not inits or not 2 <= len(stores) <= _KEPT:
        return None
    same = len(stores) == len(inits) and all(
        store.buffer is init.buffer
        and are_equal(store.indices, init.indices)
        and isinstance(init.value, (IntImm, FloatImm))
        for store, init in zip(stores, inits)
    )
    if not same or any(not are_equal(store.indices, stores[0].indices) for store in stores):
        return None
    body = reader.count_trips(Body(block.name_hint, *axes, stores[0], inits[0], block))
    return _find_choice(body, stores, inits, target)


def _stores(stmt: Stmt) -> list[BufferStore] | None:
    """List the stores of a sequence, with the values of bound variables substituted."""
    table: dict[Var, PrimExpr] = {}
    while isinstance(stmt, LetStmt):
        table[stmt.var] = value = substitute(stmt.value, table)
        stmt = stmt.body
        if sum(map(len, by_class(value).values())) > _MOST:
            return None
    made: list[BufferStore] = []
    written: set[int] = set()
    for part in stmt.seq if isinstance(stmt, SeqStmt) else (stmt,):
        if not isinstance(part, BufferStore) or any(effects(i) for i in part.indices):
            return None
        loads: list[BufferLoad] = by_class(part.value).get(BufferLoad, [])
        if any(id(load.buffer.data) in written for load in loads):
            return None  # it reads what was changed just now
        written.add(id(part.buffer.data))
        made.append(BufferStore(part.buffer, substitute(part.value, table), part.indices))
    return made if len(written) == len(made) else None


def _find_choice(
    body: Body, stores: Sequence[BufferStore], inits: Sequence[BufferStore], target: Target
) -> Selection | None:
    """Find the next element, and the condition on it and on the kept one."""
    old = tuple(Var("old", store.buffer.dtype) for store in stores)
    new = tuple(Var("new", store.buffer.dtype) for store in stores)
    split = [_split(store) for store in stores]
    terms = [part[1] for part in split if part is not None]
    if len(terms) < len(split):
        return None
    known = {id(store.buffer.data): var for store, var in zip(stores, old)}
    pairs = sorted(zip(terms, new), key=lambda p: -_size(p[0]))
    keeps: list[PrimExpr] = []

    def read_kept(load: BufferLoad) -> PrimExpr:
        return known.get(id(load.buffer.data), load)

    for part in split:
        assert part is not None
        keep = part[0]
        for term, var in pairs:
            keep = _replace(keep, term, var)
        keeps.append(rewrite(keep, {BufferLoad: read_kept}))
    if any(not structural_equal(keep, keeps[0]) for keep in keeps):
        return None
    if not _compares(keeps[0], old, new):
        return None
    for term in terms:
        loads: list[BufferLoad] = by_class(term).get(BufferLoad, [])
        if effects(term) & (Effects.FAILS | Effects.ACTS) or any(
            id(p.buffer.data) in known for p in loads
        ):
            return None
    moved = RebasedNest(body)
    stages = [
        Stage(
            body.name,
            moved.axes,
            moved.reduced,
            store.buffer,
            tuple(moved.index(i) for i in store.indices),
            _place(moved, term) if _is_place(term) else moved.value(term),
            init=init.value,
        )
        for store, init, term in zip(stores, inits, terms)
    ]
    if not all(isinstance(i, (Var, IntImm)) for i in stages[0].indices):
        return None
    if {i for i in stages[0].indices if isinstance(i, Var)} < {
        axis.var for axis in moved.axes if axis.size != 1
    }:
        return None
    free = is_order_free(keeps[0], old, new, [init.value for init in inits])
    lanes = max(2, min(target.lanes(max(8, widest(s.value, s.buffer.dtype))) for s in stages))
    return Selection(tuple(stages), old, new, keeps[0], free, lanes)


def _is_place(term: PrimExpr) -> bool:
    return term.dtype == DataType("int64") and BufferLoad not in by_class(term)


def _place(moved: RebasedNest, term: PrimExpr) -> PrimExpr:
    """Lift an index, and compute it without conversions."""
    widen = moved.widener.widen

    def plain(e: Cast) -> PrimExpr:
        return widen(e.value) if e.dtype == term.dtype and e.value.dtype.is_integer else e

    return widen(rewrite(moved.value(term), {Cast: plain}))


def _size(expr: PrimExpr) -> int:
    return sum(map(len, by_class(expr).values()))


def _split(store: BufferStore) -> tuple[PrimExpr, PrimExpr] | None:
    """Split a selection into the condition on which an element is kept, and the next one."""
    value = store.value
    if not isinstance(value, Select) or store.buffer.dtype.lanes != 1:
        return None
    for best, term, keep in (
        (value.true_value, value.false_value, value.condition),
        (value.false_value, value.true_value, Not(value.condition)),
    ):
        if isinstance(best, BufferLoad) and best.buffer is store.buffer:
            return (keep, term) if are_equal(best.indices, store.indices) else None
    return None


def _replace(expr: PrimExpr, term: PrimExpr, var: Var) -> PrimExpr:
    return rewrite(expr, {type(term): lambda e: var if structural_equal(e, term) else e})


def _compares(keep: PrimExpr, old: Sequence[Var], new: Sequence[Var]) -> bool:
    """Whether a condition only compares the kept and the next element, buffer by buffer."""
    pairs = {frozenset((a, b)) for a, b in zip(old, new)}
    for cls, nodes in by_class(keep).items():
        for node in nodes:
            if cls in (And, Or, Not, Var) or (cls is IntImm and node.dtype.is_bool):
                continue
            if cls is Call and _is_nan(node) and node.args[0] in {*old, *new}:
                continue
            if cls not in TESTS:
                return False
            logical = node.a.dtype.is_bool and node.b.dtype.is_bool
            if not logical and frozenset((node.a, node.b)) not in pairs:
                return False
    return all(var in {*old, *new} for var in by_class(keep).get(Var, ()))


def _is_nan(call: Any) -> bool:
    return getattr(call.op, "name", "").rpartition(".")[2] == "isnan"
