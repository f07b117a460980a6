"""Bisect a compilation: run the program after each pass, until a result differs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.trace_steps import Step
from loomir.debug.values import (
    Trace,
    ValueDifference,
    compare_traces,
    entry_of,
    trace,
    values_after,
)
from loomir.deploy.callables import callables
from loomir.driver import Program
from loomir.driver.compilation import Compilation
from loomir.driver.stages import STAGES, run_stages
from loomir.ir.module import BaseFunc, IRModule
from loomir.ir.passes import Pipeline
from loomir.ir.visit import rebuild
from loomir.relax.expr import Function
from loomir.runtime.compile_options import CompileOptions
from loomir.support.argument_errors import explain_arguments
from loomir.support.diagnostics import RunError
from loomir.target import Target
from loomir.tir.function import PrimFunc

__all__ = ["Culprit", "bisect"]

NATIVE = "machine code"
_OPTIONS: Final = CompileOptions(check_bounds=None)
"""The options by which ``loomir.compile`` compiles by default."""


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
    made = run_stages(Compilation(program, "native", _OPTIONS), STAGES[:1])
    module = before = made.module
    name = entry_of(module, name)
    wanted = trace(module, name, inputs)
    stages = _run_stages(made) if pipeline is None else _run_pipeline(module, pipeline)
    for stage, after in stages:
        if after is before:
            continue
        found = _check(after, name, inputs, wanted, tolerance)
        if found is not None:
            functions = _list_causes(before, after, name, inputs, wanted, tolerance)
            step = ""
            if stage == "tir.Schedule":
                step = _step(before, functions, name, inputs, wanted, tolerance)
            return Culprit(f"{stage}{step}", functions, *found)
        before = after
    return None if pipeline is not None else _native(made, name, inputs, wanted, tolerance)


def _run_pipeline(module: IRModule, pipeline: Pipeline) -> Iterator[tuple[str, IRModule]]:
    passes: list[tuple[str, IRModule]] = []
    pipeline.run(module, on_stage=lambda name, mod: passes.append((name, mod)))
    yield from passes


def _run_stages(made: Compilation) -> Iterator[tuple[str, IRModule]]:
    """Run all stages but the first, and yield the program after each pass."""
    passes: list[tuple[str, IRModule]] = []
    made.on_stage = lambda name, mod: passes.append((name, mod))
    before = whole = made.module
    for stage in STAGES[1:]:
        run_stages(made, [stage])
        for name, mod in passes:
            if mod is not before:
                before, whole = mod, _with_kernels(made.graph, mod)
            yield name, whole
        passes.clear()


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


def _with_kernels(graph: IRModule | None, after: IRModule) -> IRModule:
    """Return the program after a pass, which may have seen only the kernels of a graph."""
    if graph is None or any(isinstance(f, Function) for f in after.functions.values()):
        return after
    made = {v.name_hint: f for v, f in after.functions.items()}
    functions = {v: made.pop(v.name_hint, f) for v, f in graph.functions.items()}
    functions.update({v: f for v, f in after.functions.items() if v.name_hint in made})
    changed = any(f is not graph.functions.get(v) for v, f in functions.items())
    return graph.with_functions(functions) if changed else graph


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
    made: Compilation,
    name: str,
    inputs: Sequence[object],
    wanted: Trace,
    tolerance: float | None,
) -> Culprit | None:
    args = [copy.deepcopy(value) for value in inputs]
    try:
        returned: object = callables(made.tables, made.native)[name](*args)
    except RunError as error:
        return Culprit(NATIVE, (), None, error)
    got = Trace((), values_after(made.module[name], returned, args))
    found = compare_traces(Trace((), wanted.left), got, tolerance)
    return None if found is None else Culprit(NATIVE, (), found)
