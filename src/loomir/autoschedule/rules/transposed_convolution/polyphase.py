"""Polyphase transposed convolution: an ordinary convolution for each phase, then interleaving.

Phases that have the same number of taps are the rows of one product, with a contiguous copy of the
part of the kernel that belongs to each. The image is padded with zeros, which the original formula
does not multiply; so if the kernel contains infinities or NaN, the original loops run instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product as choices
from math import prod
from typing import Final, TypeAlias

from loomir.arith.fold import add, imm64, int64, mul, product, sub
from loomir.autoschedule.builders.evaluate import number, unravel_index
from loomir.autoschedule.builders.loops import INDEX, allocate, loop, scratch, vectorize
from loomir.autoschedule.builders.operand_access import convert, ramp
from loomir.autoschedule.builders.strip_mine import strip_mine
from loomir.autoschedule.builders.thread_partition import parallelize
from loomir.autoschedule.ir.plan import Plan, Prepack
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.def_use import reads_of
from loomir.autoschedule.rules.fallback import plan_general
from loomir.autoschedule.rules.matmul.epilogue import store_element
from loomir.autoschedule.rules.matmul.micro_kernel import broadcast
from loomir.autoschedule.rules.matmul.recognise import Contraction, find_epilogue, has_overlap
from loomir.autoschedule.rules.transposed_convolution.recognise import (
    Line,
    Phases,
    TransposedConvolution,
    phases_of,
    read_transposed_convolution,
)
from loomir.ir.visit import by_class
from loomir.support.diagnostics import InternalError, with_count
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE, call_builtin
from loomir.tir.expr import (
    LE,
    LT,
    And,
    Call,
    Eq,
    IntImm,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Var,
    const,
)
from loomir.tir.stmt import BufferStore, DeclBuffer, IfThenElse, Stmt, seq

__all__ = ["plan_phases"]

Inner: TypeAlias = Callable[[int], "frozenset[Buffer]"]
Rule: TypeAlias = Callable[[Sequence[Stage], Inner, Target], "tuple[Plan, int] | None"]
Rules: TypeAlias = Callable[[Set[Var]], "Sequence[Rule]"]

_MOST: Final = 9
"""Convolutions into which a sum is split: each has code of its own."""
_LANES: Final = 64
"""Lanes of the interleaved phases, at most."""
_INT32: Final = DataType("int32")

_Place = Mapping[Var, PrimExpr]


def plan_phases(
    stages: Sequence[Stage], inner: Inner, target: Target, constants: Set[Var], rules: Rules
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
    moving = independent and not _list_trailing(found)  # vectors and tiles lie along pixels
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


def _list_trailing(found: TransposedConvolution) -> tuple[Axis, ...]:
    """List the axes after the last upsampled one."""
    last = max(found.axes.index(line.axis) for line in found.lines)
    after = found.axes[last + 1 :]
    return after if any(axis.size != 1 for axis in after) else ()


def _names(load: BufferLoad) -> set[Var]:
    return {var for index in load.indices for var in by_class(index).get(Var, ())}


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The results of some phases: ``buffer`` by axes, phases and turns; None if all are zero."""

    phases: tuple[Phases, ...]
    buffer: Buffer | None


