"""Compare the default schedule of a program for a machine with the program as it is written.

The interpreter runs both without rounding, on small generated arguments. So neither the machine nor
a tolerance is needed: a sum in another order is equal, and one that loses a term is not. If results
differ, the steps of scheduling are tested one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.trace_steps import Step
from loomir.interp.machine import OutOfStepsError
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.visit import rebuild, remember_classes
from loomir.relax.expr import Function
from loomir.support.argument_errors import explain_arguments
from loomir.support.diagnostics import CompileError
from loomir.target import Target
from loomir.tir.analysis.cost import estimate_cost
from loomir.tir.function import PrimFunc
from loomir.tir.link_calls import link_calls
from loomir.transform.pipelines import lower_relax, optimize_relax
from loomir.transform.relax.kernels.winograd_conv2d import WinogradConv2DOptions
from loomir.validate.arguments import LEVELS, Drawer, DrawnArguments, NotDrawnError
from loomir.validate.comparing import Difference, Outcome, compare_outcomes, outcome_of, size_of
from loomir.validate.report import FunctionReport, ScheduleDifference, ScheduleReport
from loomir.validate.smaller_module import SmallerModule, smaller_ones

__all__ = ["validate_schedule"]

Program: TypeAlias = IRModule | PrimFunc | Function

_MORE: Final = 30
"""How many times as many instructions a schedule may take, since small arrays fill few tiles."""
_STEPS_OF_ONE: Final = 4
"""Approximate instructions for one operation; most are for loops, blocks and iterators."""
_TURNS: Final = 6
"""How often sizes are drawn to find a call that raises nothing."""
_SMALLER: Final = (65, 33, 20, 9, 4, 2, 1)
"""The largest size that is drawn, until calls end in time."""


@explain_arguments
def validate_schedule(
    program: Program,
    target: str | Target | None = None,
    *,
    entry: str | None = None,
    sizes: Mapping[str, int] | None = None,
    arguments: Sequence[Any] | None = None,
    seeds: Iterable[int] = range(3),
    budget: int = 600_000,
) -> ScheduleReport:
    """Compare the default schedule of each function for a target with the function as written.

    ``target`` is any machine, by default this one. Graphs are compared kernel by kernel, as
    compiled before constants are packed. ``entry`` selects one function. ``sizes`` are symbolic
    sizes by name; others are drawn, and so are arguments, for each of ``seeds``; for a loop-level
    ``entry``, ``arguments`` may be given. A call may take ``budget`` instructions of the
    interpreter: smaller sizes are drawn until it does, and constant sizes are replaced by smaller
    ones. The report says what could not be compared.

    Errors: CompileError for an invalid program, RUN0043 for a missing entry.
    """
    machine = Target("native" if target is None else target)
    with remember_classes():
        module = _module_of(program)
        loops = _loops_of(module, machine)
        asked = _Options(dict(sizes or {}), arguments, tuple(seeds), budget)
        names = [v.name_hint for v, f in loops.functions.items() if isinstance(f, PrimFunc)]
        if entry is not None and isinstance(module[entry], PrimFunc):
            names = [entry]
        found: list[FunctionReport] = []
        for name in names:
            func = loops[name]
            assert isinstance(func, PrimFunc)
            found.append(replace(_function(loops, func, name, machine, asked), span=func.span))
    return ScheduleReport(machine.name, tuple(found))


def _module_of(program: Program) -> IRModule:
    if isinstance(program, IRModule):
        return program
    if isinstance(program, Function) and "global_symbol" not in program.attrs:
        attrs = {**program.attrs, "global_symbol": program.name}
        program = rebuild(program, {"attrs": attrs})
    return IRModule({GlobalVar(program.name): program}, span=program.span)


class _Options(NamedTuple):
    sizes: Mapping[str, int]
    arguments: Sequence[Any] | None
    seeds: tuple[int, ...]
    budget: int


def _loops_of(module: IRModule, machine: Target) -> IRModule:
    """Return the kernels of graphs, and the loop-level functions."""
    linked = link_calls(module)
    if any(isinstance(f, Function) for f in linked.functions.values()):
        winograd = WinogradConv2DOptions(target=machine, constant=True)
        linked = link_calls(lower_relax(optimize_relax(linked, winograd)))
    loops = {v: f for v, f in linked.functions.items() if isinstance(f, PrimFunc)}
    return linked.with_functions(loops)


def _function(
    module: IRModule, func: PrimFunc, name: str, machine: Target, asked: _Options
) -> FunctionReport:
    """Compare one function."""
    scheduled = schedule_function(func, machine).func
    if scheduled is func:
        return FunctionReport(name, not_scheduled=True)
    try:
        if asked.arguments is not None:
            given = DrawnArguments({}, tuple(asked.arguments))
            return _Comparison(module, name, scheduled, machine, asked).compare_calls([given])
        return _compare_drawn(module, name, machine, asked)
    except NotDrawnError as error:
        return FunctionReport(name, not_compared=(f"not compared: {error}",))


def _compare_drawn(module: IRModule, name: str, machine: Target, asked: _Options) -> FunctionReport:
    """Compare calls with drawn arguments, of the program or of a smaller one."""
    why = ""
    for one in (SmallerModule(module, ()), *smaller_ones(module, name)):
        func = one.module[name]
        assert isinstance(func, PrimFunc)
        scheduled = schedule_function(func, machine).func
        if scheduled is func:
            why = why or "with smaller sizes it is not scheduled"
            continue
        comparison = _Comparison(one.module, name, scheduled, machine, asked)
        found = comparison.compare_seeds()
        if one.sizes and comparison.raised and found.difference is None:
            why = f"with smaller sizes it raises {comparison.raised}"
            continue
        if found.calls or found.difference is not None:
            notes = found.not_compared
            if one.sizes:
                notes = ("not compared with its own sizes: that takes too long", *notes)
            return FunctionReport(
                name, found.calls, found.elements, found.difference, notes, one.sizes
            )
        why = why or "; ".join(found.not_compared)
    return FunctionReport(name, not_compared=(why,))


class _Comparison:
    """Compares calls of one function as written and as scheduled."""

    def __init__(
        self, module: IRModule, name: str, scheduled: PrimFunc, machine: Target, asked: _Options
    ) -> None:
        self.module, self.name, self.machine, self.asked = module, name, machine, asked
        self.scheduled = _replace_function(module, name, scheduled)
        func = module[name]
        assert isinstance(func, PrimFunc)
        self.func = func
        self.drawer = Drawer(func, module) if asked.arguments is None else None
        self.names = _names(func)
        self.raised = ""
        """The error of every call so far; empty if one raised none."""

    def compare_calls(self, calls: Iterable[DrawnArguments]) -> FunctionReport:
        """Compare calls with these arguments."""
        count = elements = 0
        for drawn in calls:
            try:
                written = self._run_written(drawn)
                found = self._compare(written, drawn)
            except OutOfStepsError:
                return FunctionReport(
                    self.name, count, elements, None, (self._describe_too_long(drawn),)
                )
            if found is not None:
                return FunctionReport(self.name, count, elements, self._find_step(found, drawn, 0))
            count, elements = count + 1, elements + size_of(written)
        return FunctionReport(self.name, count, elements)

    def compare_seeds(self) -> FunctionReport:
        """Compare a call for each seed."""
        count = elements = 0
        notes: dict[str, None] = {}
        raised: list[str] = []
        for seed in self.asked.seeds:
            made = self._call(seed)
            if isinstance(made, str):
                notes[made] = None
                if self.drawer is not None and not self.drawer.sizes(seed, 0, 1, {}):
                    break  # nothing smaller can be drawn
                continue
            drawn, written = made
            try:
                found = self._compare(written, drawn)
            except OutOfStepsError:
                notes[self._describe_too_long(drawn, "its schedule")] = None
                continue
            raised.append(written.code)
            if found is not None:
                blamed = self._find_step(found, drawn, seed)
                return FunctionReport(self.name, count, elements, blamed, tuple(notes))
            count, elements = count + 1, elements + size_of(written)
        self.raised = raised[0] if raised and all(raised) else ""
        if self.raised:
            notes[f"not compared: each call that was made up raises {self.raised}"] = None
            count = elements = 0
        return FunctionReport(self.name, count, elements, None, tuple(notes))

    def _call(self, seed: int) -> tuple[DrawnArguments, Outcome] | str:
        """Draw a call that ends in time, if possible one that raises nothing."""
        assert self.drawer is not None
        told = ""
        raising: tuple[DrawnArguments, Outcome] | None = None
        for most, turn in itertools.product(_SMALLER, range(_TURNS)):
            if raising is not None and turn == 0:
                return raising
            sizes = self.drawer.sizes(seed, turn, most, self.asked.sizes)
            for level in range(LEVELS + 1):
                drawn = self.drawer.draw(sizes, seed, level)
                if self._is_long(drawn):
                    told = told or self._describe_too_long(drawn)
                    break
                try:
                    written = self._run_written(drawn)
                except OutOfStepsError:
                    told = told or self._describe_too_long(drawn)
                    break
                if written.error is None:
                    return drawn, written
                raising = raising or (drawn, written)
            if not sizes:
                break
        return raising or told

    def _is_long(self, drawn: DrawnArguments) -> bool:
        """Tell whether a call will almost certainly take too many steps."""
        try:
            cost = estimate_cost(self.func, drawn.sizes)
        except CompileError:
            return False
        work = cost.flops + cost.int_ops + cost.math_calls
        return _STEPS_OF_ONE * work > self.asked.budget

    def _run_written(self, drawn: DrawnArguments) -> Outcome:
        return outcome_of(self.module, self.name, drawn.arguments, self.asked.budget)

    def _compare(self, written: Outcome, drawn: DrawnArguments) -> Difference | None:
        steps = self.asked.budget * _MORE
        other = outcome_of(self.scheduled, self.name, drawn.arguments, steps)
        return compare_outcomes(self.names, written, other)

    def _describe_too_long(self, drawn: DrawnArguments, what: str = "a call") -> str:
        sizes = ", ".join(f"{name} = {size}" for name, size in drawn.sizes.items())
        return f"not compared{' with ' if sizes else ''}{sizes}: {what} takes too many steps"

    def _find_step(self, found: Difference, drawn: DrawnArguments, seed: int) -> ScheduleDifference:
        """Find the first step after which the function computes something else."""
        steps: list[Step] = []
        schedule_function(self.func, self.machine, on_step=steps.append)
        name = "scheduling"
        written = self._run_written(drawn)
        for step in steps:
            func = self.func
            body = step.body()
            made = PrimFunc(
                func.params, body, func.ret_type, func.buffer_map, func.attrs, span=func.span
            )
            module = _replace_function(self.module, self.name, made)
            try:
                other = outcome_of(module, self.name, drawn.arguments, self.asked.budget * _MORE)
            except (OutOfStepsError, CompileError):
                continue  # this says nothing about results
            first = compare_outcomes(self.names, written, other)
            if first is not None:
                name, found = step.name, first
                break
        return ScheduleDifference(
            name, found.argument, found.place, found.one, found.other, drawn.sizes, seed
        )


def _names(func: PrimFunc) -> list[str]:
    made: list[str] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        made.append(param.name_hint if buffer is None else buffer.name)
    return made


def _replace_function(module: IRModule, name: str, func: PrimFunc) -> IRModule:
    """Replace the function of a name."""
    functions: dict[Any, BaseFunc] = {
        v: func if v.name_hint == name else f for v, f in module.functions.items()
    }
    return module.with_functions(functions)
