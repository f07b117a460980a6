"""``loomir explain``: show how programs are scheduled, and how close to the roof they run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Set
from functools import partial
from types import ModuleType
from typing import Annotated, Any, Final, NamedTuple

import typer

import loomir
from loomir.autoschedule.builders.work import StageWork, count_work
from loomir.autoschedule.driver import ScheduledFunction, schedule_function
from loomir.autoschedule.ir.decision import decisions_from
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.lift.loop_kinds import arrangement_of
from loomir.autoschedule.lift.unlifted_reasons import explain_unlifted
from loomir.autoschedule.outline_group import outline_group
from loomir.autoschedule.prepack_constants import schedule_with_constants
from loomir.check.relax.verify import verify
from loomir.cli.files.sizes import size_of
from loomir.cli.files.source import Program, load_file, pick, programs_of, split_target
from loomir.cli.graphs import graphs_of
from loomir.cli.names import check_names
from loomir.cli.report import Report, fail
from loomir.cli.settings import OptimizeGraph, Sizes, read_settings
from loomir.cli.valid_inputs import make_valid_inputs
from loomir.cli.work.progress import Progress
from loomir.driver import as_module, choose_packing
from loomir.ir.module import IRModule
from loomir.ir.visit import pre_order
from loomir.profiling.roof import find_roof
from loomir.runtime.report.profile import Roof, Work
from loomir.support.diagnostics import CompileError, LoomirError
from loomir.target import Target
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.link_calls import link_calls
from loomir.tir.prepared_function import PreparedFunction
from loomir.tir.stmt import Stmt
from loomir.transform.pipelines import lower_relax, optimize_relax
from loomir.transform.relax.kernels.winograd_conv2d import WinogradConv2DOptions
from loomir.tuning.choices import ChoiceSource
from loomir.tuning.record import label_of

__all__ = ["explain"]

_CALLS: Final = 5  # the fastest counts


class _Measurement(NamedTuple):
    seconds: float
    sizes: Mapping[str, int]


def explain(
    target: Annotated[str, typer.Argument(metavar="FILE.py[:NAME]", help="What to explain.")],
    machine: Annotated[
        str, typer.Option("--target", metavar="CPU", help="The machine to schedule for.")
    ] = "native",
    size: Sizes = None,
    measure: Annotated[
        bool, typer.Option(help="Run it on random inputs, if it is for this machine.")
    ] = True,
    script: Annotated[bool, typer.Option("--script", help="Print the scheduled program.")] = False,
    choices: Annotated[
        bool, typer.Option("--choices", help="List the decisions, each with its candidates.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the random inputs.")] = 0,
    optimize_graph: OptimizeGraph = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Explain how each kernel is scheduled and why, and compare its time with the machine's limit.

    FILE.py is run by Python.
    """
    report = Report(json)
    try:
        path, name = split_target(target)
        settings = read_settings(size)
        file = load_file(path, settings)
        found = pick(programs_of(file), name, path)
        check_names(settings, file, found)
        with Progress(report) as progress:
            for key, program in found.items():
                progress.step(key)
                _Explainer(
                    report, file, key, program, Target(machine), settings, seed, optimize_graph
                ).show(measure=measure, script=script, choices=choices)
    except LoomirError as error:
        fail(error, json)
    report.fact("ok", True)
    report.finish()