@dataclass(slots=True, eq=False)
class _Phases:
    found: TransposedConvolution
    epilogue: tuple[Stage, ...]
    stages: Sequence[Stage]
    inner: frozenset[Buffer]
    target: Target
    constants: Set[Var]
    rules: Rules
    independent: bool
    """Whether each phase is a sum of its own: nothing else is summed up."""
    ahead: list[Prepack] = field(default_factory=list[Prepack])
    notes: list[str] = field(default_factory=list[str])
    bordered: bool = False
    shared: tuple[Buffer, list[int]] | None = None
    """The image with its border for all phases, and where it begins."""

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
            stmt, how = self._together(made)
            done.append(stmt)
            self.notes.append(f"phases are put together in rows: {how}")
        stmt = allocate(buffers, *done) if buffers else seq(done)
        strides = " x ".join(str(line.stride) for line in self.found.lines)
        notes = [f"{strides} phases, as {with_count(count, 'convolution')}", *self.notes]
        if self.bordered and self.found.kernel.load.dtype.is_float:
            stmt = self._check_kernel(stmt)
            notes.append("a kernel with numbers that are not finite meets no border")
        if self.found.view is not None:
            stmt = DeclBuffer(self.found.view, stmt)
        return Plan("transposed convolution", stmt, tuple(notes), ahead=tuple(self.ahead))

    def _share(self, parts: Sequence[Sequence[Phases]], done: list[Stmt]) -> list[Buffer]:
        """Make one image with its border for all phases, where there is one."""
        reach: list[tuple[int, int]] = []
        for line, phases in zip(self.found.lines, parts, strict=True):
            ends = [_reach(line, p) for p in phases if p.taps]
            reach.append(
                (min((e[0] for e in ends), default=0), max((e[1] for e in ends), default=0))
            )
        if self._fits(reach):
            return []
        stage = self._border(reach)
        done += [plan.stmt for plan in self._by_rules([stage], self.constants, [stage.buffer])]
        self.shared = stage.buffer, [low for low, _ in reach]
        return [stage.buffer]

    # -- convolutions ------------------------------------------------------------------------------
    def _layout(self, phases: Sequence[PrimExpr], turns: _Place) -> list[PrimExpr]:
        """Order the axes that index the result of a phase."""
        found, trailing = self.found, _list_trailing(self.found)
        lines = {line.axis.var for line in found.lines}
        before = [axis for axis in found.axes if axis not in trailing]
        if trailing:
            return [
                *(turns[axis.var] for axis in before),
                *phases,
                *(turns[axis.var] for axis in trailing),
            ]
        rest = [turns[axis.var] for axis in before if axis.var not in lines]
        return [*rest, *phases, *(turns[line.axis.var] for line in found.lines)]

    def _result(self, phases: Sequence[Phases]) -> Buffer:
        found = self.found
        sizes: dict[Var, PrimExpr] = {axis.var: axis.extent for axis in found.axes}
        sizes.update({line.axis.var: imm64(line.turns) for line in found.lines})
        shape = self._layout([imm64(p.many) for p in phases], sizes)
        return scratch("phases", shape, found.stage.buffer.dtype)

    def _convolution(self, phases: Sequence[Phases], to: Buffer | None) -> Stmt:
        """Plan the sums of some phases; without a buffer for them, include the epilogue."""
        found = self.found
        own = [
            Axis(Var(f"{line.axis.var.name_hint}_phase", INDEX), imm64(p.many))
            for line, p in zip(found.lines, phases, strict=True)
        ]
        taps = [
            Axis(line.kernel.var, imm64(p.taps))
            for line, p in zip(found.lines, phases, strict=True)
        ]
        reduced = (*found.channels, *taps)
        if self.independent:
            value = self._window_terms(phases, own)
            return self._plan([self._sum(phases, own, reduced, value, to)], ())
        before, image = self._image(phases)
        kernel, copy = self._kernel(phases, own, taps)
        one, other = convert(image, found.image.to), convert(kernel, found.kernel.to)
        value = Mul(other, one) if found.swapped else Mul(one, other)
        made = [*before, self._sum(phases, own, reduced, value, to)]
        if to is None:
            made += self.stages[1:]
        return self._plan(made, (copy,))

    def _sum(
        self,
        phases: Sequence[Phases],
        own: Sequence[Axis],
        reduced: tuple[Axis, ...],
        value: PrimExpr,
        to: Buffer | None,
    ) -> Stage:
        found, stage = self.found, self.found.stage
        if to is None:
            return replace(stage, reduced=reduced, value=value)
        lines = {line.axis.var: line for line in found.lines}
        axes = [
            Axis(axis.var, imm64(lines[axis.var].turns)) if axis.var in lines else axis
            for axis in found.axes
        ]
        at = self._layout([a.var for a in own], {a.var: a.var for a in axes})
        return Stage(
            "phases",
            (*axes, *own),
            reduced,
            to,
            tuple(at),
            value,
            Combine.SUM,
            stage.init,
            block=stage.block,
        )

    def _window_terms(self, phases: Sequence[Phases], own: Sequence[Axis]) -> PrimExpr:
        """Return the terms of phases without a sum over channels: windows of the image."""
        found = self.found
        buffer, low = found.image.load.buffer, [0] * len(found.lines)
        if self.shared is not None:
            buffer, low = self.shared
        image, kernel = list(found.image.load.indices), list(found.kernel.load.indices)
        for i, (line, p) in enumerate(zip(found.lines, phases, strict=True)):
            back = mul(line.kernel.var, imm64(p.back))
            phase = own[i].var if p.many > 1 else imm64(0)
            moved = add(imm64(p.start - low[i]), mul(phase, imm64(p.moves)))
            image[found.dims[i]] = sub(add(line.axis.var, moved), back)
            if found.taps[i] >= 0:
                first = add(imm64(p.kernel), mul(phase, imm64(p.skip)))
                kernel[found.taps[i]] = add(mul(line.kernel.var, imm64(p.step)), first)
        one = convert(BufferLoad(buffer, tuple(image)), found.image.to)
        other = convert(BufferLoad(found.kernel.load.buffer, tuple(kernel)), found.kernel.to)
        return Mul(other, one) if found.swapped else Mul(one, other)

    def _image(self, phases: Sequence[Phases]) -> tuple[list[Stage], PrimExpr]:
        """Return the factor that the sum reads of the image, and the stage that pads it."""
        found = self.found
        load = found.image.load
        reach = [_reach(line, p) for line, p in zip(found.lines, phases, strict=True)]
        fits = self._fits(reach)
        if not fits and all(p.taps == 1 for p in phases):
            # One more column: what is read is an image then, and no matrix of pixels.
            reach[-1] = (reach[-1][0], reach[-1][1] + 1)
        indices = list(load.indices)
        for line, p, dim, (low, _) in zip(found.lines, phases, found.dims, reach, strict=True):
            back = mul(line.kernel.var, imm64(p.back))
            moved = p.start if fits else p.start - low
            indices[dim] = sub(add(line.axis.var, imm64(moved)), back)
        if fits:
            return [], BufferLoad(load.buffer, tuple(indices))
        stage = self._border(reach)
        return [stage], BufferLoad(stage.buffer, tuple(indices))

    def _fits(self, reach: Sequence[tuple[int, int]]) -> bool:
        return all(
            line.low <= low and high <= line.high
            for line, (low, high) in zip(self.found.lines, reach, strict=True)
        )

    def _border(self, reach: Sequence[tuple[int, int]]) -> Stage:
        """Copy a range of the image along each line, with zeros around it."""
        found = self.found
        load = found.image.load
        axes = [Axis(Var(f"d{k}", INDEX), int64(n)) for k, n in enumerate(load.buffer.shape)]
        source: list[PrimExpr] = [axis.var for axis in axes]
        tests: list[PrimExpr] = []
        for line, dim, (low, high) in zip(found.lines, found.dims, reach, strict=True):
            axes[dim] = Axis(axes[dim].var, imm64(high - low))
            source[dim] = place = add(axes[dim].var, imm64(low))
            tests += [LE(imm64(line.low), place)] if low < line.low else []
            tests += [LT(place, imm64(line.high))] if high > line.high else []
        self.bordered = True
        value = BufferLoad(load.buffer, tuple(source))
        zero = const(0, load.dtype)
        return Stage(
            "image",
            tuple(axes),
            (),
            scratch("image", [axis.extent for axis in axes], load.dtype),
            tuple(axis.var for axis in axes),
            Call(load.dtype, IF_THEN_ELSE, (reduce(And, tests), value, zero)),
            block=found.stage.block,
        )

    def _kernel(
        self, phases: Sequence[Phases], own: Sequence[Axis], taps: Sequence[Axis]
    ) -> tuple[PrimExpr, Stage]:
        """Copy the part of the kernel for some phases, in the order in which products read it."""
        found = self.found
        load = found.kernel.load
        channels = {axis.var for axis in found.channels}
        axes = [Axis(Var(f"d{k}", INDEX), int64(n)) for k, n in enumerate(load.buffer.shape)]
        source: list[PrimExpr] = [axis.var for axis in axes]
        phase = [(axis, axis.var) for axis in own if axis.size != 1]
        steps = [(axis, axis.var) for axis in taps if axis.size != 1]
        for r, dim, tap, p in zip(own, found.taps, taps, phases, strict=True):
            if dim < 0:
                continue
            source[dim] = imm64(p.kernel)
            if tap.size != 1:
                source[dim] = add(mul(tap.var, imm64(p.step)), source[dim])
            if r.size != 1:
                source[dim] = add(source[dim], r.var)
        outer: list[tuple[Axis, PrimExpr]] = []
        inner: list[tuple[Axis, PrimExpr]] = []
        for dim, index in enumerate(load.indices):
            if dim not in found.taps:
                sums = channels & set(by_class(index).get(Var, ()))
                (inner if sums else outer).append((axes[dim], index))
        order = [*outer, *phase, *inner, *steps]
        if _list_trailing(found):
            order = [*steps, *inner, *phase, *outer]
        to = scratch("kernel", [axis.extent for axis, _ in order], load.dtype)
        stage = Stage(
            "kernel",
            tuple(axis for axis, _ in order),
            (),
            to,
            tuple(axis.var for axis, _ in order),
            BufferLoad(load.buffer, tuple(source)),
            block=found.stage.block,
        )
        return BufferLoad(to, tuple(index for _, index in order)), stage

    # -- other rules -------------------------------------------------------------------------------
    def _plan(self, stages: Sequence[Stage], copies: Sequence[Stage]) -> Stmt:
        """Plan stages by the other rules; ``copies`` come first, or are prepacked if constant."""
        kept = {id(stage.buffer.data) for stage in self.stages}
        own = [s.buffer for s in (*copies, *stages[:-1]) if id(s.buffer.data) not in kept]
        fixed: list[tuple[Stmt, Buffer]] = []
        made: list[Stmt] = []
        for copy in copies:
            (plan,) = self._by_rules([copy], self.constants, own)
            constant = all(
                load.buffer.data in self.constants
                for load in by_class(copy.value).get(BufferLoad, ())
            )
            if constant:
                fixed.append((plan.stmt, copy.buffer))
            else:
                made.append(plan.stmt)
        for plan in self._by_rules(stages, self.constants | {b.data for _, b in fixed}, own):
            made.append(plan.stmt)
            self.notes += [f"{plan.kind}: {text}" for text in plan.choices]
            for part in plan.ahead:
                of = reads_of(part.stmt)
                first = [(stmt, b) for stmt, b in fixed if id(b.data) in of]
                whole = allocate([b for _, b in first], *(stmt for stmt, _ in first), part.stmt)
                self.ahead.append(Prepack(whole, part.buffers))
        read = set[int]().union(*(reads_of(stmt) for stmt in made))
        self.ahead += [Prepack(stmt, (b,)) for stmt, b in fixed if id(b.data) in read]
        packed = {b for _, b in fixed}
        private = [b for b in own if b not in packed and id(b.data) in read]
        return allocate(private, *made) if private else seq(made)

    def _by_rules(
        self, stages: Sequence[Stage], constants: Set[Var], own: Sequence[Buffer]
    ) -> list[Plan]:
        rules = self.rules(constants)
        mine = self.inner | frozenset(own)
        plans: list[Plan] = []
        place = 0

        def inner(count: int) -> frozenset[Buffer]:
            group = {stage.buffer for stage in stages[place : place + count]}
            others = [*stages[:place], *stages[place + count :]]
            # Nobody else writes these buffers: no two stages of `self.stages` have one memory (see
            # `has_overlap`), and those that are added have memory of their own.
            read = set[int]().union(*(reads_of(stage) for stage in others))
            return frozenset(b for b in mine & group if id(b.data) not in read)

        while place < len(stages):
            asked = (rule(stages[place:], inner, self.target) for rule in rules)
            found = next((answer for answer in asked if answer is not None), None)
            if found is None:
                raise InternalError("no rule takes a stage")
            plans.append(found[0])
            place += found[1]
        return plans

    def _check_kernel(self, stmt: Stmt) -> Stmt:
        """Run the original loops if the kernel contains infinities or NaN.

        The check reads the kernel once, which takes 0.01 of the time of the sums (on a Xeon,
        Emerald Rapids). For a constant kernel it is part of prepacking.
        """
        load = self.found.kernel.load
        axes = tuple(Axis(Var(f"d{k}", INDEX), int64(n)) for k, n in enumerate(load.buffer.shape))
        count = scratch("unbounded", (1,), _INT32)
        size = call_builtin("abs", BufferLoad(load.buffer, tuple(axis.var for axis in axes)))
        finite = LE(size, const(load.dtype.max_finite, load.dtype))
        value = Select(finite, const(0, _INT32), const(1, _INT32))
        zero = const(0, _INT32)
        stage = Stage("unbounded", (), axes, count, (imm64(0),), value, Combine.SUM, zero)
        (plan,) = self._by_rules([stage], self.constants, ())
        slow = [plan_general(self.stages[0], self.target)]
        if len(self.stages) > 1:
            slow += self._by_rules(self.stages[1:], self.constants, ())
        slow_stmts = [plan.stmt for plan in slow]
        choice = IfThenElse(Eq(BufferLoad(count, (imm64(0),)), zero), stmt, seq(slow_stmts))
        if load.buffer.data in self.constants:
            self.ahead.append(Prepack(plan.stmt, (count,)))
            return choice
        return allocate([count], plan.stmt, choice)

    # -- the end -----------------------------------------------------------------------------------
    def _together(self, parts: Sequence[_Part]) -> tuple[Stmt, str]:
        """Interleave the results of all phases, and run the epilogue."""
        found, trailing = self.found, _list_trailing(self.found)
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

            def at_phase(i: int, chosen: list[tuple[Phases, PrimExpr]], place: _Place) -> Stmt:
                if i == len(lines):
                    if last is None:
                        part = known[tuple(p for p, _ in chosen)]
                        return self._run(part, [r for _, r in chosen], turns, place)
                    several = [known[(*(p for p, _ in chosen), p)] for p in kinds[-1]]
                    return row.put(several, [r for _, r in chosen], turns, place)
                line = lines[i]
                made: list[Stmt] = []
                for p in kinds[i]:

                    def one(r: PrimExpr, p: Phases = p) -> Stmt:
                        moved = mul(turns[line.axis.var], imm64(line.stride))
                        here = add(moved, add(r, imm64(p.first - line.lead)))
                        body = at_phase(i + 1, [*chosen, (p, r)], {**place, line.axis.var: here})
                        if not line.lead and line.turns * line.stride == line.axis.size:
                            return body
                        within = And(LE(imm64(0), here), LT(here, line.axis.extent))
                        return IfThenElse(within, body)

                    made.append(one(imm64(0)) if p.many == 1 else loop("phase", p.many, one))
                return seq(made)

            return at_phase(0, [], turns)

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
        found = _list_trailing(self.found)
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
            return self.in_vectors(
                across.extent,
                lambda i: self.finish(
                    {**place, **known, across.var: i},
                    self.load_phase(part, phases, {**turns, **known, across.var: i}),
                ),
            )

        return nest(0, ones)

    def in_vectors(self, size: PrimExpr, body: Callable[[PrimExpr], Stmt]) -> Stmt:
        """Run ``body`` for each element of a row, in vectors."""
        lanes = self.target.lanes(max(8, self.found.stage.buffer.dtype.bits))

        def some(first: PrimExpr, n: int) -> Stmt:
            return body(first) if n == 1 else vectorize("lane", n, lambda x: body(add(first, x)))

        return seq(
            strip_mine(imm64(0), size, list(dict.fromkeys([lanes, max(1, lanes // 4), 1])), some)
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

        def some(first: PrimExpr, n: int) -> Stmt:
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
        mix = strip_mine(imm64(0), imm64(last.turns // most * most), [most], some)
        if last.turns % most:  # some are mixed twice, to the same
            mix.append(some(imm64(last.turns - most), most))
        lead = imm64(last.lead)
        done = owner.in_vectors(
            last.axis.extent,
            lambda i: owner.finish({**place, last.axis.var: i}, BufferLoad(line, (add(lead, i),))),
        )
        return seq([*mix, done])


def _reach(line: Line, phases: Phases) -> tuple[int, int]:
    """Return the range of elements of the image that phases read."""
    starts = phases.start, phases.start + phases.moves * (phases.many - 1)
    return min(starts) - phases.back * (phases.taps - 1), max(starts) + line.turns
