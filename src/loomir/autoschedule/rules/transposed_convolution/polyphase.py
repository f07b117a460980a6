"""Polyphase transposed convolution: an ordinary convolution for each phase, then interleaving.

Phases that have the same number of taps are the rows of one product, with a contiguous copy of the
part of the kernel that belongs to each. The image is padded with zeros, which the original formula
does not multiply; so if the kernel contains infinities or NaN, the original loops run instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product as choices
from math import prod
from typing import Final

from loomir.arith.fold import add, imm64, mul, product
from loomir.autoschedule.builders.evaluate import number, unravel_index
from loomir.autoschedule.builders.loops import allocate, declare_views, loop, scratch, vectorize
from loomir.autoschedule.builders.operand_access import ramp
from loomir.autoschedule.builders.strip_mine import strip_mine
from loomir.autoschedule.builders.thread_partition import parallelize
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Stage
from loomir.autoschedule.rules.matmul.epilogue import store_element
from loomir.autoschedule.rules.matmul.micro_kernel import broadcast
from loomir.autoschedule.rules.matmul.recognise import Contraction, find_epilogue, has_overlap
from loomir.autoschedule.rules.transposed_convolution.phase_sums import (
    InnerBuffers,
    PhaseSums,
    Rules,
)
from loomir.autoschedule.rules.transposed_convolution.recognise import (
    Line,
    Phases,
    list_trailing,
    phases_of,
    read_transposed_convolution,
)
from loomir.ir.visit import by_class
from loomir.support.diagnostics import with_count
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import (
    LE,
    LT,
    And,
    IntImm,
    PrimExpr,
    Ramp,
    Shuffle,
    Var,
    const,
)
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["plan_phases"]

_MOST: Final = 9
"""Convolutions into which a sum is split: each has code of its own."""
_LANES: Final = 64
"""Lanes of the interleaved phases, at most."""
_INT32: Final = DataType("int32")
_Place = Mapping[Var, PrimExpr]


def plan_phases(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target, constants: Set[Var], rules: Rules
) -> tuple[Plan, int] | None:
    """Plan a transposed convolution and the stages that use its elements; None for others.

    ``rules`` plan the convolutions, given what is constant. Says how many stages are planned.
    """
    found = read_transposed_convolution(stages[0])
    if found is None or has_overlap(stages[:1]):
        return None
    independent = not found.channels and not _names(found.kernel.load) - _names(found.image.load)
    if independent and all(line.stride == 1 for line in found.lines):
        return None  # a window that slides
    if independent and prod(line.stride for line in found.lines) > _MOST:
        independent = False
    moving = independent and not list_trailing(found)  # vectors and tiles lie along pixels
    parts = [phases_of(line, together=not independent, moving=moving) for line in found.lines]
    if prod(map(len, parts)) > _MOST:
        return None
    count, epilogue = 1, tuple[Stage, ...]()
    for last in range(2, len(stages) + 1):
        after = find_epilogue(stages[:last])
        if after is None or has_overlap(stages[:last]):
            break
        count, epilogue = last, after
    taken = inner(count)
    made = _Phases(found, epilogue, stages[:count], taken, target, constants, rules, independent)
    return made.plan(parts), count


def _names(load: BufferLoad) -> set[Var]:
    return {var for index in load.indices for var in by_class(index).get(Var, ())}


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The results of some phases: ``buffer`` by axes, phases and turns; None if all are zero."""

    phases: tuple[Phases, ...]
    buffer: Buffer | None


def _declare(view: Buffer, plan: Plan) -> Plan:
    """Declare a view of an argument where the plan and its prepacking use it."""
    ahead = [part._replace(stmt=declare_views((view,), part.stmt)) for part in plan.ahead]
    return replace(plan, stmt=declare_views((view,), plan.stmt), ahead=tuple(ahead))


