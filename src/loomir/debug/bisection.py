"""Bisect a compilation: run the program after each pass, until a result differs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from loomir.autoschedule.driver import schedule_function, schedule_module
from loomir.autoschedule.trace_steps import Step
from loomir.build import compile
from loomir.debug.values import (
    Trace,
    ValueDifference,
    compare_traces,
    entry_of,
    trace,
    values_after,
)
from loomir.driver import Program, as_module, choose_packing
from loomir.ir.module import BaseFunc, IRModule
from loomir.ir.passes import Pipeline
from loomir.ir.visit import rebuild
from loomir.relax.expr import Function
from loomir.support.argument_errors import explain_arguments
from loomir.support.diagnostics import RunError
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.tir.link_calls import link_calls
from loomir.transform.pipelines import lower, lower_relax, optimize_relax
from loomir.transform.relax.kernels.winograd_conv2d import WinogradConv2DOptions

__all__ = ["Culprit", "bisect"]

NATIVE = "machine code"
SCHEDULE = "the default schedule"


class Culprit(NamedTuple):
    """The first stage after which results differ.

    ``functions`` are those changed by the pass each of which by itself causes the difference, or
    all changed ones if it takes several. ``difference`` is the first value that differs, ``error``
    the exception that the run raised instead.
    """

    stage: str
    functions: tuple[str, ...]
    difference: ValueDifference | None
    error: RunError | None = None

    def __str__(self) -> str:
        where = f" of {', '.join(self.functions)}" if self.functions else ""
        what = f"it raises\n{self.error}" if self.error is not None else str(self.difference)
        return f"{self.stage}{where}: {what}"


@explain_arguments
def bisect(
    program: Program,
    inputs: Sequence[object],
    *,
    name: str | None = None,
    tolerance: float | None = None,
    pipeline: Pipeline | None = None,
) -> Culprit | None:
    """Find the first pass after which the program computes something else, or None.

    The interpreter runs every stage of compiling, including the default schedule for this machine;
    at the end, the machine code is run. If given, ``pipeline`` replaces the stages. ``name`` and
    ``tolerance`` are as for ``compare_stages``.

    Errors: those of the program itself, and of passes.
    """
    module = link_calls(as_module(program))
    name = entry_of(module, name)
    wanted = trace(module, name, inputs)
    before = module
    stages = _stages(module) if pipeline is None else _stages_of(module, pipeline)
    for stage, after in stages:
        if after is before:
            continue
        found = _check(after, name, inputs, wanted, tolerance)
        if found is not None:
            functions = _list_causes(before, after, name, inputs, wanted, tolerance)
            step = ""
            if stage == SCHEDULE:
                step = _step(before, functions, name, inputs, wanted, tolerance)
            return Culprit(f"{stage}{step}", functions, *found)
        before = after
    return None if pipeline is not None else _native(module, name, inputs, wanted, tolerance)


def _stages_of(module: IRModule, pipeline: Pipeline) -> Iterator[tuple[str, IRModule]]:
    stages: list[tuple[str, IRModule]] = []
    pipeline.run(module, on_stage=lambda stage, mod: stages.append((stage, mod)))
    yield from stages


def _stages(module: IRModule) -> Iterator[tuple[str, IRModule]]:
    stages: list[tuple[str, IRModule]] = []
    packing = choose_packing(Target("native"))

    def keep(stage: str, mod: IRModule) -> None:
        stages.append((stage, mod))

    winograd = WinogradConv2DOptions(constant=True)
    faster = optimize_relax(module, winograd, on_stage=keep)
    graph = link_calls(lower_relax(faster, packing, on_stage=keep))
    yield from stages
    kernels = {v: f for v, f in graph.functions.items() if isinstance(f, PrimFunc)}
    loops = graph.with_functions(kernels)
    stages.clear()
    scheduled = schedule_module(loops, Target("native"))
    before, whole = scheduled, graph if scheduled is loops else _with_kernels(graph, scheduled)
    yield SCHEDULE, whole
    lower(scheduled, on_stage=lambda stage, mod: stages.append((stage, mod)))
    for stage, mod in stages:
        if mod is not before:
            whole = _with_kernels(graph, mod)
        before = mod
        yield stage, whole


def _step(
    before: IRModule,
    functions: Sequence[str],
    name: str,
    inputs: Sequence[object],
    wanted: Trace,
    tolerance: float | None,
) -> str:
    """Find the step of a function's schedule after which the program computes something else."""
    for var, func in before.functions.items():
        if var.name_hint not in functions or not isinstance(func, PrimFunc):
            continue
        steps: list[Step] = []
        schedule_function(func, Target("native"), on_step=steps.append)
        for step in steps:
            one = before.with_function(var.name_hint, rebuild(func, {"body": step.body()}))
            if _check(one, name, inputs, wanted, tolerance) is not None:
                return f", {step.name},"
    return ""


def _with_kernels(graph: IRModule, loops: IRModule) -> IRModule:
    """Return a graph with its kernels replaced by those of a later stage."""
    if not any(isinstance(f, Function) for f in graph.functions.values()):
        return loops
    made = {v.name_hint: f for v, f in loops.functions.items()}
    functions = {v: made.pop(v.name_hint, f) for v, f in graph.functions.items()}
    functions.update({v: f for v, f in loops.functions.items() if v.name_hint in made})
    return graph.with_functions(functions)


def _check(
    module: IRModule,
    name: str,
    inputs: Sequence[object],
    wanted: Trace,
    tolerance: float | None,
) -> tuple[ValueDifference | None, RunError | None] | None:
    """Run a stage; return a difference from the expected values or an error, or None."""
    try:
        got = trace(module, name, inputs)
    except RunError as error:
        return None, error
    # Passes may rename variables, so that only results and arguments are compared.
    found = compare_traces(Trace((), wanted.left), Trace((), got.left), tolerance)
    if found is None:
        return None
    return compare_traces(wanted, got, tolerance) or found, None


def _list_causes(
    before: IRModule,
    after: IRModule,
    name: str,
    inputs: Sequence[object],
    wanted: Trace,
    tolerance: float | None,
) -> tuple[str, ...]:
    """List the functions each of which by itself causes the difference."""
    old: dict[str, BaseFunc] = {v.name_hint: f for v, f in before.functions.items()}
    changed = {v: f for v, f in after.functions.items() if old.get(v.name_hint) is not f}
    added = {v: f for v, f in changed.items() if v.name_hint not in old}
    guilty: list[str] = []
    for var, func in changed.items():
        if var in added:
            continue
        one = before.with_functions(
            {v: func if v.name_hint == var.name_hint else f for v, f in before.functions.items()}
            | added
        )
        if _check(one, name, inputs, wanted, tolerance) is not None:
            guilty.append(var.name_hint)
    return tuple(guilty or [v.name_hint for v in changed])


def _native(
    module: IRModule,
    name: str,
    inputs: Sequence[object],
    wanted: Trace,
    tolerance: float | None,
) -> Culprit | None:
    args = [copy.deepcopy(value) for value in inputs]
    try:
        returned: object = compile(module)[name](*args)
    except RunError as error:
        return Culprit(NATIVE, (), None, error)
    got = Trace((), values_after(module[name], returned, args))
    found = compare_traces(Trace((), wanted.left), got, tolerance)
    return None if found is None else Culprit(NATIVE, (), found)