@dataclasses.dataclass
class _Explainer:
    """Explains one program of a file."""

    report: Report
    file: ModuleType
    key: str
    program: Program
    target: Target
    settings: Mapping[str, int | float]
    seed: int
    optimize_graph: bool = True
    _source: ChoiceSource | None = None
    """Records decisions, if they are wanted."""

    def show(self, *, measure: bool, script: bool, choices: bool = False) -> None:
        """Print the explanation of each kernel."""
        self._source = ChoiceSource({}, explores=True) if choices else None
        module = link_calls(as_module(self.program))
        mistakes = verify(module)
        if mistakes:
            raise CompileError.of(mistakes)
        with decisions_from(self._source):
            kernels, packed = self._kernels(module)
        here = self.target == Target("native")
        roof = find_roof(loomir.compile) if here and measure else None
        measured = {} if roof is None else self._measure(module)
        self._head(roof, here)
        facts: dict[str, Any] = {}
        for name, func in kernels.items():
            with decisions_from(self._source):
                scheduled = packed.get(func.body) or schedule_function(func, self.target)
            facts[name] = self._kernel(name, scheduled, roof, measured.get(name))
            facts[name] |= self._decisions(label_of(func))
            if script:
                self.report.line("")
                self.report.line(scheduled.func.script())
                facts[name]["script"] = scheduled.func.script()
        self.report.fact(self.key, facts)

    def _kernels(
        self, module: IRModule
    ) -> tuple[dict[str, PrimFunc], dict[Stmt, ScheduledFunction]]:
        """Return the kernels, and the schedules of those with packed constants by their loops."""
        packed: dict[Stmt, ScheduledFunction] = {}

        def prepare(func: PrimFunc, constants: Set[int]) -> PreparedFunction | None:
            scheduled, prepared = schedule_with_constants(func, constants, self.target)
            if prepared is not None:
                packed[scheduled.func.body] = scheduled
            return prepared

        packing = dataclasses.replace(choose_packing(self.target), prepare=prepare)
        winograd = WinogradConv2DOptions(target=self.target, constant=True)
        faster = optimize_relax(module, winograd) if self.optimize_graph else module
        functions = lower_relax(faster, packing).functions
        kernels = {v.name_hint: f for v, f in functions.items() if isinstance(f, PrimFunc)}
        return kernels, packed

    def _head(self, roof: Roof | None, here: bool) -> None:
        t = self.target
        words = (
            f"{self.key}, for {t.cpu}: vectors of {t.vector_bits} bits, {_count(t.cores, 'core')}"
        )
        if roof is not None:
            words += f", {roof.flops / 1e9:.1f} GFLOP/s, {roof.bandwidth / 1e9:.1f} GB/s"
        self.report.line(words, style="bold")
        if not here:
            self.report.line("not measured: this is another machine")

    def _measure(self, module: IRModule) -> dict[str, _Measurement]:
        """Run every function that can be called, and measure the best time of each kernel."""
        best: dict[str, _Measurement] = {}
        exe = loomir.compile(module, optimize_graph=self.optimize_graph)
        names = graphs_of(module) or [
            var.name_hint
            for var, func in module.functions.items()
            if isinstance(func, PrimFunc) and "global_symbol" in func.attrs
        ]
        for name in names:
            arguments = make_valid_inputs(module, name, self.settings, self.seed, self.file)
            for _ in range(_CALLS):
                for call in exe.profile(*arguments, name=name).calls:
                    seconds = (call.end - call.start) / 1e9
                    if call.kernel not in best or seconds < best[call.kernel].seconds:
                        best[call.kernel] = _Measurement(seconds, call.sizes)
        return best

    def _kernel(
        self,
        name: str,
        scheduled: ScheduledFunction,
        roof: Roof | None,
        measured: _Measurement | None,
    ) -> dict[str, Any]:
        """Print the plans of a kernel, then its time."""
        self.report.line("")
        self.report.line(f"{name}:", style="bold")
        numbers = {k: int(v) for k, v in self.settings.items() if abs(v) < 1 << 63}
        sizes = numbers if measured is None else {**numbers, **measured.sizes}
        works = [_work(plan, sizes) for plan in scheduled.plans]
        group_times: list[float | None] = [None] * len(works)
        if measured is not None:
            # If a kernel has only one group, its time is that of the kernel.
            group_times = [measured.seconds] * len(works)
            if len(works) > 1:
                group_times = [
                    self._time_of_group(scheduled, plan, sizes) for plan in scheduled.plans
                ]
        groups = [
            self._group(number, plan, work, roof, seconds, told=len(works) > 1)
            for number, (plan, work, seconds) in enumerate(
                zip(scheduled.plans, works, group_times, strict=True), 1
            )
        ]
        facts: dict[str, Any] = {"groups": groups}
        facts |= self._requests(scheduled) | self._as_written(scheduled)
        least = [
            None if work is None or roof is None else _seconds(roof, plan, work)
            for plan, work in zip(scheduled.plans, works, strict=True)
        ]
        known = [seconds for seconds in least if seconds is not None]
        predicted = sum(known) if known and len(known) == len(least) else None
        if measured is not None:
            facts |= {"seconds": measured.seconds, "sizes": dict(measured.sizes)}
            line = f"  measured: {_time(measured.seconds)}"
            if measured.sizes:
                line += f" with {', '.join(f'{k}={v}' for k, v in measured.sizes.items())}"
            if predicted is not None:
                facts |= {"predicted": predicted, "roof": predicted / measured.seconds}
                line += (
                    f", at best {_time(predicted)}: {predicted / measured.seconds:.1%} of the roof"
                )
            self.report.line(line, style="bold")
        return facts

    def _decisions(self, label: str) -> dict[str, Any]:
        """Print the decisions in a kernel, with their candidates."""
        decisions = None if self._source is None else self._source.made.get(label)
        if decisions is None:
            return {}
        self.report.line(f'  choices={{"{label}": {{...}}}} of loomir.compile decides otherwise:')
        for key, decision in decisions.made.items():
            others = [str(c) for c in decision.candidates if c != decision.chosen]
            text = f"; or {', '.join(others)}" if others else ""
            self.report.line(f"     {key}: {decision.chosen}{text}")
        return {
            "choices": {
                key: {"chosen": decision.chosen, "candidates": list(decision.candidates)}
                for key, decision in decisions.made.items()
            }
        }

    def _time_of_group(
        self, scheduled: ScheduledFunction, plan: Plan, sizes: Mapping[str, int]
    ) -> float | None:
        """Run a group by itself; return its best time, or None if that is not possible."""
        func = outline_group(scheduled, plan)
        if func is None:
            return None
        module = as_module(func)
        try:
            arguments = make_valid_inputs(module, func.name, sizes, self.seed)
        except LoomirError:  # random values may differ too much from results of earlier groups
            return None
        exe = loomir.compile(module)
        calls = [
            call for _ in range(_CALLS) for call in exe.profile(*arguments, name=func.name).calls
        ]
        return min((call.end - call.start for call in calls), default=0) / 1e9 or None

    def _as_written(self, scheduled: ScheduledFunction) -> dict[str, Any]:
        """Print which statements run as written, why, and in which form they could be scheduled."""
        arranged = "" if scheduled.plans else arrangement_of(scheduled.func)
        if arranged:
            self.report.line(f"  runs as written, since somebody arranged it: {arranged}")
            self.report.line(
                "     would be scheduled: the same loops as plain ranges, without tiles"
            )
            return {"arranged": arranged}
        facts: list[dict[str, str]] = []
        for stmt in scheduled.unplanned:
            found = explain_unlifted(stmt)
            facts.append(found._asdict())
            self.report.line(f"  runs as written: {found.what}")
            self.report.line(f"     why: {found.why}")
            self.report.line(f"     would be scheduled: {found.form}")
        if not scheduled.plans and not facts:
            self.report.line("  runs as written: it has no statement that does something")
        return {"as_written": facts} if facts else {}

    def _requests(self, scheduled: ScheduledFunction) -> dict[str, Any]:
        """Print which loops have a kind that the program requests."""
        if not scheduled.requests:
            return {}
        for kept, how in (
            (True, "kept because the program asks"),
            (False, "decided by the rules instead"),
        ):
            loops = [f"{r.kind} on {r.loop}" for r in scheduled.requests if r.kept is kept]
            if loops:
                self.report.line(f"  {how}: {', '.join(loops)}")
        return {"requests": [request._asdict() for request in scheduled.requests]}

    def _group(
        self,
        number: int,
        plan: Plan,
        work: StageWork | None,
        roof: Roof | None,
        seconds: float | None,
        *,
        told: bool,
    ) -> dict[str, Any]:
        """Print a plan with its work and its time, unless the time is printed below."""
        stages = [stage.name for stage in plan.stages]
        names = f": {', '.join(stages)}" if stages else ""
        self.report.line(f"  {number}. {plan.kind}{names}")
        for choice in plan.choices:
            self.report.line(f"     - {choice}")
        facts: dict[str, Any] = {"kind": plan.kind, "stages": stages, "choices": plan.choices}
        if seconds is not None:
            facts["seconds"] = seconds
        if work is None:
            why = "depends on sizes; give them with --size" if plan.stages else "not counted"
            self.report.line(f"     work: {why}")
            return facts
        facts |= work._asdict()
        line = f"     work: {work.flops:,} operations, {work.bytes:,} bytes"
        if roof is not None:
            least = _seconds(roof, plan, work)
            limit = "memory" if least == work.bytes / roof.bandwidth else "arithmetic"
            facts |= {"predicted": least, "limit": limit}
            line += f"; at best {_time(least)}, by {limit}"
            if seconds is not None:
                facts["roof"] = least / seconds
        self.report.line(line)
        if told and seconds is not None:
            share = f": {facts['roof']:.1%} of the roof" if "roof" in facts else ""
            self.report.line(f"     by itself: {_time(seconds)}{share}")
        return facts


def _seconds(roof: Roof, plan: Plan, work: StageWork) -> float:
    """Return the least time of a group; it doubles for elements of double width.

    Vectors have half as many of those; reduction steps that are done at once count as one.
    """
    widest = max((stage.buffer.dtype.bits for stage in plan.stages), default=32)
    operations = work.flops * max(widest, 32) // (32 * plan.at_once)
    return roof.seconds(Work(work.bytes, operations, True))


def _work(plan: Plan, sizes: Mapping[str, int]) -> StageWork | None:
    """Estimate the work of a group, with the given sizes."""
    size = partial(_size, sizes)
    once = count_work(plan.stages, plan.inner, size) if plan.stages else None
    times = [size(extent) for extent in plan.repeats]
    if once is None or any(n is None for n in times):
        return None
    many = math.prod(max(n or 0, 0) for n in times)
    return StageWork(once.flops * many, once.bytes * many)


def _size(sizes: Mapping[str, int], extent: PrimExpr) -> int | None:
    names = {part for part in pre_order(extent) if isinstance(part, Var)}
    return size_of(extent, {v: sizes[v.name_hint] for v in names if v.name_hint in sizes})


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
