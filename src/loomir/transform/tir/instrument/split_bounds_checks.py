"""Decide bounds checks once, at the entry of a function, so that its loops can be scheduled.

Most indices are provably within bounds for all values of the loop variables, by the ranges of loops
and the conditions around the access. For others, the least and greatest value is known on entry: a
comparison there selects between the loops without checks, and the loops as written, with a check at
each such access. An index that is read from memory is checked at the access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from loomir.arith import Analyzer
from loomir.arith.fold import imm64, int64
from loomir.ir.equality import structural_equal
from loomir.ir.node import Node
from loomir.ir.visit import by_class, children, pre_order, rewrite
from loomir.loops.conditions import conjunction
from loomir.loops.ranges import bind_loops, loop_range
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad, Range
from loomir.tir.builtins.table import CHECKED_INDEX, IF_THEN_ELSE
from loomir.tir.expr import (
    GE,
    LE,
    LT,
    Call,
    IntImm,
    Not,
    PrimExpr,
    StringImm,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
)
from loomir.transform.tir.convert_ssa import convert_ssa
from loomir.transform.tir.instrument.instrument_bound_checkers import BOUNDS_CHECKED

__all__ = ["SplitChecks", "split_bounds_checks"]

_MOST_CONDITIONS: Final = 64
"""Conditions that are tested on entry, at most: each call tests all of them."""
_INT32: Final = DataType("int32")
_LIMIT: Final = 1 << 31
"""Larger scalar arguments use the checked loops, since bounds computed from them might wrap."""

_Key: TypeAlias = tuple[int, int, int]
"""An index: the ``id`` of its buffer, the axis, its own ``id``."""


class SplitChecks(NamedTuple):
    """A function without the checks that are decided on entry, and a way to merge both forms."""

    fast: PrimFunc
    """The function to schedule; it keeps the checks that depend on memory or on loop variables."""
    join: Callable[[PrimFunc], PrimFunc]
    """Merges the scheduled function with the one that has all checks."""


def split_bounds_checks(func: PrimFunc) -> SplitChecks | None:
    """Split the checks of a function; None if two of its buffers may name the same memory."""
    if _has_views(func):
        return None
    plain = _Walk(func, None)
    plain.run()
    if not plain.unproved:
        return SplitChecks(func, _mark)
    walk = _Walk(func, _LIMIT)
    walk.run()
    if not walk.conditions and walk.unproved == plain.unproved:
        return SplitChecks(_with_checks(func, plain.proved), _mark)
    late = walk.late if len(walk.conditions) <= _MOST_CONDITIONS else walk.unproved
    fast = _with_checks(func, (walk.proved | walk.early) - late)
    checked = _with_checks(func, plain.proved)

    def join(scheduled: PrimFunc) -> PrimFunc:
        if scheduled.body is fast.body:  # two copies would gain nothing
            return _mark(checked)
        condition = conjunction((*walk.limits, *walk.conditions))
        body = IfThenElse(condition, scheduled.body, checked.body)
        return _mark(convert_ssa(_with_body(scheduled, body)))

    return SplitChecks(fast, join)


def _mark(func: PrimFunc) -> PrimFunc:
    attrs = {**func.attrs, BOUNDS_CHECKED: True}
    return PrimFunc(func.params, func.body, func.ret_type, func.buffer_map, attrs, span=func.span)


def _with_body(func: PrimFunc, body: Stmt) -> PrimFunc:
    return PrimFunc(func.params, body, func.ret_type, func.buffer_map, func.attrs, span=func.span)


def _has_views(func: PrimFunc) -> bool:
    """Tell whether buffers may share memory, or have less memory than their shapes say."""
    known = {id(b.data) for b in func.buffer_map.values()}
    if len(known) != len(func.buffer_map):
        return True
    allocations: dict[int, Allocate] = {}
    for part in pre_order(func.body):
        if isinstance(part, BufferRealize) or (isinstance(part, Block) and part.match_buffers):
            return True
        if isinstance(part, Block):
            known.update(id(b.data) for b in part.alloc_buffers)
        elif isinstance(part, Allocate):
            allocations[id(part.buffer_var)] = part
        elif isinstance(part, DeclBuffer):
            data = id(part.buffer.data)
            if data in known or not _is_whole(part.buffer, allocations.get(data)):
                return True
            known.add(data)
    used = {id(part.buffer.data) for part in _accesses(func)}
    return not used <= known


def _accesses(func: PrimFunc) -> Iterable[BufferLoad | BufferStore]:
    for part in pre_order(func.body):
        if isinstance(part, (BufferLoad, BufferStore)):
            yield part


def _is_whole(buffer: Buffer, allocation: Allocate | None) -> bool:
    return (
        allocation is not None
        and allocation.dtype is buffer.dtype
        and not buffer.strides
        and buffer.elem_offset is None
        and len(allocation.extents) == len(buffer.shape)
        and all(structural_equal(a, b) for a, b in zip(allocation.extents, buffer.shape))
    )


class _Walk:
    """One walk over a function, outer statements first, with the facts known at each access."""

    def __init__(self, func: PrimFunc, limit: int | None) -> None:
        self.analyzer = Analyzer()
        self.proved: set[_Key] = set()
        self.early: set[_Key] = set()
        """The indices whose bounds are known on entry."""
        self.late: set[_Key] = set()
        self.conditions: list[PrimExpr] = []
        self.limits: list[PrimExpr] = []
        """The assumptions on sizes and scalars: they are below ``limit``."""
        self.loops: list[For] = []
        self.entry: set[int] = set()
        self._know_entry(func, limit)
        self.todo: list[Node | Callable[[], object]] = [func.body]

    @property
    def unproved(self) -> set[_Key]:
        """The indices that loops and conditions do not prove to be in range."""
        return self.early | self.late

    def _know_entry(self, func: PrimFunc, limit: int | None) -> None:
        """Record the facts known on entry: sizes of arrays, and scalars."""
        for buffer in func.buffer_map.values():
            for extent in buffer.shape:
                if isinstance(extent, Var) and id(extent) not in self.entry:
                    self.entry.add(id(extent))
                    most = extent.dtype.max_value if limit is None else limit - 1
                    self.analyzer.assume_size(extent, min(most, extent.dtype.max_value) + 1)
                    if limit is not None and extent.dtype.bits > 32:
                        self.limits.append(LT(int64(extent), imm64(limit)))
        for param in func.params:
            dtype = param.dtype
            if not dtype.is_integer or dtype.lanes != 1 or id(param) in self.entry:
                continue
            self.entry.add(id(param))
            if limit is not None and dtype.bits > 32:
                low = -limit if dtype.is_int else 0
                bounds = Range(IntImm(low, dtype), IntImm(limit - low, dtype))
                self.analyzer.bind(param, bounds)
                wide = int64(param)  # negative for an unsigned number that is too large
                self.limits += [LE(imm64(low), wide), LT(wide, imm64(limit))]

    def run(self) -> None:
        """Walk the function."""
        while self.todo:
            part = self.todo.pop()
            if isinstance(part, Node):
                self._visit(part)
            else:
                part()

    def _visit(self, node: Node) -> None:
        if isinstance(node, For):
            self._walk_scoped(lambda: self._bind_loop(node), [node.body], self.loops.pop)
            self.todo += [node.extent, node.min]
        elif isinstance(node, IfThenElse):
            if node.else_case is not None:
                self._assume(Not(node.condition), node.else_case)
            self._assume(node.condition, node.then_case)
            self.todo.append(node.condition)
        elif isinstance(node, Call) and node.op is IF_THEN_ELSE:
            condition, then, other = node.args
            self._assume(Not(condition), other)
            self._assume(condition, then)
            self.todo.append(condition)
        elif isinstance(node, BlockRealize):
            self._visit_block(node)
        elif isinstance(node, LetStmt):
            self._walk_scoped(lambda: self._bind_name(node), [node.body])
            self.todo.append(node.value)
        elif isinstance(node, BufferLoad):
            self._access(node.buffer, node.indices)
            self.todo += reversed(node.indices)
        elif isinstance(node, BufferStore):
            self._access(node.buffer, node.indices)
            self.todo += [*reversed(node.indices), node.value]
        else:
            self.todo += reversed([part for part in children(node) if _has_accesses(part)])

    def _visit_block(self, node: BlockRealize) -> None:
        block = node.block
        always = _is(node.predicate, 1)
        parts: list[Node] = [block.body]
        if block.init is not None:
            parts.insert(0, block.init)

        def enter() -> None:
            for iterator, value in zip(block.iter_vars, node.values):
                if not self.analyzer.is_bound(iterator.var):
                    self.analyzer.bind(iterator.var, value)
            if not always:
                self.analyzer.enter(node.predicate)

        leave = (lambda: None) if always else self.analyzer.exit
        self._walk_scoped(enter, parts, leave)
        self.todo += [node.predicate, *reversed(node.values)]

    def _walk_scoped(
        self,
        enter: Callable[[], object],
        parts: list[Node],
        leave: Callable[[], object] = lambda: None,
    ) -> None:
        self.todo += [self.analyzer.exit, leave, *reversed(parts), enter, self.analyzer.enter]

    def _assume(self, condition: PrimExpr, part: Node) -> None:
        self._walk_scoped(lambda: self.analyzer.enter(condition), [part], self.analyzer.exit)

    def _bind_loop(self, loop: For) -> None:
        self.loops.append(loop)
        bind_loops(self.analyzer, [loop])

    def _bind_name(self, node: LetStmt) -> None:
        if node.var.dtype.is_integer and node.var.dtype.lanes == 1:
            self.analyzer.know_equal(node.var, node.value)

    # -- one access ----------------------------------------------------------------------------
    def _access(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        for axis, (index, extent) in enumerate(zip(indices, buffer.shape)):
            key = (id(buffer), axis, id(index))
            if key in self.late:
                continue
            missing = self._list_unproved(index, extent)
            if missing is not None and not missing:
                self.proved.add(key)
                continue
            bounds = None if missing is None else self._derive_entry_checks(index, extent, missing)
            if bounds is None:
                self.late.add(key)
            else:
                self.early.add(key)
                self._require(bounds)

    def _list_unproved(self, index: PrimExpr, extent: PrimExpr) -> list[str] | None:
        """List which of the two bounds are not proved; None if nothing is known of the index."""
        if not index.dtype.is_integer or index.dtype.lanes != 1:
            return None
        wide, size = int64(index), int64(extent)
        kinds = by_class(index).keys()
        # Conditions prove nothing about memory, which may change after the test.
        analyzer = Analyzer() if BufferLoad in kinds else self.analyzer
        interval = analyzer.const_int_bound(wide)
        depends = bool(kinds & {BufferLoad, Call})
        missing: list[str] = []
        if interval.min_value < 0 and (depends or not self._holds(GE(wide, imm64(0)))):
            missing.append("low")
        is_below = isinstance(extent, IntImm) and interval.max_value < extent.value
        if not is_below and (depends or not self._holds(LT(wide, size))):
            missing.append("high")
        return None if missing and depends else missing

    def _holds(self, condition: PrimExpr) -> bool:
        return self.analyzer.can_prove(condition)

    def _derive_entry_checks(
        self, index: PrimExpr, extent: PrimExpr, missing: list[str]
    ) -> list[PrimExpr] | None:
        """Return the conditions that must hold on entry; None if unknown, or never true."""
        wide, size = int64(index), int64(extent)
        if not self._is_of_entry(size):
            return None
        low: PrimExpr | None = wide
        high: PrimExpr | None = wide
        for loop in reversed(self.loops):
            ranges = {loop.loop_var: loop_range(loop)}
            low = None if low is None else self.analyzer.int_set(low, ranges).min_value
            high = None if high is None else self.analyzer.int_set(high, ranges).max_value
        found: list[PrimExpr] = []
        if "low" in missing:
            if low is None or not self._is_of_entry(low):
                return None
            found.append(GE(int64(low), imm64(0)))
        if "high" in missing:
            if high is None or not self._is_of_entry(high):
                return None
            found.append(LT(int64(high), size))
        made = [self.analyzer.simplify(part) for part in found]
        return None if any(_is(part, 0) for part in made) else made

    def _is_of_entry(self, expr: PrimExpr) -> bool:
        found = by_class(expr)
        if found.keys() & {BufferLoad, Call}:
            return False
        return all(id(var) in self.entry for var in found.get(Var, ()))

    def _require(self, conditions: list[PrimExpr]) -> None:
        for condition in conditions:
            if _is(condition, 1) or any(structural_equal(condition, c) for c in self.conditions):
                continue
            if len(self.conditions) <= _MOST_CONDITIONS:
                self.conditions.append(condition)


def _is(condition: PrimExpr, value: int) -> bool:
    return isinstance(condition, IntImm) and condition.value == value


def _has_accesses(node: Node) -> bool:
    return isinstance(node, (Stmt, PrimExpr))


def _with_checks(func: PrimFunc, free: set[_Key]) -> PrimFunc:
    """Wrap indices in checks, except those in ``free`` and the indices inside them."""

    def indices(e: BufferLoad | BufferStore) -> tuple[PrimExpr, ...]:
        made: list[PrimExpr] = []
        for axis, (index, extent) in enumerate(zip(e.indices, e.buffer.shape)):
            if (id(e.buffer), axis, id(index)) in free:
                made.append(index)
                continue
            wide = int64(index)
            args = (wide, int64(extent), StringImm(e.buffer.name), IntImm(axis, _INT32))
            made.append(Call(wide.dtype, CHECKED_INDEX, args, span=e.span))
        return tuple(made)

    def load(e: BufferLoad) -> BufferLoad:
        return BufferLoad(e.buffer, indices(e), span=e.span)

    def store(s: BufferStore) -> BufferStore:
        return BufferStore(s.buffer, s.value, indices(s), span=s.span)

    return rewrite(func, {BufferLoad: load, BufferStore: store})
