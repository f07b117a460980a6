"""Plan the sums of the phases of a transposed convolution: an ordinary convolution for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from loomir.arith.fold import add, imm64, int64, mul, sub
from loomir.autoschedule.builders.loops import INDEX, allocate, scratch
from loomir.autoschedule.builders.operand_access import convert
from loomir.autoschedule.ir.plan import Plan, Prepack
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.def_use import reads_of
from loomir.autoschedule.rules.fallback import plan_general
from loomir.autoschedule.rules.transposed_convolution.recognise import (
    Line,
    Phases,
    TransposedConvolution,
    list_trailing,
)
from loomir.ir.visit import by_class
from loomir.loops.conditions import conjunction
from loomir.support.dtype import DataType
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE, call_builtin
from loomir.tir.expr import (
    LE,
    LT,
    Call,
    Eq,
    Mul,
    PrimExpr,
    Select,
    Var,
    const,
)
from loomir.tir.stmt import IfThenElse, Stmt, seq

__all__ = ["InnerBuffers", "PhaseSums", "Rules"]

InnerBuffers: TypeAlias = Callable[[int], "frozenset[Buffer]"]
Rule: TypeAlias = Callable[[Sequence[Stage], InnerBuffers, Target], "tuple[Plan, int] | None"]
Rules: TypeAlias = Callable[[Set[Var]], "Sequence[Rule]"]

_INT32: Final = DataType("int32")

_Place = Mapping[Var, PrimExpr]


@dataclass(slots=True, eq=False)
class PhaseSums:
    """The sums of phases, with the copies of image and kernel that they read."""

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
        done += [plan.stmt for plan in self._plan_by_rules([stage], self.constants, [stage.buffer])]
        self.shared = stage.buffer, [low for low, _ in reach]
        return [stage.buffer]

    # -- convolutions ------------------------------------------------------------------------------
    def _layout(self, phases: Sequence[PrimExpr], turns: _Place) -> list[PrimExpr]:
        """Order the axes that index the result of a phase."""
        found, trailing = self.found, list_trailing(self.found)
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
            Call(load.dtype, IF_THEN_ELSE, (conjunction(tests), value, zero)),
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
        if list_trailing(found):
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
            (plan,) = self._plan_by_rules([copy], self.constants, own)
            constant = all(
                load.buffer.data in self.constants
                for load in by_class(copy.value).get(BufferLoad, ())
            )
            if constant:
                fixed.append((plan.stmt, copy.buffer))
            else:
                made.append(plan.stmt)
        for plan in self._plan_by_rules(stages, self.constants | {b.data for _, b in fixed}, own):
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

    def _plan_by_rules(
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
            answers = (rule(stages[place:], inner, self.target) for rule in rules)
            # The last rule takes any stage.
            plan, count = next(answer for answer in answers if answer is not None)
            plans.append(plan)
            place += count
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
        (plan,) = self._plan_by_rules([stage], self.constants, ())
        slow = [plan_general(self.stages[0], self.target)]
        if len(self.stages) > 1:
            slow += self._plan_by_rules(self.stages[1:], self.constants, ())
        slow_stmts = [plan.stmt for plan in slow]
        choice = IfThenElse(Eq(BufferLoad(count, (imm64(0),)), zero), stmt, seq(slow_stmts))
        if load.buffer.data in self.constants:
            self.ahead.append(Prepack(plan.stmt, (count,)))
            return choice
        return allocate([count], plan.stmt, choice)


def _reach(line: Line, phases: Phases) -> tuple[int, int]:
    """Return the range of elements of the image that phases read."""
    starts = phases.start, phases.start + phases.moves * (phases.many - 1)
    return min(starts) - phases.back * (phases.taps - 1), max(starts) + line.turns
