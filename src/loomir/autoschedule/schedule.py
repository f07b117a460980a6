"""Choose a schedule for a function: read its stages, and give each group to the rule that knows it.

The rules stand in order, from the most special to the one that takes every stage. What no rule
takes, and loops that could not be read, stay as they were written. A function that somebody has
scheduled already is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from loomir.autoschedule.as_written import plan_as_written
from loomir.autoschedule.columns import plan_columns, plan_partial
from loomir.autoschedule.contraction import plan_contraction
from loomir.autoschedule.elementwise import plan_elementwise
from loomir.autoschedule.general import plan_general
from loomir.autoschedule.inlining import inline_stages, reads_of
from loomir.autoschedule.nest import allocated
from loomir.autoschedule.plan import Plan
from loomir.autoschedule.raising import read_kernel
from loomir.autoschedule.rows import plan_rows
from loomir.autoschedule.scans import plan_scan
from loomir.autoschedule.stage import Combine, Kernel, Stage
from loomir.autoschedule.tidy import tidied
from loomir.autoschedule.transposes import plan_transpose
from loomir.autoschedule.windows import plan_windows
from loomir.autoschedule.work import work_of
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.visit import by_class
from loomir.support.diagnostics import InternalError
from loomir.target import Target
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, For, ForKind, Stmt

__all__ = ["SCHEDULED", "Scheduled", "schedule_function", "schedule_module"]

SCHEDULED: Final = "tir.is_scheduled"
"""The attribute of functions whose loops are as they shall be."""


class Scheduled(NamedTuple):
    """A function with new loops, and what was decided for each group of its stages."""

    func: PrimFunc
    plans: tuple[Plan, ...]


Inner: TypeAlias = Callable[[int], "frozenset[Buffer]"]
"""Says which buffers are used by nothing but the first stages, so many of them."""

Rule: TypeAlias = Callable[[Sequence[Stage], Inner, Target], "tuple[Plan, int] | None"]
"""Plans the first of the stages that it is given; says how many."""


def _contraction(
    stages: Sequence[Stage], inner: Inner, target: Target, constants: Set[Var] = frozenset()
) -> tuple[Plan, int] | None:
    last = 1  # with the stages that use the elements of the product one by one
    while last < len(stages) and stages[last].combine is Combine.NONE:
        last += 1
    for count in range(last, 0, -1):
        plan = plan_contraction(stages[:count], target, inner=inner(count), constants=constants)
        if plan is not None:
            return plan, count
    return None


def _windows(stages: Sequence[Stage], inner: Inner, target: Target) -> tuple[Plan, int] | None:
    last = 1  # with the stages that use its elements one by one
    while last < len(stages) and stages[last].combine is Combine.NONE:
        last += 1
    for count in range(last, 0, -1):
        plan = plan_windows(stages[:count], inner(count), target)
        if plan is not None:
            return plan, count
    return None


def _elementwise(stages: Sequence[Stage], inner: Inner, target: Target) -> tuple[Plan, int] | None:
    plan = plan_elementwise(stages[0], target)
    return None if plan is None else (plan, 1)


def _rows(stages: Sequence[Stage], inner: Inner, target: Target) -> tuple[Plan, int] | None:
    found = plan_rows(stages, inner, target)
    if found is not None:
        return found
    plan = plan_partial(stages[0], target) or plan_columns(stages[0], target)
    return None if plan is None else (plan, 1)


def _transpose(stages: Sequence[Stage], inner: Inner, target: Target) -> tuple[Plan, int] | None:
    plan = plan_transpose(stages[0], target)
    return None if plan is None else (plan, 1)


def _general(stages: Sequence[Stage], inner: Inner, target: Target) -> tuple[Plan, int]:
    return plan_general(stages[0], target), 1


RULES: Final[tuple[Rule, ...]] = (
    _windows,
    _contraction,
    _rows,
    _transpose,
    _elementwise,
    _general,
)


def schedule_module(module: IRModule, target: Target) -> IRModule:
    """Schedule the loops of each function of a module."""
    functions: dict[GlobalVar, BaseFunc] = {
        var: schedule_function(func, target).func if isinstance(func, PrimFunc) else func
        for var, func in module.functions.items()
    }
    if all(functions[var] is func for var, func in module.functions.items()):
        return module
    return module.with_functions(functions)


def schedule_function(
    func: PrimFunc, target: Target, *, constants: Set[Var] = frozenset()
) -> Scheduled:
    """Give a function loops that suit the target; the same function where nothing is to be done.

    ``constants`` are pointers of arrays that hold the same in every call. What plans compute ahead
    of them is read by the new loops, and is no parameter yet: ``prepare_constants`` sees to that.
    """
    if _is_scheduled(func):
        return Scheduled(func, ())
    kernel = inline_stages(read_kernel(func))
    made: list[Stmt] = []
    plans: list[Plan] = []
    place = 0
    while place < len(kernel.parts):
        part = kernel.parts[place]
        if isinstance(part, Stage):
            plan, covered = _planned(kernel, place, target, constants)
            made.append(plan.stmt)
            plans.append(plan)
            place += covered
        else:
            plan = plan_scan(part) or plan_as_written(part)
            made.append(part if plan is None else plan.stmt)
            plans += [] if plan is None else [plan]
            place += 1
    if not plans:
        return Scheduled(func, ())
    used = set[int]().union(*(reads_of(part) for part in made))
    between = tuple(b for b in kernel.between if id(b.data) in used)
    body = tidied(allocated(between, *made, name="root"))
    attrs = {**func.attrs, SCHEDULED: True}
    new = PrimFunc(func.params, body, func.ret_type, func.buffer_map, attrs, span=func.span)
    return Scheduled(new, tuple(plans))


def _is_scheduled(func: PrimFunc) -> bool:
    """Whether loops or blocks carry decisions of somebody."""
    if func.attrs.get(SCHEDULED):
        return True
    found = by_class(func.body)
    loops: list[For] = found.get(For, [])
    if any(loop.kind is not ForKind.SERIAL or loop.annotations for loop in loops):
        return True
    blocks: list[Block] = found.get(Block, [])
    return any(block.annotations for block in blocks)


def _planned(kernel: Kernel, place: int, target: Target, constants: Set[Var]) -> tuple[Plan, int]:
    stages: list[Stage] = []
    for part in kernel.parts[place:]:
        if not isinstance(part, Stage):
            break
        stages.append(part)

    def inner(count: int) -> frozenset[Buffer]:
        group = kernel.parts[place : place + count]
        others = [part for part in kernel.parts if not any(part is one for one in group)]
        outside = set[int]().union(*(reads_of(part) for part in others))
        return frozenset(b for b in kernel.between if id(b.data) not in outside)

    for each in RULES:
        rule = partial(_contraction, constants=constants) if each is _contraction else each
        found = rule(stages, inner, target)
        if found is not None:
            plan, covered = found
            return _with_work(plan, stages[:covered], inner(covered)), covered
    raise InternalError("no rule takes a stage")


def _with_work(plan: Plan, stages: Sequence[Stage], inner: frozenset[Buffer]) -> Plan:
    work = work_of(stages, inner)
    flops, moved = (None, None) if work is None else work
    return replace(plan, flops=flops, bytes=moved, stages=tuple(stages), inner=inner)
