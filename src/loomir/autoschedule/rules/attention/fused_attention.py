"""Fused attention: a product, row-wise stages, and a product with their result, block by block.

A block of rows goes through all of these stages while it is in cache, so that the whole matrix
between the products never exists in memory. Within a block, each stage is planned by the rule that
would plan it by itself. Blocks are shared between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from loomir.arith.fold import add, imm64, mul, product, sub
from loomir.autoschedule.builders.evaluate import unravel_index, value_at
from loomir.autoschedule.builders.loops import INDEX, allocate, loop, parallel, scratch
from loomir.autoschedule.builders.operand_access import ceil_div
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.def_use import reads_of
from loomir.autoschedule.rules.attention.masks import Mask, find_mask
from loomir.autoschedule.rules.attention.operand_packing import (
    PackedOperand,
    check_finite,
    convert_rows,
    pack_values,
    round_up,
    transpose_keys,
    vars_of,
)
from loomir.autoschedule.rules.matmul.tile_sizes import WORTH_THREADS
from loomir.ir.equality import are_equal, structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, rewrite
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import IntImm, Max, Min, Mul, PrimExpr, Select, Var, const
from loomir.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt, seq

__all__ = ["plan_attention"]

InnerBuffers: TypeAlias = Callable[[int], "frozenset[Buffer]"]
Rule: TypeAlias = Callable[[Sequence[Stage], InnerBuffers, Target], "tuple[Plan, int] | None"]

_BLOCKS: Final = (64, 48, 32, 24, 16, 8)
"""Rows of a block, the best first: more rows reuse the other operands more, fewer fit the cache."""
_SHARING: Final = 32
"""Rows of a block if no block fits the cache: with fewer, reading keys and values dominates.

8192 keys take 1.25 times as long in blocks of 16 rows (on a Xeon, Emerald Rapids).
"""
_LONG: Final = 1 << 25
"""Bytes between the products from which blocks get the fewest rows, to bound memory."""
_USUAL: Final = 2048
"""Keys that are assumed where their number is dynamic."""
_STRIP: Final = 48
"""Keys of a strip if their number is dynamic, or differs between blocks.

