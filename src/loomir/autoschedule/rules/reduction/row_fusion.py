"""Row fusion: run each row through several stages while it is in cache.

Softmax and normalisations are such groups: they reduce a row, and use the result for each of its
elements. Stages can be fused if a row of each depends only on the same row of the others. Threads
share the rows, and a buffer between stages shrinks to one row, or to one element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from loomir.arith.fold import imm64, int64, product
from loomir.autoschedule.builders.evaluate import number, storage_order, time_of, unravel_index
from loomir.autoschedule.builders.loops import INDEX, loop, scratch
from loomir.autoschedule.builders.thread_partition import is_long, is_worth, parallelize
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.def_use import reads_of
from loomir.autoschedule.rules.elementwise.elementwise import bytes_of, is_heavy
from loomir.autoschedule.rules.reduction.memory_streams import LoadOptions, choose_load_options
from loomir.autoschedule.rules.reduction.outer_vectorization import RowVectors, vectorize_rows
from loomir.autoschedule.rules.reduction.row_sweep import Place, Walk, run_pass, run_start, width_of
from loomir.autoschedule.rules.reduction.short_rows import is_pairwise, is_short_beside_rows
from loomir.ir.equality import are_equal, structural_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, rewrite
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Min, PrimExpr, Var
from loomir.tir.stmt import Stmt, seq

__all__ = ["FEW", "lies_inside", "plan_rows"]

FEW: Final = 16
"""Rows up to which each long row is shared between threads."""
_MOST: Final = 64
"""Stages of a group."""
_FEW_ELEMENTS: Final = 64
"""Elements of a buffer that is kept in registers or on the stack, at most."""
_STEPS: Final = 4096
"""Elements of a row that are assumed where its extent is dynamic."""
_LEAST_FETCHED: Final = 2048
"""Bytes that a pass loads and stores from which the next row is prefetched."""

Inner = Callable[[int], AbstractSet[Buffer]]


def plan_rows(stages: Sequence[Stage], inner: Inner, target: Target) -> tuple[Plan, int] | None:
    """Plan the first stages that share rows, with their number; None if there are none."""
    group = _Group.collect(stages)
    if group is None:
        return None
    for stage in stages[len(group.stages) : _MOST]:
        if not group.try_add(stage):
            break
    if len(group.stages) == 1 and not _is_profitable_by_itself(group.stages[0], target):
        return None
    if not any(_has_vectors(stage, group.inside(stage)) for stage in group.stages):
        return None
    each = sum(_time(stage, group.inside(stage)) for stage in group.stages)
    count = number(product(axis.extent for axis in group.rows))
    known = all(axis.size is not None for s in group.stages for axis in group.inside(s))
    splits = count is not None and count < FEW and is_long(each) and is_worth(count * each)
    if splits or not (group.rows or known):  # threads share the row, stage by stage
        return plan_rows(stages[:1], inner, target) if len(group.stages) > 1 else None
    return group.plan(inner(len(group.stages)), each, target), len(group.stages)


def _wide(axes: Sequence[Axis]) -> list[Axis]:
    return [axis for axis in axes if axis.size != 1]


def _is_empty(stage: Stage) -> bool:
    return any(axis.size == 0 for axis in (*stage.axes, *stage.reduced))


def _is_profitable_by_itself(stage: Stage, target: Target) -> bool:
    """Whether a single reduction gains: its terms may be reassociated, and so vectorised."""
    if not stage.free_order or is_short_beside_rows(stage, target) or is_pairwise(stage, target):
        return False
    axes = tuple(_wide(stage.reduced))
    return width_of([Walk(stage, {}, axes)], axes[-1].size, target)[1] > 1


def _has_vectors(stage: Stage, inside: Sequence[Axis]) -> bool:
    """Whether elements of a row are vectorised.

    Ordered sums are not: neighbouring rows are vectorised then, by other rules, which takes 0.2 of
    the time for a convolution that starts from a bias.
    """
    return bool(inside) and (stage.free_order or not stage.reduced)


def _time(stage: Stage, inside: Sequence[Axis]) -> float:
    steps = 1
    for axis in inside:
        steps *= _STEPS if axis.size is None else axis.size
    return time_of(stage.value, stage.buffer.dtype) * max(1, steps)


def lies_inside(stage: Stage) -> bool:
    """Whether loads are contiguous along the innermost reduced axis."""
    axes = _wide(stage.reduced)
    if not axes:
        return False
    loads: list[BufferLoad] = by_class(stage.value).get(BufferLoad, [])
    along = 0
    for load in loads:
        places = [k for k, i in enumerate(load.indices) if _uses(i, axes[-1].var)]
        if places == [len(load.indices) - 1]:
            along += 1
        elif places:
            return False
    return along > 0 or not loads


def _uses(expr: PrimExpr, var: Var) -> bool:
    return any(v is var for v in by_class(expr).get(Var, ()))


class _Group:
    """Stages that depend on no other row than their own."""

    def __init__(self, rows: Sequence[Axis]) -> None:
        self.rows = tuple(rows)
        self.stages: list[Stage] = []
        self.written: dict[int, tuple[Buffer, dict[int, int]]] = {}
        """For memory that is written, which of its dimensions are which axes of the rows."""

    @classmethod
    def collect(cls, stages: Sequence[Stage]) -> _Group | None:
        """Collect the stages up to the first reduction; None if they share no rows."""
        place = 0
        while place < len(stages) and stages[place].combine is Combine.NONE:
            place += 1
        if place == len(stages) or place >= _MOST:
            return None
        first = stages[place]
        if not lies_inside(first) or any(_is_empty(stage) for stage in stages[: place + 1]):
            return None
        group = cls(_wide(storage_order(first)))
        for k, stage in enumerate(stages[: place + 1]):
            needed = k == place or any(
                id(stage.buffer.data) in reads_of(later) for later in stages[k + 1 : place + 1]
            )
            if not needed or not group.try_add(stage, follows=False):
                return None
        return group

    def row_of(self, stage: Stage) -> list[Axis] | None:
        """Return the axes of a stage that correspond to the rows."""
        axes = _wide(storage_order(stage))[: len(self.rows)]
        if len(axes) < len(self.rows):
            return None
        same = all(structural_equal(a.extent, b.extent) for a, b in zip(axes, self.rows))
        return axes if same else None

    def inside(self, stage: Stage) -> tuple[Axis, ...]:
        """Return the axes of a stage inside of a row."""
        if stage.reduced:
            return tuple(_wide(stage.reduced))
        return tuple(_wide(storage_order(stage))[len(self.rows) :])

    def try_add(self, stage: Stage, *, follows: bool = True) -> bool:
        """Add a stage, if it works on the same rows."""
        rows = self.row_of(stage)
        if rows is None or _is_empty(stage):
            return False
        fits = len(_wide(stage.axes)) == len(self.rows) and lies_inside(stage)
        if stage.combine is not Combine.NONE and not fits:
            return False
        if follows and not self._is_near(stage):
            return False
        names = [axis.var for axis in rows]
        dims = _dims(stage.indices, names)
        data = id(stage.buffer.data)
        written = dict(self.written)
        if data not in written:
            written[data] = (stage.buffer, dims)
            if len(dims) != len(self.rows):
                return False
            for other in self.stages:  # what was read before must be of the same row
                other_rows = self.row_of(other)
                assert other_rows is not None
                if not _reads_own_rows(other, [axis.var for axis in other_rows], written):
                    return False
        elif written[data][0] is not stage.buffer or written[data][1] != dims:
            return False
        if not _reads_own_rows(stage, names, written):
            return False
        self.stages.append(stage)
        self.written = written
        return True

    def _is_near(self, stage: Stage) -> bool:
        """Whether a stage reads memory that the group reads or writes."""
        around = set[int]().union(*(reads_of(s) | {id(s.buffer.data)} for s in self.stages))
        return bool(around & reads_of(stage))

    # -- code ----------------------------------------------------------------------------------
    def plan(self, inner: AbstractSet[Buffer], each: float, target: Target) -> Plan:
        """Emit the loop over the rows."""
        stages, lent = self._reuse_result(_eliminate_common(self.stages, inner), inner)
        passes = self._passes(stages)
        together = self._vectorize_ordered(passes, target)
        if together:
            return self._plan_in_blocks(passes, together, lent, inner, each, target)
        small = self._contract(stages, inner)
        private = [buffer for buffer, _ in small.values()]
        made = [[_use_contracted(stage, small) for stage in stages_of] for stages_of in passes]

        def row(index: PrimExpr) -> Stmt:
            table = unravel_index(index, self.rows)
            where = [table[axis.var] for axis in self.rows]
            return seq(
                self._pass(stages_of, where, target, readings.get(k, LoadOptions()))
                for k, stages_of in enumerate(made)
            )

        fetching, ahead = self._fetches(passes, target)
        inside = product(axis.extent for axis in self.inside(passes[0][0]))
        elements = number(product(axis.extent for axis in self.rows) * inside)
        first = choose_load_options(passes[0], elements, target, only=len(passes) == 1)
        readings = {fetching: LoadOptions(ahead)} if ahead else {0: first}
        count = product(axis.extent for axis in self.rows)
        stmt, how = parallelize(count, each, "rows", row, private=private)
        names = ", ".join(axis.var.name_hint for axis in self.rows) or "nothing"
        choices = [f"rows over {names}: {len(passes)} passes over each of them", how]
        choices += [self._pass_text(stages_of, target) for stages_of in passes]
        if ahead:
            choices.append(f"the next row is fetched into the caches in pass {fetching + 1}")
        choices += [] if ahead else first.texts()
        if private:
            between = ", ".join(buffer.name for buffer in private)
            choices.append(f"{between}: kept for one row, never written to memory as a whole")
        choices += [f"{a.name}: in the place of {b.name} until that is known" for a, b in lent]
        return Plan("rows", stmt, tuple(choices))

    def _vectorize_ordered(
        self, passes: Sequence[Sequence[Stage]], target: Target
    ) -> dict[Stage, RowVectors]:
        """Choose how ordered sums are vectorised over several rows, if all of them can be."""
        made: dict[Stage, RowVectors] = {}
        for stage in (p[0] for p in passes if p[0].reduced and not p[0].free_order):
            rows = self.row_of(stage)
            found = vectorize_rows(stage, rows, target) if rows else None
            if found is None:
                return {}
            made[stage] = found
        return made if len({found.rows for found in made.values()}) == 1 else {}

    def _plan_in_blocks(
        self,
        passes: Sequence[Sequence[Stage]],
        together: Mapping[Stage, RowVectors],
        lent: Sequence[tuple[Buffer, Buffer]],
        inner: AbstractSet[Buffer],
        each: float,
        target: Target,
    ) -> Plan:
        """Emit the loop over blocks of rows, each of which completes a pass before the next one."""
        slot = Var("slot", INDEX)
        size = next(iter(together.values())).rows
        small = self._contract([stage for p in passes for stage in p], inner, size)
        count = product(axis.extent for axis in self.rows)

        def place(stage: Stage, row: PrimExpr, first: PrimExpr) -> Place:
            table = unravel_index(row, self.rows)
            walk = self._walk(stage, [table[axis.var] for axis in self.rows])
            return {**walk.place, slot: row - first}

        def run_block(p: Sequence[Stage], first: PrimExpr) -> Stmt:
            moved = [_use_contracted(stage, small, slot) for stage in p]
            if p[0] in together:
                found = vectorize_rows(moved[0], self.row_of(p[0]) or (), target, slot)
                assert found is not None
                return found.tile(first, count, lambda row: place(p[0], row, first))

            def row(r: PrimExpr) -> Stmt:
                walks = [
                    Walk(new, place(stage, first + r, first), self.inside(stage))
                    for stage, new in zip(p, moved)
                ]
                return run_pass(walks, target)

            return loop("row", Min(imm64(size), count - first), row)

        def block(t: PrimExpr) -> Stmt:
            first = t * imm64(size)
            return seq(run_block(p, first) for p in passes)

        private = [buffer for buffer, _ in small.values()]
        blocks = (count + imm64(size - 1)) // imm64(size)
        stmt, how = parallelize(blocks, each * size, "blocks of rows", block, private=private)
        names = ", ".join(axis.var.name_hint for axis in self.rows)
        choices = [f"blocks of {size} rows over {names}: {len(passes)} passes over each", how]
        choices += [
            f"{p[0].name}: {together[p[0]].text}"
            if p[0] in together
            else self._pass_text(p, target)
            for p in passes
        ]
        choices += [f"{a.name}: in the place of {b.name} until that is known" for a, b in lent]
        return Plan("rows", stmt, tuple(choices))

    def _walk(self, stage: Stage, where: Sequence[PrimExpr]) -> Walk:
        rows = self.row_of(stage)
        assert rows is not None
        table = {axis.var: i for axis, i in zip(rows, where)}
        units = [axis.var for axis in (*stage.axes, *stage.reduced) if axis.size == 1]
        return Walk(stage, {**dict.fromkeys(units, imm64(0)), **table}, self.inside(stage))

    def _pass(
        self,
        stages: Sequence[Stage],
        where: Sequence[PrimExpr],
        target: Target,
        reading: LoadOptions,
    ) -> Stmt:
        return run_pass([self._walk(stage, where) for stage in stages], target, reading=reading)

    def _fetches(self, passes: Sequence[Sequence[Stage]], target: Target) -> tuple[int, int]:
        """Return the pass that prefetches the next row, and the distance to that in elements.

        A pass that computes math functions leaves memory idle, and hardware prefetches only within
        a page: softmax of 1024 columns takes 0.65 of the time. Other passes are bound by memory as
        it is: with prefetches, norms of 768 columns take 1.3 of the time (on a Xeon).
        """
        sizes = [number(product(axis.extent for axis in self.inside(p[0]))) for p in passes]
        length = max((size or 0 for size in sizes), default=0)
        heavy = [k for k, p in enumerate(passes) if any(is_heavy(stage.value) for stage in p)]
        whole = [k for k, size in enumerate(sizes) if size == length]
        chosen = next((k for k in heavy if k in whole), None)
        if chosen is None or len(whole) == 1 or not self.rows:
            return 0, 0
        moved = sum(bytes_of(stage) for stage in passes[chosen]) * length
        return chosen, length if _LEAST_FETCHED <= moved <= target.caches[1] // 4 else 0

    def _pass_text(self, stages: Sequence[Stage], target: Target) -> str:
        names = ", ".join(stage.name for stage in stages)
        walks = [self._walk(stage, [axis.var for axis in self.rows]) for stage in stages]
        if not walks[0].axes:
            return f"{names}: one element"
        length = number(product(axis.extent for axis in walks[0].axes[run_start(walks) :]))
        width, lanes = width_of(walks, length, target)
        if width == 1:
            return f"{names}: in order, element by element"
        vectors = "one vector" if width == lanes else f"{width // lanes} vectors"
        return f"{names}: {width} elements at once, in {vectors} of {lanes}"

    def _passes(self, stages: Sequence[Stage]) -> list[list[Stage]]:
        """Fuse stages over the same elements, unless one needs the complete result of another."""
        made: list[list[Stage]] = []
        for stage in stages:
            if made and self._joins(made[-1], stage):
                made[-1].append(stage)
            else:
                made.append([stage])
        return made

    def _joins(self, before: Sequence[Stage], stage: Stage) -> bool:
        axes = self.inside(stage)
        for other in before:
            others = self.inside(other)
            if len(axes) != len(others) or not all(
                structural_equal(a.extent, b.extent) for a, b in zip(axes, others)
            ):
                return False
            if (not stage.free_order and stage.reduced) or (not other.free_order and other.reduced):
                return False
            if not self._is_elementwise(other, stage) or not self._is_elementwise(stage, other):
                return False
        return True

    def _is_elementwise(self, writer: Stage, reader: Stage) -> bool:
        """Whether a stage reads only the current element of what another writes."""
        data = writer.buffer.data
        if reader.buffer.data is data and (writer.reduced or reader.reduced):
            return False
        values = [reader.value] if reader.init is None else [reader.value, reader.init]
        loads = [
            p for v in values for p in by_class(v).get(BufferLoad, ()) if p.buffer.data is data
        ]
        table = self._rename_axes(reader, writer)
        if reader.buffer.data is data:
            stored = tuple(substitute(i, table) for i in reader.indices)
            if not are_equal(stored, writer.indices):
                return False
        if not loads:
            return True
        if writer.reduced:
            return False
        places = (tuple(substitute(i, table) for i in p.indices) for p in loads)
        return all(are_equal(place, writer.indices) for place in places)

    def _rename_axes(self, stage: Stage, like: Stage) -> dict[Var, PrimExpr]:
        """Map the axes of a stage to those of another."""
        mine, others = self.row_of(stage), self.row_of(like)
        assert mine is not None
        assert others is not None
        pairs = zip((*mine, *self.inside(stage)), (*others, *self.inside(like)))
        table: dict[Var, PrimExpr] = {a.var: b.var for a, b in pairs}
        return table

    def _reuse_result(
        self, stages: list[Stage], inner: AbstractSet[Buffer]
    ) -> tuple[list[Stage], list[tuple[Buffer, Buffer]]]:
        """Store intermediate rows in the buffer of the result that is computed from them.

        A scratch row would take cache, and the result's memory is fetched during arithmetic:
        softmax of 1024 columns is 1.7 times as fast (on a Xeon, Emerald Rapids).
        """
        made: list[tuple[Buffer, Buffer]] = []
        for buffer in dict.fromkeys(stage.buffer for stage in stages if stage.buffer in inner):
            writers = [stage for stage in stages if stage.buffer.data is buffer.data]
            reads = [k for k, s in enumerate(stages) if _loads(s, buffer)]
            if len(writers) > 1 or not reads or not self._makes_rows(writers[0]):
                continue
            last = stages[reads[-1]]
            if not self._may_replace(writers[0], last, stages[: reads[-1] + 1]):
                continue
            made.append((buffer, last.buffer))
            moved = [_replace_buffer(stage, buffer, last.buffer) for stage in stages]
            moved[reads[-1]] = replace(moved[reads[-1]], in_place=True)
            stages = moved
        return stages, made

    def _makes_rows(self, stage: Stage) -> bool:
        size = number(product(axis.extent for axis in self.inside(stage)))
        whole = stage.combine is Combine.NONE and not stage.in_place
        return whole and (size is None or size > _FEW_ELEMENTS)

    def _may_replace(self, first: Stage, last: Stage, until: Sequence[Stage]) -> bool:
        """Whether the elements of the last stage may be stored where those of the first were."""
        kept, final = first.buffer, last.buffer
        if last.combine is not Combine.NONE or last.in_place or kept.dtype is not final.dtype:
            return False
        used = any(
            _loads(stage, final) or (stage.buffer.data is final.data and stage is not last)
            for stage in until
        )
        if used or not are_equal(kept.shape, final.shape) or not self._is_elementwise(first, last):
            return False
        axes, others = self.inside(first), self.inside(last)
        if len(axes) != len(others):
            return False
        if not all(structural_equal(a.extent, b.extent) for a, b in zip(axes, others)):
            return False
        table = self._rename_axes(last, first)
        return are_equal(tuple(substitute(i, table) for i in last.indices), first.indices)

    def _contract(
        self, stages: Sequence[Stage], inner: AbstractSet[Buffer], rows: int = 1
    ) -> dict[Buffer, tuple[Buffer, tuple[int, ...]]]:
        """Contract buffers that nothing else reads to some rows; return the dimensions kept."""
        made: dict[Buffer, tuple[Buffer, tuple[int, ...]]] = {}
        for buffer in dict.fromkeys(stage.buffer for stage in stages):
            if buffer not in inner or buffer.strides:
                continue
            dims = self.written[id(buffer.data)][1]
            kept = tuple(k for k in range(len(buffer.shape)) if k not in dims)
            shape = [int64(buffer.shape[k]) for k in kept] or [imm64(1)]
            shape = [imm64(rows), *shape] if rows > 1 else shape
            size = number(product(shape))
            scope = "local" if size is not None and size <= _FEW_ELEMENTS else "global"
            made[buffer] = (scratch(buffer.name, shape, buffer.dtype, scope), kept)
        return made


def _dims(indices: Sequence[PrimExpr], rows: Sequence[Var]) -> dict[int, int]:
    """Map dimensions to the axes of the rows that index them."""
    return {k: r for k, i in enumerate(indices) for r, var in enumerate(rows) if i is var}


def _reads_own_rows(
    stage: Stage, rows: Sequence[Var], written: dict[int, tuple[Buffer, dict[int, int]]]
) -> bool:
    values = [stage.value] if stage.init is None else [stage.value, stage.init]
    for load in (p for v in values for p in by_class(v).get(BufferLoad, ())):
        found = written.get(id(load.buffer.data))
        if found is None:
            continue
        buffer, dims = found
        if load.buffer is not buffer:
            return False
        if any(load.indices[k] is not rows[r] for k, r in dims.items()):
            return False
    return True


def _use_contracted(
    stage: Stage, small: dict[Buffer, tuple[Buffer, tuple[int, ...]]], slot: Var | None = None
) -> Stage:
    """Rewrite a stage to use contracted buffers, for one row or for several at ``slot``."""

    def indices_of(indices: Sequence[PrimExpr], kept: Sequence[int]) -> tuple[PrimExpr, ...]:
        made = tuple(indices[k] for k in kept) or (imm64(0),)
        return made if slot is None else (slot, *made)

    def load(p: BufferLoad) -> PrimExpr:
        found = small.get(p.buffer)
        return p if found is None else BufferLoad(found[0], indices_of(p.indices, found[1]))

    value = rewrite(stage.value, {BufferLoad: load})
    init = None if stage.init is None else rewrite(stage.init, {BufferLoad: load})
    found = small.get(stage.buffer)
    if found is None:
        return replace(stage, value=value, init=init)
    axes = tuple(storage_order(stage))  # below, indices do not say which of the rows comes first
    indices = indices_of(stage.indices, found[1])
    return replace(stage, axes=axes, value=value, init=init, buffer=found[0], indices=indices)


def _loads(stage: Stage, buffer: Buffer) -> bool:
    """Whether a stage reads the previous contents of a buffer."""
    if stage.combine is Combine.NONE:
        loads: list[BufferLoad] = by_class(stage.value).get(BufferLoad, [])
        return any(p.buffer.data is buffer.data for p in loads)
    return id(buffer.data) in reads_of(stage)


def _replace_buffer(stage: Stage, old: Buffer, new: Buffer) -> Stage:
    def load(p: BufferLoad) -> PrimExpr:
        return BufferLoad(new, p.indices) if p.buffer is old else p

    value = rewrite(stage.value, {BufferLoad: load})
    init = None if stage.init is None else rewrite(stage.init, {BufferLoad: load})
    return replace(
        stage, value=value, init=init, buffer=new if stage.buffer is old else stage.buffer
    )


def _eliminate_common(stages: Sequence[Stage], inner: AbstractSet[Buffer]) -> list[Stage]:
    """Eliminate common stages: those that compute what an earlier one has computed."""
    kept: list[Stage] = []
    same: dict[Buffer, Buffer] = {}

    def load(p: BufferLoad) -> PrimExpr:
        return BufferLoad(same.get(p.buffer, p.buffer), p.indices)

    times: dict[Buffer, int] = {}
    for stage in stages:
        times[stage.buffer] = times.get(stage.buffer, 0) + 1
    for written in stages:
        stage = written
        if same:
            value = rewrite(stage.value, {BufferLoad: load})
            init = None if stage.init is None else rewrite(stage.init, {BufferLoad: load})
            stage = replace(stage, value=value, init=init)
        twin = None
        if stage.buffer in inner and times[stage.buffer] == 1:
            twin = next(
                (
                    k
                    for k in kept
                    if times[k.buffer] == 1 and k.buffer in inner and _twins(k, stage)
                ),
                None,
            )
        if twin is None or _changes(kept[kept.index(twin) :], stage):
            kept.append(stage)
        else:
            same[stage.buffer] = twin.buffer
    return kept


def _changes(between: Sequence[Stage], stage: Stage) -> bool:
    """Whether what a stage reads is overwritten in between."""
    reads = reads_of(stage)
    return any(id(other.buffer.data) in reads for other in between)


def _twins(a: Stage, b: Stage) -> bool:
    if a.combine is not b.combine or (a.init is None) != (b.init is None):
        return False
    if (a.combine is not Combine.NONE and a.init is None) or a.in_place or b.in_place:
        return False
    if a.free_order != b.free_order or a.buffer.dtype is not b.buffer.dtype:
        return False
    if not are_equal(a.buffer.shape, b.buffer.shape):
        return False
    pairs = [*zip(a.axes, b.axes), *zip(a.reduced, b.reduced)]
    if len(a.axes) != len(b.axes) or len(a.reduced) != len(b.reduced):
        return False
    if not all(structural_equal(x.extent, y.extent) for x, y in pairs):
        return False
    table: dict[Var, PrimExpr] = {y.var: x.var for x, y in pairs}
    if not are_equal(a.indices, tuple(substitute(i, table) for i in b.indices)):
        return False
    starts = [i for i in (a.init, b.init) if i is not None]
    if starts and not structural_equal(starts[0], substitute(starts[-1], table)):
        return False
    return structural_equal(a.value, substitute(b.value, table))
