"""Choose a default schedule: lift a function to stages, and plan each group by a rule.

``steps.py`` lists the steps. Rules are asked in order, from the most specific to the fallback,
which takes any stage; the first that fits plans the group. Loops that cannot be lifted stay as
written, unless they can be parallelised or split. A function that its author has scheduled stays as
it is; a single loop of a kind other than ``range`` is only a request about that loop
(``lift/loop_kinds.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from loomir.autoschedule.builders.drop_unreachable import drop_loops_out_of_range
from loomir.autoschedule.builders.fold import fold_constants
from loomir.autoschedule.builders.loops import allocate, declare_views
from loomir.autoschedule.ir.decision import (
    apply_decisions,
    current_source,
    decide,
    nest_place,
)
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Stage
from loomir.autoschedule.lift.lift_function import lift_function
from loomir.autoschedule.lift.lift_loops import Reader
from loomir.autoschedule.lift.loop_kinds import Request, arrangement_of, as_serial, requests_of
from loomir.autoschedule.rewrite.def_use import Usage, reads_of
from loomir.autoschedule.rewrite.drop_unit_axes import Declare, declare_in_prepacking
from loomir.autoschedule.rule_table import plan_group, rules_of
from loomir.autoschedule.rules.delinearized_plan import plan_divided, sizes_of
from loomir.autoschedule.rules.loops.check_indices import plan_checks
from loomir.autoschedule.rules.loops.parallelize import plan_as_written
from loomir.autoschedule.rules.loops.requested_threads import plan_requested
from loomir.autoschedule.rules.loops.sequential_outer import is_repeated
from loomir.autoschedule.rules.loops.split_at_dependence import plan_around_one
from loomir.autoschedule.rules.reduction.arg_reduction import plan_choice
from loomir.autoschedule.rules.reduction.scan import plan_scan
from loomir.autoschedule.steps import READ, REWRITES, TIDY, LiftedKernel
from loomir.autoschedule.trace_steps import OnStep, Step, step_name, write_body
from loomir.autoschedule.verify_steps import StepVerifier, verify_scheduled
from loomir.ir.passes import is_verifying
from loomir.ir.visit import rebuild
from loomir.loops.ranges import find_size_ranges, loop_range
from loomir.support.announcing import announce
from loomir.target import Target
from loomir.tir.buffer import Buffer, Range
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For, Stmt

__all__ = ["SCHEDULED", "ScheduledFunction", "schedule_function"]

SCHEDULED: Final = "tir.is_scheduled"
"""The attribute of functions that are scheduled: their loops are not changed any more."""


class ScheduledFunction(NamedTuple):
    """A function with new loops, and what was decided for each group of its stages."""

    func: PrimFunc
    plans: tuple[Plan, ...]
    between: tuple[Buffer, ...] = ()
    """Arrays that the function allocates, of one group or between several."""
    declare: Declare = lambda stmt: stmt
    """Puts the names in scope that the statements of plans have for arrays from outside."""
    requests: tuple[Request, ...] = ()
    """Loops of which the program asks a kind."""
    unplanned: tuple[Stmt, ...] = ()
    """Statements that run as written."""


_NOTHING: Final[Mapping[Var, Range]] = MappingProxyType({})

_DEPTH: Final = 4
"""Most nested sequential loops whose bodies are scheduled by themselves."""


def schedule_function(
    func: PrimFunc,
    target: Target,
    *,
    constants: Set[Var] = frozenset(),
    on_step: OnStep | None = None,
) -> ScheduledFunction:
    """Schedule a function for the target; return it unchanged where nothing is to be done.

    ``constants`` are pointers of arrays that are the same in every call. What plans compute ahead
    of them is read by the new loops, and is not a parameter yet: ``prepare_constants`` sees to
    that. ``on_step`` sees what each step makes of the body.
    """
    if func.attrs.get(SCHEDULED) or arrangement_of(func):
        return ScheduledFunction(func, ())
    announce(f"schedule of {func.name}")
    source = current_source()
    decisions = None if source is None else source.find_decisions(func, constants, target)
    with apply_decisions(decisions):
        if decide("loops", "scheduled", lambda: ("as written",)) == "as written":
            made = _Result(func.body, (), unplanned=(func.body,))
        else:
            made = _schedule_body(func, target, constants, on_step=on_step)
    if not made.plans:
        if decisions is not None:
            decisions.on_scheduled(func)
        return ScheduledFunction(func, (), unplanned=made.unplanned)
    attrs = {**func.attrs, SCHEDULED: True}
    body = fold_constants(made.stmt)
    new = PrimFunc(func.params, body, func.ret_type, func.buffer_map, attrs, span=func.span)
    new = drop_loops_out_of_range(func, new)
    if on_step is not None:
        on_step(Step(TIDY.name, lambda: new.body))
    if decisions is not None:
        decisions.on_scheduled(new)
    if is_verifying():
        verify_scheduled(
            func, new, made.plans, lambda stmt: made.declare(allocate(made.between, stmt))
        )
    requests = requests_of(func, new.body)
    return ScheduledFunction(new, made.plans, made.between, made.declare, requests, made.unplanned)


class _Result(NamedTuple):
    stmt: Stmt
    plans: tuple[Plan, ...]
    between: tuple[Buffer, ...] = ()
    declare: Declare = lambda stmt: stmt
    unplanned: tuple[Stmt, ...] = ()


def _lift(func: PrimFunc, on_step: OnStep | None, verifier: StepVerifier | None) -> LiftedKernel:
    """Lift a function and rewrite its stages, step by step."""

    def note_step(name: str, lifted: LiftedKernel) -> None:
        kernel, views, declare = lifted
        if verifier is not None:
            verifier.verify_step(name, kernel)
        if on_step is not None:
            on_step(Step(name, lambda: write_body(kernel, declare, views=views)))

    lifted = LiftedKernel(lift_function(func))
    note_step(READ.name, lifted)
    for step in REWRITES:
        lifted = step.rewrite(lifted)
        note_step(step.name, lifted)
    return lifted


def _schedule_body(
    func: PrimFunc,
    target: Target,
    constants: Set[Var],
    around: Mapping[Var, Range] = _NOTHING,
    on_step: OnStep | None = None,
) -> _Result:
    """Plan the body of a function, or of loops in it, which are ``around``."""
    verifier = StepVerifier(func) if is_verifying() else None
    kernel, views, declare = _lift(func, on_step, verifier)

    def write_whole(done: Sequence[Stmt], place: int) -> Stmt:
        return write_body(kernel, declare, done, place, views)

    made: list[Stmt] = []
    plans: list[Plan] = []
    unplanned: list[Stmt] = []
    place = 0
    rules = rules_of(constants, sizes_of(func))
    usage, reader = Usage(kernel.parts), Reader(func)
    between = {id(b.data): b for b in kernel.between}

    def plan_stage(stage: Stage) -> Plan:
        return plan_group(Usage((stage,)), 0, {}, target, rules)[0]

    while place < len(kernel.parts):
        part = kernel.parts[place]
        if isinstance(part, Stage):
            plan, covered = plan_group(usage, place, between, target, rules)
            if views:
                plan = replace(plan, stmt=declare_views(views, plan.stmt))
            made.append(plan.stmt)
            plans.append(declare_in_prepacking(plan, declare))
            name = step_name(plan, kernel.parts[place : place + covered])
            if verifier is not None:
                verifier.verify_plan(plan, kernel.parts[place : place + covered])
            place += covered
            if on_step is not None:
                on_step(Step(name, partial(write_whole, tuple(made), place)))
            continue
        plan = _plan_statement(func, part, target, around, reader, plan_stage)
        inner = _keep_unplanned(part) if plan is None else _Result(plan.stmt, (plan,))
        if plan is None and len(around) < _DEPTH and is_repeated(part, around):
            within = None if on_step is None else _prefix_steps(on_step, tuple(made), write_whole)
            with nest_place(place):
                inner = _schedule_loop_body(func, part, target, around, within)
        one = None if inner.plans else plan_around_one(part, target, around)
        inner = inner if one is None else _Result(one.stmt, (one,))
        if verifier is not None:
            for plan in inner.plans:
                verifier.verify_plan(plan, (part,))
        made.append(inner.stmt)
        plans += inner.plans
        unplanned += inner.unplanned
        place += 1
        if on_step is not None and inner.plans:
            name = ", ".join(dict.fromkeys(plan.kind for plan in inner.plans))
            on_step(Step(name, partial(write_whole, tuple(made), place)))
    used = set[int]().union(*(reads_of(part) for part in made))
    left = tuple(b for b in kernel.between if id(b.data) in used)
    stmt = declare(allocate(left, *made, name="root"))
    return _Result(stmt, tuple(plans), left, declare, tuple(unplanned))


def _keep_unplanned(part: Stmt) -> _Result:
    return _Result(part, (), unplanned=(part,))


def _plan_statement(
    func: PrimFunc,
    part: Stmt,
    target: Target,
    around: Mapping[Var, Range],
    reader: Reader,
    plan_stage: Callable[[Stage], Plan],
) -> Plan | None:
    """Plan a statement that is not a stage: a scan, a selection, or else its loops as written."""
    plain = as_serial(part)
    return (
        plan_checks(plain, target)
        or plan_choice(plain, target)
        or plan_scan(plain, reader)
        or plan_divided(plain, func, plan_stage)
        or plan_as_written(part, target, {**find_size_ranges(func), **around})
        or plan_requested(part, target, around)
    )


def _prefix_steps(
    on_step: OnStep, before: Sequence[Stmt], whole: Callable[[Sequence[Stmt], int], Stmt]
) -> OnStep:
    """Return the callback for the scheduling steps within the next part."""

    def report_step(step: Step) -> None:
        place = len(before)
        on_step(Step(step.name, lambda: whole((*before, step.body()), place + 1)))

    return report_step


def _schedule_loop_body(
    func: PrimFunc,
    part: For,
    target: Target,
    around: Mapping[Var, Range],
    on_step: OnStep | None,
) -> _Result:
    """Plan the body of a loop that must run in order."""
    body = PrimFunc(func.params, part.body, func.ret_type, func.buffer_map, func.attrs)
    ranges = {**around, part.loop_var: loop_range(part)}

    def report_step(step: Step) -> None:
        assert on_step is not None
        on_step(
            Step(
                f"in each iteration of {part.loop_var.name_hint}, {step.name}",
                lambda: rebuild(part, {"body": step.body()}),
            )
        )

    within = None if on_step is None else report_step
    made = _schedule_body(body, target, frozenset(), ranges, within)
    if not made.plans:
        return _keep_unplanned(part)

    def repeat(plan: Plan) -> Plan:
        body = made.declare(allocate(made.between, plan.stmt))
        return replace(
            plan,
            stmt=rebuild(part, {"body": body}),
            choices=(f"in each iteration of {part.loop_var.name_hint}", *plan.choices),
            repeats=(part.extent, *plan.repeats),
        )

    stmt = rebuild(part, {"body": made.stmt})
    return _Result(stmt, tuple(map(repeat, made.plans)), unplanned=made.unplanned)