@dataclass(slots=True, eq=False)
class _Phases(PhaseSums):
    """The sums of phases, and their interleaving."""

    def plan(self, parts: Sequence[Sequence[Phases]]) -> Plan:
        """Emit the loop nest."""
        made: list[_Part] = []
        done: list[Stmt] = []
        buffers: list[Buffer] = []
        if self.independent:
            buffers += self._share(parts, done)
        plain = not self.found.cut and all(line.stride == 1 for line in self.found.lines)
        for phases in choices(*parts):
            if any(not p.taps for p in phases):
                made.append(_Part(phases, None))
                continue
            to = None if plain else self._result(phases)
            done.append(self._convolution(phases, to))
            made.append(_Part(phases, to))
        count = len(done) - len(buffers)
        buffers += [part.buffer for part in made if part.buffer is not None]
        if not plain:
            stmt, how = self._interleave_phases(made)
            done.append(stmt)
            self.notes.append(f"phases are put together in rows: {how}")
        stmt = allocate(buffers, *done) if buffers else seq(done)
        strides = " x ".join(str(line.stride) for line in self.found.lines)
        notes = [f"{strides} phases, as {with_count(count, 'convolution')}", *self.notes]
        if self.bordered and self.found.kernel.load.dtype.is_float:
            stmt = self._check_kernel(stmt)
            notes.append("a kernel with numbers that are not finite meets no border")
        plan = Plan("transposed convolution", stmt, tuple(notes), ahead=tuple(self.ahead))
        return plan if self.found.view is None else _declare(self.found.view, plan)

    # -- the end -----------------------------------------------------------------------------------
    def _interleave_phases(self, parts: Sequence[_Part]) -> tuple[Stmt, str]:
        """Interleave the results of all phases, and run the epilogue."""
        found, trailing = self.found, list_trailing(self.found)
        lines = found.lines if trailing else found.lines[:-1]
        by_axis = {line.axis.var: line for line in lines}
        last = None if trailing else found.lines[-1]
        outer = [
            Axis(axis.var, imm64(by_axis[axis.var].turns)) if axis.var in by_axis else axis
            for axis in found.axes
            if axis not in trailing and (last is None or axis.var is not last.axis.var)
        ]
        known = {part.phases: part for part in parts}
        kinds = [list(dict.fromkeys(p.phases[i] for p in parts)) for i in range(len(found.lines))]
        row = _Row(self, last, None if last is None else self._line(last))

        def item(number: PrimExpr) -> Stmt:
            turns = unravel_index(number, outer)

            def loop_over_phases(
                i: int, chosen: list[tuple[Phases, PrimExpr]], place: _Place
            ) -> Stmt:
                if i == len(lines):
                    if last is None:
                        part = known[tuple(p for p, _ in chosen)]
                        return self._run(part, [r for _, r in chosen], turns, place)
                    several = [known[(*(p for p, _ in chosen), p)] for p in kinds[-1]]
                    return row.put(several, [r for _, r in chosen], turns, place)
                line = lines[i]
                made: list[Stmt] = []
                for p in kinds[i]:

                    def run_phase(r: PrimExpr, p: Phases = p) -> Stmt:
                        moved = mul(turns[line.axis.var], imm64(line.stride))
                        here = add(moved, add(r, imm64(p.first - line.lead)))
                        body = loop_over_phases(
                            i + 1, [*chosen, (p, r)], {**place, line.axis.var: here}
                        )
                        if not line.lead and line.turns * line.stride == line.axis.size:
                            return body
                        within = And(LE(imm64(0), here), LT(here, line.axis.extent))
                        return IfThenElse(within, body)

                    made.append(
                        run_phase(imm64(0)) if p.many == 1 else loop("phase", p.many, run_phase)
                    )
                return seq(made)

            return loop_over_phases(0, [], turns)

        size = number(product(a.extent for a in trailing)) if last is None else last.axis.size
        each = (size or 1) * prod(line.stride for line in lines) * found.stage.buffer.dtype.itemsize
        private = [] if row.line is None else [row.line]
        return parallelize(
            product(a.extent for a in outer), each * 0.2, "rows", item, private=private
        )

    def _line(self, last: Line) -> Buffer:
        size = last.stride * last.turns
        return scratch("line", (size,), self.found.stage.buffer.dtype)

    def load_phase(
        self, part: _Part, phases: Sequence[PrimExpr], turns: _Place, last: PrimExpr | None = None
    ) -> PrimExpr:
        """Return the result of a phase."""
        if part.buffer is None:
            return const(0, self.found.stage.buffer.dtype)
        table = dict(turns)
        if last is not None:
            table[self.found.lines[-1].axis.var] = last
        return BufferLoad(part.buffer, tuple(self._layout(phases, table)))

    def finish(self, place: _Place, total: PrimExpr) -> Stmt:
        """Store an element, and the results of later stages for it."""
        found = self.found
        value = found.stage.value
        whole = Contraction(
            found.stage, (), (), (), (), value, value, total.dtype, self.epilogue, found.cut
        )
        return store_element(whole, self.inner, dict(place), total)

    def _run(self, part: _Part, phases: Sequence[PrimExpr], turns: _Place, place: _Place) -> Stmt:
        """Finish the elements of one phase along the last axes."""
        found = list_trailing(self.found)
        trailing = [axis for axis in found if axis.size != 1]
        ones: dict[Var, PrimExpr] = {axis.var: imm64(0) for axis in found if axis.size == 1}
        *outer, across = trailing

        def nest(k: int, known: dict[Var, PrimExpr]) -> Stmt:
            if k < len(outer):
                axis = outer[k]
                return loop(
                    axis.var.name_hint,
                    axis.extent,
                    lambda i: nest(k + 1, {**known, axis.var: i}),
                )
            return self.cover_by_vectors(
                across.extent,
                lambda i: self.finish(
                    {**place, **known, across.var: i},
                    self.load_phase(part, phases, {**turns, **known, across.var: i}),
                ),
            )

        return nest(0, ones)

    def cover_by_vectors(self, size: PrimExpr, body: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Run ``body`` for each element of a row, in vectors."""
        lanes = self.target.lanes(max(8, self.found.stage.buffer.dtype.bits))

        def cover_vector(first: PrimExpr, n: int) -> Stmt:
            return body(first) if n == 1 else vectorize("lane", n, lambda x: body(add(first, x)))

        return seq(
            strip_mine(
                imm64(0), size, list(dict.fromkeys([lanes, max(1, lanes // 4), 1])), cover_vector
            )
        )


class _Row:
    """A row of the result whose phases alternate."""

    def __init__(self, owner: _Phases, last: Line | None, line: Buffer | None) -> None:
        self.owner, self.last = owner, last
        self.line = line
        lanes = owner.target.lanes(max(8, owner.found.stage.buffer.dtype.bits))
        self.lanes = lanes

    def put(
        self, parts: Sequence[_Part], phases: Sequence[PrimExpr], turns: _Place, place: _Place
    ) -> Stmt:
        """Interleave the phases of a row in a line, and finish its elements."""
        owner, last, line = self.owner, self.last, self.line
        assert last is not None
        assert line is not None
        stride = last.stride
        kinds = [(part, r) for part in parts for r in range(part.phases[-1].many)]

        def read(turn: PrimExpr) -> list[PrimExpr]:
            return [owner.load_phase(p, [*phases, imm64(r)], turns, turn) for p, r in kinds]

        def put_vector(first: PrimExpr, n: int) -> Stmt:
            start = mul(first, imm64(stride))
            if n == 1:
                return seq(
                    BufferStore(line, value, (add(start, imm64(r)),))
                    for r, value in enumerate(read(first))
                )
            values = [broadcast(value, n) for value in read(ramp(first, n))]
            if stride & (stride - 1):
                return seq(
                    BufferStore(line, value, (Ramp(add(start, imm64(r)), imm64(stride), n),))
                    for r, value in enumerate(values)
                )
            lanes = tuple(IntImm(r * n + i, _INT32) for i in range(n) for r in range(stride))
            mixed = Shuffle(tuple(values), lanes) if stride > 1 else values[0]
            return BufferStore(line, mixed, (ramp(start, n * stride),))

        most = self.lanes if stride & (stride - 1) else max(1, min(self.lanes, _LANES // stride))
        while most > last.turns:
            most //= 2
        mix = strip_mine(imm64(0), imm64(last.turns // most * most), [most], put_vector)
        if last.turns % most:  # some are mixed twice, to the same
            mix.append(put_vector(imm64(last.turns - most), most))
        lead = imm64(last.lead)
        done = owner.cover_by_vectors(
            last.axis.extent,
            lambda i: owner.finish({**place, last.axis.var: i}, BufferLoad(line, (add(lead, i),))),
        )
        return seq([*mix, done])
