"""Lift one loop nest to a stage.

A nest can be lifted if it is a rectangular box of serial loops around one block, or around one
store that writes each element once or combines terms into it. Any other nest stays a statement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.arith.bounds.expression_bounds import Bounds
from loomir.arith.bounds.interval import Interval
from loomir.arith.bounds.widen import Widener
from loomir.arith.fold import fold_expr, fold_node
from loomir.autoschedule.builders.loops import INDEX
from loomir.autoschedule.builders.reduction_ops import COMPARISONS, identity
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.lift.choices import as_choice, split_choice
from loomir.autoschedule.lift.if_conversion import convert_to_select, merge_branches
from loomir.autoschedule.rewrite.drop_clamps import drop_clamps
from loomir.ir.equality import are_equal, structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import Rule, by_class, pre_order, rewrite
from loomir.loops.nests import split_nest
from loomir.tir.analysis.effects import Effects, effects
from loomir.tir.buffer import Buffer, BufferLoad, IterVarType
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Eq,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    PrimExpr,
    Sub,
    Var,
    const,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)

__all__ = ["Body", "Loop", "Reader", "RebasedNest", "is_number", "nest_of"]

_COMBINES: Final[dict[type, Combine]] = {
    Add: Combine.SUM,
    Mul: Combine.PROD,
    Max: Combine.MAX,
    Min: Combine.MIN,
    And: Combine.AND,
    Or: Combine.OR,
}
_LAST: Final = {Combine.MAX: Combine.LAST_MAX, Combine.MIN: Combine.LAST_MIN}
"""The combiners of loops in order whose new term is the first operand, before the accumulator."""
_STOPS: Final = Effects.ACTS | Effects.FAILS
_TESTS: Final = (Eq, NE, LT, LE, GT, GE)


def is_number(expr: PrimExpr, value: int) -> bool:
    """Tell whether an expression is this number."""
    return isinstance(expr, IntImm) and expr.value == value


class Loop(NamedTuple):
    """A loop of a nest, or an iterator of its block."""

    var: Var
    start: PrimExpr
    extent: PrimExpr


class Body(NamedTuple):
    """What a nest stores, by the variables of its loops."""

    name: str
    axes: tuple[Loop, ...]
    reduced: tuple[Loop, ...]
    store: BufferStore
    init: BufferStore | None
    block: Block | None
    guard: PrimExpr | None = None
    """Says which terms join."""


def nest_of(stmt: Stmt) -> tuple[list[Loop], Stmt]:
    """Return the serial loops of a nest and the body of the innermost one."""
    loops, body = split_nest(stmt)
    return [Loop(loop.loop_var, loop.min, loop.extent) for loop in loops], body


def _read_store(stmt: Stmt) -> BufferStore | None:
    """Split a statement into its store, and the names that are bound before it."""
    lets: list[LetStmt] = []
    while isinstance(stmt, LetStmt):
        lets.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, BufferStore):
        return None
    named = {let.var for let in lets}
    if any(isinstance(p, Var) and p in named for i in stmt.indices for p in pre_order(i)):
        return None
    value = stmt.value
    for let in reversed(lets):
        value = Let(let.var, let.value, value, span=let.span)
    return stmt if not lets else BufferStore(stmt.buffer, value, stmt.indices, span=stmt.span)


class Reader:
    """Reads nests one by one; ``func`` tells what is known of its sizes."""

    def __init__(self, func: PrimFunc | None = None) -> None:
        self.analyzer = Analyzer()
        for buffer in () if func is None else func.buffer_map.values():
            for dim in buffer.shape:
                if isinstance(dim, Var):
                    self.analyzer.assume_size(dim)
                elif not isinstance(dim, IntImm):
                    self.analyzer.enter(dim >= 0)

    def read(self, stmt: Stmt, *, may_fail: bool = False) -> Stage | None:
        """Lift a nest; None if it has another form, or if it may fail although it must not."""
        box = self.box(stmt)
        if box is None:
            return None
        loops, inner = box
        body = self._block(loops, inner) if isinstance(inner, BlockRealize) else None
        if body is None and not isinstance(inner, BlockRealize):
            body = _read_without_block(loops, inner)
        return None if body is None else self._stage(self.count_trips(body), may_fail=may_fail)

    def count_trips(self, body: Body) -> Body:
        """Return loops that may end before they begin no iterations.

        Rules divide extents, and what is left of a negative one would be iterations.
        """

        def count_loops(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
            return tuple([x._replace(extent=self.trip_count(x.extent)) for x in loops])

        return body._replace(axes=count_loops(body.axes), reduced=count_loops(body.reduced))

    def trip_count(self, extent: PrimExpr) -> PrimExpr:
        """Return how often a loop of some extent runs: never where that is negative."""
        known = isinstance(extent, IntImm) and extent.value >= 0
        if known or self.analyzer.can_prove(extent >= 0):
            return extent
        return fold_node(Max(extent, const(0, extent.dtype)))

    def box(self, stmt: Stmt) -> tuple[list[Loop], Stmt] | None:
        """Read the loops of a nest, and what is in them; None if they are no box."""
        loops, inner = nest_of(stmt)
        rectangular = {loop.var for loop in loops}
        for loop in loops:
            for edge in (loop.start, loop.extent):
                if effects(edge) or any(p in rectangular for p in by_class(edge).get(Var, ())):
                    return None
        return loops, inner

    def _block(self, loops: list[Loop], realize: BlockRealize) -> Body | None:
        block = realize.block
        if block.alloc_buffers or block.match_buffers or block.annotations:
            return None
        guard, inner = _strip_guard(block.body)
        store = _read_store(inner)
        init = None if block.init is None else _read_store(block.init)
        if not is_number(realize.predicate, 1) or store is None or (init is None and block.init):
            return None
        axes = self.axes(loops, realize)
        if axes is None:
            return None
        return Body(block.name_hint, *axes, store, init, block, guard)

    def axes(
        self, loops: list[Loop], realize: BlockRealize
    ) -> tuple[tuple[Loop, ...], tuple[Loop, ...]] | None:
        """Read the iterators of a block, and those that reduce, as loops over them."""
        block = realize.block
        left = {loop.var: loop for loop in loops}
        axes: list[Loop] = []
        reduced: list[Loop] = []
        for it, value in zip(block.iter_vars, realize.values):
            extent = it.dom.extent if it.dom is not None else None
            starts = it.dom is None or is_number(it.dom.min, 0)
            loop = left.pop(value, None) if isinstance(value, Var) else None
            if loop is None and isinstance(value, IntImm):
                loop = Loop(it.var, value, IntImm(1, it.var.dtype))  # an axis of one value
            elif loop is None or not is_number(loop.start, 0) or not starts:
                return None
            if extent is not None and not self._is_same(extent, loop.extent):
                return None
            made = Loop(it.var, loop.start, loop.extent)
            if it.iter_type is IterVarType.DATA_PAR:
                axes.append(made)
            elif it.iter_type is IterVarType.COMM_REDUCE:
                reduced.append(made)
            else:
                return None
        if any(not is_number(loop.extent, 1) for loop in left.values()):
            return None  # the block repeats
        if {loop.var for loop in loops} & set(by_class(block).get(Var, ())):
            return None  # it uses a loop and not an iterator that stands for it
        return tuple(axes), tuple(reduced)

    def _is_same(self, a: PrimExpr, b: PrimExpr) -> bool:
        return structural_equal(a, b) or self.analyzer.can_prove_equal(a, b)

    def _stage(self, body: Body, *, may_fail: bool) -> Stage | None:
        split = _split_update(body)
        if split is None:
            return None
        combine, term, in_place = split
        store, init = body.store, body.init
        if body.guard is not None:
            nothing = _neutral_term(body, combine)
            if nothing is None or _loads(body.guard, store.buffer):
                return None
            term = Call(term.dtype, IF_THEN_ELSE, (body.guard, term, nothing))
        parts = [term, *store.indices]
        if init is not None:
            if init.buffer is not store.buffer or not are_equal(init.indices, store.indices):
                return None
            if combine is Combine.NONE or _loads(init.value, store.buffer):
                return None
            if _mentions(init.value, body.reduced):
                return None
            parts.append(init.value)
        stops = Effects.ACTS if may_fail else _STOPS
        if effects(term) & stops:  # what divides by a product of numbers cannot fail
            term = parts[0] = fold_expr(term)
            if not _is_invariant_along_last(term, store.indices):
                return None
        if any(effects(part) & stops for part in parts):
            return None
        moved = RebasedNest(body)
        indices = tuple(moved.index(i) for i in store.indices)
        if not _is_injective(indices, moved.axes, moved.reduced):
            return None
        value = moved.value(term)
        if body.guard is not None and isinstance(value, Call):
            value = convert_to_select(value, (*moved.axes, *moved.reduced))
        value = drop_clamps(value, (*moved.axes, *moved.reduced))
        return Stage(
            body.name,
            moved.axes,
            moved.reduced,
            store.buffer,
            indices,
            value,
            combine,
            None if init is None else moved.value(init.value),
            # Integers wrap.
            not store.buffer.dtype.is_float
            or (body.block is not None and combine not in COMPARISONS),
            in_place,
            body.block,
        )


def _neutral_term(body: Body, combine: Combine) -> PrimExpr | None:
    """Return the term that leaves an element as it is (the identity), if there is one."""
    if body.block is not None:
        start = None if body.init is None else body.init.value
        return start if start is not None and _is_neutral(start, combine) else None
    dtype = body.store.buffer.dtype
    known = combine in (Combine.SUM, Combine.PROD) or dtype.is_integer
    # An infinity never replaces an element, and T.max and T.min keep an element that is NaN.
    known = known or (dtype.is_float and combine not in (Combine.AND, Combine.OR))
    if combine is Combine.NONE or not known or dtype.lanes != 1:
        return None
    return identity(combine, dtype)


def _is_neutral(start: PrimExpr, combine: Combine) -> bool:
    """Whether a term of this value leaves an element with this initial value as it is."""
    if not isinstance(start, (IntImm, FloatImm)):
        return False
    dtype, value = start.dtype, start.value
    if combine is Combine.SUM:
        return value == 0 and math.copysign(1, value) > 0
    if combine is Combine.PROD:
        return value == 1
    low, high = -math.inf, math.inf
    if dtype.is_integer:
        low, high = dtype.min_value, dtype.max_value
    if combine in (Combine.MAX, Combine.LAST_MAX):
        return value == low
    return combine in (Combine.MIN, Combine.LAST_MIN) and value == high


def _read_without_block(loops: list[Loop], inner: Stmt) -> Body | None:
    """Lift loops without a block: one store, or an initial store and loops that combine terms."""
    if isinstance(inner, SeqStmt) and len(inner.seq) == 2:
        init = _read_store(inner.seq[0])
        more, last = nest_of(inner.seq[1])
        guard, last = _strip_guard(last)
        store = _read_store(last)
        if init is None or store is None or not more:
            return None
        if _mentions_any(store.indices, more):
            return None
        for loop in more:
            for edge in (loop.start, loop.extent):
                if effects(edge) or _mentions(edge, (*loops, *more)):
                    return None
        return Body(store.buffer.name, tuple(loops), tuple(more), store, init, None, guard)
    guard, inner = _strip_guard(inner)
    store = _read_store(inner)
    if store is None:
        return None
    used = {p for i in store.indices for p in by_class(i).get(Var, ())}
    axes = tuple(loop for loop in loops if loop.var in used)
    reduced = tuple(loop for loop in loops if loop.var not in used)
    return Body(store.buffer.name, axes, reduced, store, None, None, guard)


def _strip_guard(stmt: Stmt) -> tuple[PrimExpr | None, Stmt]:
    """Take a condition off a statement."""
    stmt = merge_branches(as_choice(stmt))
    if isinstance(stmt, IfThenElse) and stmt.else_case is None:
        return stmt.condition, merge_branches(as_choice(stmt.then_case))
    return None, stmt


def _split_update(body: Body) -> tuple[Combine, PrimExpr, bool] | None:
    """Split a stored value into the previous element and the term that is combined with it."""
    store = body.store
    chosen = split_choice(store) if body.reduced or body.init is not None else None
    if chosen is not None:
        return (*chosen, False)
    value = store.value
    lets: list[Let] = []
    while isinstance(value, Let):
        lets.append(value)
        value = value.body
    if isinstance(value, Sub) and body.block is None:
        value = _negate_subtrahend(value)
    combine = _COMBINES.get(type(value))
    if combine is not None and (body.reduced or body.init is not None):
        assert isinstance(value, (Add, Mul, Max, Min, And, Or))
        for acc, term in ((value.a, value.b), (value.b, value.a)):
            if not isinstance(acc, BufferLoad) or acc.buffer is not store.buffer:
                continue
            if not are_equal(acc.indices, store.indices):
                return None
            made = term
            for let in reversed(lets):
                made = Let(let.var, let.value, made, span=let.span)
            if acc is value.b and value.dtype.is_float and body.block is None:
                combine = _LAST.get(combine, combine)
            return None if _loads(made, store.buffer) else (combine, made, False)
    loads: list[BufferLoad] = by_class(store.value).get(BufferLoad, [])
    own = [load for load in loads if load.buffer is store.buffer]
    if body.reduced or body.init is not None:
        return None
    if any(not are_equal(load.indices, store.indices) for load in own):
        return None
    return Combine.NONE, store.value, bool(own)


def _negate_subtrahend(value: Sub) -> PrimExpr:
    """Turn a subtraction into an addition of the negated term, which has the same result."""
    dtype, term = value.dtype, value.b
    if not (dtype.is_float or dtype.is_int) or dtype.lanes != 1:
        return value
    minus = const(-1, dtype)
    if isinstance(term, Mul):
        return Add(value.a, Mul(Mul(term.a, minus), term.b))
    return Add(value.a, Mul(term, minus))


def _loads(value: PrimExpr, buffer: Buffer) -> bool:
    loads: list[BufferLoad] = by_class(value).get(BufferLoad, [])
    return any(load.buffer.data is buffer.data for load in loads)


def _mentions(expr: PrimExpr, loops: tuple[Loop, ...]) -> bool:
    names = {loop.var for loop in loops}
    return any(v in names for v in by_class(expr).get(Var, ()))


def _mentions_any(exprs: tuple[PrimExpr, ...], loops: list[Loop]) -> bool:
    return any(_mentions(e, tuple(loops)) for e in exprs)


class RebasedNest:
    """Expressions of a nest by new int64 axes that start at 0."""

    def __init__(self, body: Body) -> None:
        bounds = Bounds()
        self.table: dict[Var, PrimExpr] = {}
        self.widener = Widener(bounds)
        self.axes = tuple(self._axis(loop, bounds) for loop in body.axes)
        self.reduced = tuple(self._axis(loop, bounds) for loop in body.reduced)

    def _axis(self, loop: Loop, bounds: Bounds) -> Axis:
        var = Var(loop.var.name_hint, INDEX)
        high = bounds.of(loop.extent).high
        bounds.set(var, Interval(0, max(0, high - 1)))
        narrow = var if loop.var.dtype is INDEX else Cast(var, loop.var.dtype)
        self.table[loop.var] = narrow if is_number(loop.start, 0) else narrow + loop.start
        return Axis(var, self.widener.widen(loop.extent))

    def index(self, expr: PrimExpr) -> PrimExpr:
        """Move an index."""
        made = substitute(expr, self.table)
        return self.widener.widen(rewrite(made, self._rules()))

    def value(self, expr: PrimExpr) -> PrimExpr:
        """Move a value, and the indices in it."""
        return rewrite(substitute(expr, self.table), self._rules())

    def _rules(self) -> dict[type, Rule]:
        return {
            BufferLoad: self._load,
            FloorDiv: self._digit,
            FloorMod: self._digit,
            **dict.fromkeys(_TESTS, self.widener.test),
        }

    def _digit(self, e: FloorDiv | FloorMod) -> PrimExpr:
        """Divide an index in int64, so that rules recognise which digit of an axis it is."""
        if not e.dtype.is_integer or e.dtype.bits == 64 or e.dtype.lanes != 1:
            return e
        if by_class(e).keys() & {BufferLoad, Call, Let}:
            return e
        wide = self.widener.widen(e)
        return Cast(wide, e.dtype) if isinstance(wide, (FloorDiv, FloorMod)) else e

    def _load(self, load: BufferLoad) -> BufferLoad:
        made = tuple(self.widener.widen(i) for i in load.indices)
        if all(a is b for a, b in zip(made, load.indices)):
            return load
        return BufferLoad(load.buffer, made, span=load.span)


def _is_injective(
    indices: tuple[PrimExpr, ...], axes: tuple[Axis, ...], reduced: tuple[Axis, ...]
) -> bool:
    """Whether different values of the axes name different elements (the map is injective)."""
    left = {axis.var: axis for axis in axes}
    for written in indices:
        index = written
        if isinstance(written, Add) and isinstance(written.b, IntImm):
            index = written.a
        if isinstance(index, IntImm):
            continue
        if not isinstance(index, Var):
            return False
        if left.pop(index, None) is None and any(a.var is index for a in (*axes, *reduced)):
            return False
    return all(axis.size == 1 for axis in left.values())


def _is_invariant_along_last(value: PrimExpr, indices: Sequence[PrimExpr]) -> bool:
    """Whether a value with divisions divides no index of the last axis, and is contiguous along it.

    Other divisions stay loops as written: their vectors must be gathered, and resizing images with
    channels first took up to 4 times as long. With channels last, vectors take half of the time (on
    a Xeon, Emerald Rapids).
    """
    last = indices[-1] if indices else None
    if not isinstance(last, Var):
        return False
    found = by_class(value)
    divided = [node for cls in (Div, Mod, FloorDiv, FloorMod) for node in found.get(cls, ())]
    elsewhere = [i for load in found.get(BufferLoad, ()) for i in load.indices[:-1]]
    ends = [load.indices[-1] for load in found.get(BufferLoad, ()) if load.indices]
    others = [*divided, *elsewhere, *(end for end in ends if end is not last)]
    return not any(last in by_class(other).get(Var, ()) for other in others)