It is a multiple of the columns of the usual tiles.
"""
_SEEN: Final = 64
"""Granularity at which masked keys are skipped, so that the rest fills vectors."""
_MASKED: Final = 128
"""Keys from which skipping masked ones pays."""
_FEWEST: Final = 16
"""Rows below which the products are better planned one by one."""
_LONGEST: Final = 24
"""Stages of a chain at most."""


@dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    """Stages of which each row depends only on the same row of the stages before."""

    stages: tuple[Stage, ...]
    outer: tuple[Axis, ...]
    """Axes of the first product, but for its last: batches, then rows."""
    keys: Axis
    own: tuple[Mapping[Var, int], ...]
    """For each stage, which of its axes are which of those."""
    places: Mapping[Buffer, tuple[int, ...]]
    """For what lives within the chain, the dimensions that those index."""
    second: int
    """The number of the second product."""
    between: int = 2
    """How many numbers a block keeps for each row and key."""
    mask: Mask | None = None


def plan_attention(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target, rules: Sequence[Rule]
) -> tuple[Plan, int] | None:
    """Plan a chain from one product to another; None if the stages do not begin with one.

    ``rules`` plan the stages of a block. Gives how many stages are planned, too.
    """
    chain = _find_chain(stages, inner)
    if chain is None:
        return None
    chain = _reuse_first_product(chain)
    rows = chain.outer[-1].size
    keys = _size(chain.keys, _USUAL)
    room = (target.caches[1] or 8 * target.caches[0]) // 2
    size = chain.between * keys * chain.stages[0].buffer.dtype.itemsize
    # Of any number of keys some rows go through: memory grows with the keys, not with their square.
    fit = [b for b in _BLOCKS if b * size <= room]
    if not fit or fit[0] < _SHARING:
        fit = [_SHARING if _SHARING * size <= _LONG else _BLOCKS[-1]]
    if rows is None:
        block = fit[0]
    elif rows < _BLOCKS[-3]:
        block = min(rows, fit[0])
    else:
        fit = [b for b in fit if b <= rows] or fit
        block = next((b for b in fit if rows % b == 0), fit[0])
    return _Blocks(chain, target, rules, block, inner(len(chain.stages))).plan(), len(chain.stages)


def _size(axis: Axis, usual: int) -> int:
    return usual if axis.size is None else axis.size


# -- recognition -------------------------------------------------------------------------------
def _find_chain(stages: Sequence[Stage], inner: InnerBuffers) -> _Chain | None:
    first = stages[0]
    if not _multiplies(first):
        return None
    wide = [axis for axis in first.axes if axis.size != 1]
    if len(wide) < 2 or any(not isinstance(i, (Var, IntImm)) for i in first.indices):
        return None
    order = {i: place for place, i in enumerate(first.indices) if isinstance(i, Var)}
    wide.sort(key=lambda axis: order[axis.var])
    outer, keys = tuple(wide[:-1]), wide[-1]
    if _size(outer[-1], _FEWEST) < _FEWEST or not _splits(first, outer[-1], keys):
        return None
    places = {first.buffer: tuple(order[axis.var] for axis in outer)}
    own = [{axis.var: k for k, axis in enumerate(outer)}]
    second = 0
    for number, stage in enumerate(stages[1:_LONGEST], 1):
        found = _follows(stage, outer, places, before=None if not second else stages[second])
        if found is None:
            break
        mine, dims = found
        if _multiplies(stage):
            second = number
        own.append(mine)
        if dims is not None:
            places[stage.buffer] = dims
        elif not second:
            return None  # another reader could not tell the rows
    if not second:
        return None
    chain = stages[: len(own)]
    private = inner(len(own))
    if any(stage.buffer not in private for stage in chain[:second]) or _overlap(chain):
        return None
    mask = find_mask(chain, second, outer, keys) if _size(keys, _MASKED) >= _MASKED else None
    return _Chain(tuple(chain), outer, keys, tuple(own), places, second, mask=mask)


def _multiplies(stage: Stage) -> bool:
    combined = stage.combine is Combine.SUM and stage.free_order and stage.init is not None
    floats = stage.buffer.dtype.is_float and stage.buffer.dtype.lanes == 1
    return combined and floats and bool(stage.reduced) and isinstance(stage.value, Mul)


def _splits(first: Stage, rows: Axis, keys: Axis) -> bool:
    """Whether one factor runs over the rows, and the other one over the keys."""
    assert isinstance(first.value, Mul)
    seen = [{rows.var, keys.var} & set(vars_of(part)) for part in (first.value.a, first.value.b)]
    return seen in ([{rows.var}, {keys.var}], [{keys.var}, {rows.var}])


def _loads(stage: Stage) -> list[BufferLoad]:
    values = [stage.value] if stage.init is None else [stage.value, stage.init]
    return [load for value in values for load in by_class(value).get(BufferLoad, ())]


def _follows(
    stage: Stage,
    outer: Sequence[Axis],
    places: Mapping[Buffer, tuple[int, ...]],
    before: Stage | None,
) -> tuple[dict[Var, int], tuple[int, ...] | None] | None:
    """Find the axes of a stage that are the rows, and the dimensions in which it stores them.

    After the second product (``before``) only what uses its elements one by one belongs here.
    """
    if stage.in_place or (stage.reduced and stage.init is None):
        return None
    if before is not None and (stage.reduced or stage.combine is not Combine.NONE):
        return None
    mine: dict[Var, int] = {}
    extents = {axis.var: axis.extent for axis in stage.axes}
    reads = [load for load in _loads(stage) if load.buffer in places]
    for load in reads:
        for k, dim in enumerate(places[load.buffer]):
            var = load.indices[dim]
            if not isinstance(var, Var) or mine.setdefault(var, k) != k:
                return None
            if not structural_equal(extents.get(var, imm64(-1)), outer[k].extent):
                return None
    if len(mine) != len(outer):
        return None
    if before is not None and not any(load.buffer is before.buffer for load in reads):
        return None
    dims = [-1] * len(outer)
    for dim, index in enumerate(stage.indices):
        if isinstance(index, Var) and index in mine:
            dims[mine[index]] = dim
    return mine, None if -1 in dims else tuple(dims)


def _overlap(chain: Sequence[Stage]) -> bool:
    """Whether memory is written twice, or read under another name, or before it is written."""
    written = {stage.buffer.data for stage in chain}
    if len(written) != len(chain):
        return True
    done: set[Buffer] = set()
    for stage in chain:
        for load in _loads(stage):
            if load.buffer.data in written and load.buffer not in done:
                return True
        done.add(stage.buffer)
    return False


def _reuse_first_product(chain: _Chain) -> _Chain:
    """Store row-wise results over the first product, so that twice as many rows fit a cache."""
    first = chain.stages[0].buffer
    readers = [k for k, s in enumerate(chain.stages) if any(p.buffer is first for p in _loads(s))]
    number = readers[-1] if readers else 0
    last = chain.stages[number]
    # Where nothing is combined before it, the last reader belongs to the end of the first product.
    combined = any(s.combine is not Combine.NONE for s in chain.stages[1:number])
    if number >= chain.second or last.combine is not Combine.NONE or last.in_place or not combined:
        return chain
    new, places = last.buffer, chain.places
    alike = first.dtype is new.dtype and are_equal(first.shape, new.shape)
    if not alike or first.strides or new.strides or places[first] != places[new]:
        return chain
    own = [load.indices for load in _loads(last) if load.buffer is first]
    if not all(are_equal(at, last.indices) for at in own):
        return chain

    def load(p: BufferLoad) -> BufferLoad:
        return BufferLoad(first, p.indices) if p.buffer is new else p

    made = list(chain.stages)
    made[number] = replace(last, buffer=first, in_place=True)
    for k in range(number + 1, len(made)):
        init, value = made[k].init, rewrite(made[k].value, {BufferLoad: load})
        init = None if init is None else rewrite(init, {BufferLoad: load})
        made[k] = replace(made[k], value=value, init=init)
    return replace(chain, stages=tuple(made), between=1)


# -- code --------------------------------------------------------------------------------------
class _Blocks:
    def __init__(
        self,
        chain: _Chain,
        target: Target,
        rules: Sequence[Rule],
        block: int,
        inner: AbstractSet[Buffer],
    ) -> None:
        self.chain = chain
        self.target = target
        self.rules = rules
        self.block = block
        self.inner = inner
        self.plans: list[Plan] = []
        self.shared: list[PackedOperand] = []
        self.buffers: list[Buffer] = []
        self.stages = chain.stages
        self.strip = 1
        """Keys that the first product takes at a time, where it does not take them all at once."""
        self.hides: PrimExpr | None = None
        """What holds where hidden keys may be left out; None if no keys are hidden."""
        self.seen: PrimExpr = chain.keys.extent
        """How many keys the block at hand goes over."""

    def plan(self) -> Plan:
        """Emit the loop nest."""
        chain = self.chain
        rows = chain.outer[-1]
        batch = product(axis.extent for axis in chain.outer[:-1])
        before = self._pack_shared()
        size = imm64(self.block)
        whole: PrimExpr = (
            rows.extent // size if rows.size is None else imm64(rows.size // self.block)
        )
        first = mul(whole, size)
        rest = rows.extent - first if rows.size is None else rows.size % self.block
        share = parallel if self._is_worth() else loop
        single = isinstance(whole, IntImm) and whole.value <= 1

        def compute_block(number: PrimExpr) -> Stmt:
            index = number if single else number // whole
            place: PrimExpr = imm64(0) if single else number % whole
            return self._rows(index, mul(place, size), self.block)

        parts = before
        parts.append(share("block", mul(batch, whole), compute_block))
        plans = self.plans[:]
        if isinstance(rest, PrimExpr):
            few = Min(rest, size)  # it is less: so much code less for the products
            last = share("block", batch, lambda b: self._rows(b, first, few))
            parts.append(IfThenElse(imm64(0) < rest, last))
        elif rest:
            parts.append(share("block", batch, lambda b: self._rows(b, first, rest)))
        stmt = allocate(self.buffers, *parts) if self.buffers else seq(parts)
        choices = [f"blocks of {self.block} rows go through {len(chain.stages)} stages in cache"]
        choices += [f"{copy.buffer.name}: {copy.text}" for copy in self.shared]
        if self.hides is not None:
            choices.append("keys that no row of a block sees are left out")
        choices += [f"{plan.kind}: {text}" for plan in plans for text in plan.choices]
        return Plan("attention", stmt, tuple(choices))

    def _is_worth(self) -> bool:
        total = 0
        for stage in (self.chain.stages[0], self.chain.stages[self.chain.second]):
            size = product(axis.extent for axis in (*stage.axes, *stage.reduced))
            if not isinstance(size, IntImm):
                return True
            total += size.value
        return total >= WORTH_THREADS

    def _pack_shared(self) -> list[Stmt]:
        """Pack operands that all blocks read."""
        chain = self.chain
        second = self.stages[chain.second]
        mine = {
            k: axis for axis in second.axes if (k := chain.own[chain.second].get(axis.var, -1)) >= 0
        }
        outer = [mine[k] for k in range(len(chain.outer))]
        strip = _STRIP if chain.mask is not None or chain.keys.size is None else 1
        made: list[Stmt] = []

        def take(number: int, copy: PackedOperand | None) -> bool:
            if copy is None:
                return False
            self.shared.append(copy)
            self.stages = (*self.stages[:number], copy.reader, *self.stages[number + 1 :])
            made.append(self._plan_before_blocks(copy.copy))
            return True

        if take(0, transpose_keys(self.stages[0], chain.outer, chain.keys, self.target, strip)):
            self.strip = strip
            if strip > 1:
                made.append(_zero_padding(self.shared[0].copy, strip))
        take(0, convert_rows(self.stages[0], chain.outer, chain.keys))
        take(chain.second, pack_values(second, outer))
        asked = None
        if chain.mask is not None and self.strip > 1:
            asked = check_finite(self.stages[chain.second], outer)
        if asked is not None:
            stage, holds = asked
            names = {axis.var: chain.outer[k].var for k, axis in mine.items()}
            self.hides = substitute(holds, names)
            made.append(self._plan_before_blocks(stage))
        return made

    def _plan_before_blocks(self, stage: Stage) -> Stmt:
        """Plan a stage that comes before all blocks."""
        self.buffers.append(stage.buffer)
        return self._plan_by_rules([stage], lambda count: frozenset[Buffer]())[0].stmt

    def _count_visible_keys(
        self, at: Sequence[PrimExpr], start: PrimExpr, count: int | PrimExpr
    ) -> PrimExpr:
        """Count the keys that some rows may see; at least one, if there are any keys."""
        chain = self.chain
        assert chain.mask is not None
        assert self.hides is not None
        many = imm64(count) if isinstance(count, int) else count
        last = sub(add(start, many), imm64(1))
        table = {axis.var: place for axis, place in zip(chain.outer, [*at, last], strict=True)}
        most = round_up(Max(substitute(chain.mask.limit, table), imm64(1)), _SEEN)
        whole = chain.keys.extent
        return Select(substitute(self.hides, table), Min(whole, most), whole)

    def _strips(self, first: Stage) -> Stmt:
        """Compute the first product in strips of keys."""
        keys = self.chain.keys.var

        def compute_strip(strip: PrimExpr) -> Stmt:
            near = Var(keys.name_hint, INDEX)
            table = {keys: add(mul(strip, imm64(self.strip)), near)}
            axes = [Axis(near, imm64(self.strip)) if a.var is keys else a for a in first.axes]
            value: PrimExpr = value_at(first.value, table)
            indices = tuple(substitute(i, table) for i in first.indices)
            part = replace(first, axes=tuple(axes), value=value, indices=indices)
            plan, _ = self._plan_by_rules([part], lambda count: frozenset[Buffer]())
            self.plans.append(plan)
            return _make_serial(plan.stmt)

        return loop("strip", ceil_div(self.seen, self.strip), compute_strip)

    def _rows(self, batch: PrimExpr, start: PrimExpr, count: int | PrimExpr) -> Stmt:
        """Run some rows of one batch through all stages."""
        outer = self.chain.outer
        table = unravel_index(batch, outer[:-1])
        # Divisions by symbolic sizes are made once, and not wherever an element is read.
        names = [Var(axis.var.name_hint, INDEX) for axis in outer]
        places = [*(table[axis.var] for axis in outer[:-1]), start]
        lets = [(n, p) for n, p in zip(names, places) if not isinstance(p, (Var, IntImm))]
        at = [n if (n, p) in lets else p for n, p in zip(names, places)]
        start = at.pop()
        if self.hides is not None:
            seen = self.seen = Var("seen", INDEX)
            lets.append((seen, self._count_visible_keys(at, start, count)))
        private: dict[Buffer, Buffer] = {}
        stages = [
            self._block_of(number, at, start, count, private) for number in range(len(self.stages))
        ]
        self.plans = []
        made: list[Stmt] = []
        place = 0
        if self.strip > 1:
            made.append(self._strips(stages[0]))
            place = 1
        while place < len(stages):
            plan, covered = self._plan(stages, place, set(private.values()))
            self.plans.append(plan)
            made.append(_make_serial(plan.stmt))
            place += covered
        used = set[int]().union(*map(reads_of, made))  # under whatever name, as a view has one
        stmt = allocate([b for b in private.values() if id(b.data) in used], *made)
        for name, value in reversed(lets):
            stmt = LetStmt(name, value, stmt)
        return stmt

    def _block_of(
        self,
        number: int,
        batch: Sequence[PrimExpr],
        start: PrimExpr,
        count: int | PrimExpr,
        private: dict[Buffer, Buffer],
    ) -> Stage:
        """Return a stage for some rows; what lives within the chain has memory for only those."""
        stage, mine = self.stages[number], self.chain.own[number]
        last = len(self.chain.outer) - 1
        row = next(axis.var for axis in stage.axes if mine.get(axis.var) == last)
        near = Var(row.name_hint, INDEX)
        table: dict[Var, PrimExpr] = {
            var: add(start, near) if k == last else batch[k] for var, k in mine.items()
        }
        # Stages that name the single element of a dimension alike go over rows together.
        table.update({a.var: imm64(0) for a in stage.axes if a.size == 1 and a.var not in mine})

        def move(load: BufferLoad) -> BufferLoad:
            small = private.get(load.buffer)
            if small is None:
                return load
            return BufferLoad(small, local(self.chain.places[load.buffer], load.indices))

        def local(dims: Sequence[int], indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
            made = list(indices)
            for k, dim in enumerate(dims):
                made[dim] = near if k == last else imm64(0)
            return tuple(made)

        def rebase(expr: PrimExpr) -> PrimExpr:
            made: PrimExpr = value_at(rewrite(expr, {BufferLoad: move}), table)
            return made

        many = imm64(count) if isinstance(count, int) else count
        key = self.chain.mask.keys[number] if self.chain.mask and self.hides is not None else None
        axes = tuple(
            Axis(near, many) if axis.var is row else self._limit_to_seen(axis, key)
            for axis in stage.axes
            if axis.var is row or axis.var not in table
        )
        reduced = tuple(self._limit_to_seen(axis, key) for axis in stage.reduced)
        value = rebase(stage.value)
        init = None if stage.init is None else rebase(stage.init)
        buffer, indices = stage.buffer, tuple(substitute(i, table) for i in stage.indices)
        if buffer in self.inner and buffer in self.chain.places:
            dims = self.chain.places[buffer]
            if buffer not in private:
                shape = list(buffer.shape)
                for k, dim in enumerate(dims):
                    shape[dim] = many if k == last else imm64(1)
                if number == 0 and self.strip > 1:
                    dim = next(k for k, i in enumerate(stage.indices) if i is self.chain.keys.var)
                    shape[dim] = round_up(shape[dim], self.strip)
                private[buffer] = scratch(buffer.name, shape, buffer.dtype)
            small = private[buffer]
            buffer, indices = small, local(dims, indices)
        made = replace(stage, axes=axes, reduced=reduced, value=value, init=init)
        return replace(made, buffer=buffer, indices=indices)

    def _limit_to_seen(self, axis: Axis, key: Var | None) -> Axis:
        return Axis(axis.var, self.seen) if axis.var is key else axis

    def _plan(
        self, stages: Sequence[Stage], place: int, private: AbstractSet[Buffer]
    ) -> tuple[Plan, int]:
        left = stages[place:]
        if place < self.chain.second:
            left = stages[place : self.chain.second]

        def inner(count: int) -> frozenset[Buffer]:
            group = {stage.buffer for stage in stages[place : place + count]}
            others = [*stages[:place], *stages[place + count :]]
            used = {load.buffer for stage in others for load in _loads(stage)}
            return frozenset((private & group) - used - {stage.buffer for stage in others})

        return self._plan_by_rules(left, inner)

    def _plan_by_rules(self, stages: Sequence[Stage], inner: InnerBuffers) -> tuple[Plan, int]:
        answers = (rule(stages, inner, self.target) for rule in self.rules)
        return next(found for found in answers if found is not None)  # the last takes any stage


def _make_serial(stmt: Stmt) -> Stmt:
    """Make all loops serial: blocks are shared between threads already."""

    def serialize_loop(made: For) -> For:
        return replace(made, kind=ForKind.SERIAL) if made.kind is ForKind.PARALLEL else made

    made: Stmt = rewrite(stmt, {For: serialize_loop})
    return made


def _zero_padding(copy: Stage, strip: int) -> Stmt:
    """Zero the padding after the last key, which the last strip computes but nothing uses."""
    size = copy.axes[-1].extent
    room = sub(round_up(size, strip), size)

    def fill(place: tuple[PrimExpr, ...]) -> Stmt:
        if len(place) < len(copy.axes) - 1:
            axis = copy.axes[len(place)]
            return loop(axis.var.name_hint, axis.extent, lambda i: fill((*place, i)))
        zero = const(0, copy.buffer.dtype)
        return loop("room", room, lambda i: BufferStore(copy.buffer, zero, (*place, add(size, i))))

    return fill(())
