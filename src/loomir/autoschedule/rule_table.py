"""The rules of the default schedule, in the order in which they are asked.

``rules_of`` lists them, from the most specific to the fallback, which takes any stage.
``plan_group`` plans the first of some stages, and those after it that its rule takes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from loomir.autoschedule.builders.loops import disable_outer_unrolling
from loomir.autoschedule.builders.work import count_work
from loomir.autoschedule.ir.decision import (
    attempt,
    decide,
    decides,
    nest_place,
    suspend_decisions,
)
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Combine, Stage
from loomir.autoschedule.rewrite.def_use import Usage, reads_of, writes_of
from loomir.autoschedule.rewrite.delinearize import delinearize
from loomir.autoschedule.rules.attention.fused_attention import plan_attention
from loomir.autoschedule.rules.elementwise.elementwise import plan_elementwise, runs_long
from loomir.autoschedule.rules.elementwise.interleave import plan_interleaved
from loomir.autoschedule.rules.elementwise.transpose import plan_transpose
from loomir.autoschedule.rules.fallback import plan_general, plan_with_reader
from loomir.autoschedule.rules.matmul.zero_points import plan_zero_points
from loomir.autoschedule.rules.product import plan_contraction
from loomir.autoschedule.rules.reduction.column_reduction import plan_columns, plan_partial
from loomir.autoschedule.rules.reduction.row_fusion import plan_rows
from loomir.autoschedule.rules.reduction.unordered_search import plan_search
from loomir.autoschedule.rules.reduction.unrolled_reduction import plan_written_out
from loomir.autoschedule.rules.stencil.stencil import plan_windows
from loomir.autoschedule.rules.transposed_convolution.polyphase import plan_phases
from loomir.autoschedule.verify_steps import verify_stages
from loomir.ir.passes import is_verifying
from loomir.support.diagnostics import InternalError
from loomir.target import Target
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Var
from loomir.tir.stmt import DeclBuffer

__all__ = ["InnerBuffers", "Planner", "Rule", "plan_group", "rules_of"]

_REACH: Final = 64
"""Stages that a rule sees at most, so that the time for a long function is linear."""

InnerBuffers: TypeAlias = Callable[[int], "frozenset[Buffer]"]
"""Says which buffers are used by nothing but the first stages, so many of them."""

Planner: TypeAlias = Callable[[Sequence[Stage], InnerBuffers, Target], "tuple[Plan, int] | None"]
"""Plans the first of the stages that it is given; says how many."""


class Rule(NamedTuple):
    """A rule: its name, by which decisions name it, what it takes, and what plans that.

    ``reason`` says why it is asked before those after it.
    """

    name: str
    takes: str
    reason: str
    plan: Planner


def _try_product(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target, constants: Set[Var]
) -> tuple[Plan, int] | None:
    first = 0  # or a stage that pads, the product
    if len(stages) > 1 and stages[0].combine is Combine.NONE:
        first = int(stages[1].combine is Combine.SUM and stages[0].buffer in inner(2))
        if not first:
            return None
    for count in range(
        first + _count_with_consumers(stages[first:] if first else stages), first, -1
    ):
        plan = attempt(
            partial(
                plan_contraction, stages[:count], target, inner=inner(count), constants=constants
            )
        )
        if plan is not None:
            return replace(plan, stmt=disable_outer_unrolling(plan.stmt)), count
    return None


def _try_zero_points(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target, constants: Set[Var]
) -> tuple[Plan, int] | None:
    if len(stages) > 1 and stages[0].combine is Combine.NONE:
        count = 1 + _count_with_consumers(stages[1:])
    else:
        count = _count_with_consumers(stages)

    def product(group: Sequence[Stage], own: Set[Buffer]) -> Plan | None:
        plan = plan_contraction(group, target, inner=own, constants=constants)
        return plan and replace(plan, stmt=disable_outer_unrolling(plan.stmt))

    def single(stage: Stage) -> Plan:
        rules = [Rule("", "", "", plan) for plan in _rules_within("zero points", constants)]
        return plan_group(Usage((stage,)), 0, {}, target, rules)[0]

    return plan_zero_points(stages, count, inner, target, constants, (product, single))


def _try_stencil(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target
) -> tuple[Plan, int] | None:
    for count in range(_count_with_consumers(stages), 0, -1):
        plan = attempt(partial(plan_windows, stages[:count], inner(count), target))
        if plan is not None:
            return plan, count
    return None


def _count_with_consumers(stages: Sequence[Stage]) -> int:
    """Count a reduction and the stages after it that use its elements one by one."""
    if stages[0].combine is Combine.NONE:
        return 1
    made, count = {id(stages[0].buffer.data)}, 1
    for stage in stages[1:]:
        if stage.combine is not Combine.NONE or not made & reads_of(stage):
            break
        made.add(id(stage.buffer.data))
        count += 1
    return count


def _try_elementwise(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target
) -> tuple[Plan, int] | None:
    plan = plan_elementwise(stages[0], target)
    return None if plan is None else (plan, 1)


def _try_rows(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target
) -> tuple[Plan, int] | None:
    found = plan_rows(stages, inner, target)
    if found is not None:
        return found
    plan = (
        plan_partial(stages[0], target)
        or plan_columns(stages[0], target)
        or plan_search(stages[0], partial(_plan_in_any_order, target=target))
    )
    return None if plan is None else (plan, 1)


def _plan_in_any_order(stage: Stage, target: Target) -> Plan | None:
    found = _try_rows((stage,), lambda count: frozenset(), target)
    return None if found is None else found[0]


def _try_transpose(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target, sizes: Set[Var]
) -> tuple[Plan, int] | None:
    stage = stages[0]
    plan = plan_interleaved(stage, target) or plan_transpose(stage, target)
    if plan is None and (split := delinearize(stage, sizes)) is not None:
        plan = plan_interleaved(split, target) or plan_transpose(split, target)
        if plan is None and runs_long(split, target):
            plan = plan_elementwise(split, target)
        if plan is not None:
            plan = replace(plan, stmt=DeclBuffer(split.buffer, plan.stmt))
    return None if plan is None else (plan, 1)


def _apply_fallback(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target
) -> tuple[Plan, int]:
    if len(stages) > 1 and stages[0].buffer in inner(2):
        both = plan_with_reader(stages[0], stages[1], target)
        if both is not None:
            return both, 2
    return plan_general(stages[0], target), 1


def _try_attention(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target
) -> tuple[Plan, int] | None:
    return plan_attention(stages, inner, target, _rules_within("attention", frozenset()))


def _try_polyphase(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target, constants: Set[Var]
) -> tuple[Plan, int] | None:
    rules = partial(_rules_within, "transposed convolution")
    return plan_phases(stages, inner, target, constants, rules)


def rules_of(constants: Set[Var], sizes: Set[Var] = frozenset()) -> tuple[Rule, ...]:
    """List the rules in the order in which they are asked; ``sizes`` are never negative."""
    return (
        Rule(
            "attention",
            "a product, stages of its rows such as a softmax, and a product with the result",
            "the matrix between the products need not exist in memory",
            _try_attention,
        ),
        Rule(
            "transposed convolution",
            "a sum over the taps that reach an element, by a stride above 1",
            "the phases of the stride become products without conditions",
            partial(_try_polyphase, constants=constants),
        ),
        Rule(
            "windows",
            "a reduction over a small window, such as pooling and depthwise convolution",
            "neighbouring windows share elements, which a product would load again",
            _try_stencil,
        ),
        Rule(
            "zero points",
            "a product of bytes from which zero points are subtracted",
            "the product without them can use instructions for bytes",
            partial(_try_zero_points, constants=constants),
        ),
        Rule(
            "product",
            "a matrix product or convolution, with what pads before it and what follows each sum",
            "elements are used again in registers and caches",
            partial(_try_product, constants=constants),
        ),
        Rule(
            "written out",
            "a reduction of few terms whose reads have borders",
            "loops over rows would test each read",
            plan_written_out,
        ),
        Rule(
            "rows",
            "reductions of rows or columns, and the stages that go row by row with them",
            "a row stays in cache through all of these stages",
            _try_rows,
        ),
        Rule(
            "transpose",
            "elements whose input and output are contiguous along different axes",
            "one of both would be read or written across lines of the cache",
            partial(_try_transpose, sizes=sizes),
        ),
        Rule(
            "element-wise",
            "elements along which memory is contiguous",
            "they form one run of vectors, however many axes there are",
            _try_elementwise,
        ),
        Rule("loops", "any stage", "it is the last one", _apply_fallback),
    )


def _rules_within(name: str, constants: Set[Var]) -> tuple[Planner, ...]:
    """List the rules that other rules use for the stages that they create."""
    rules = tuple(rule.plan for rule in rules_of(constants)[2:])
    if not is_verifying():
        return rules

    def apply_first_rule(
        stages: Sequence[Stage], inner: InnerBuffers, target: Target
    ) -> tuple[Plan, int] | None:
        verify_stages(stages, name, of_block=True)
        return rules[0](stages, inner, target)

    return (apply_first_rule, *rules[1:])


def plan_group(
    usage: Usage,
    place: int,
    between: Mapping[int, Buffer],
    target: Target,
    rules: Sequence[Rule],
) -> tuple[Plan, int]:
    """Plan the stage at a place, and those after it that its rule takes too; say how many."""
    stages: list[Stage] = []
    for part in usage.parts[place : place + _REACH]:
        if not isinstance(part, Stage):
            break
        stages.append(part)

    def inner(count: int) -> frozenset[Buffer]:
        touched = set[int]().union(*(reads_of(s) | writes_of(s) for s in stages[:count]))
        own = (d for d in touched if d in between and usage.is_only_in(d, place, place + count))
        return frozenset(between[data] for data in own)

    with nest_place(place):
        plan, covered = _plan_by_rules(stages, inner, target, rules)
    return _attach_work(plan, stages[:covered], inner(covered)), covered


def _plan_by_rules(
    stages: Sequence[Stage], inner: InnerBuffers, target: Target, rules: Sequence[Rule]
) -> tuple[Plan, int]:
    """Plan by the first rule that takes the stages, or by a later one that decisions name."""
    if decides("rule") and all(rule.name for rule in rules):
        rules = _decide_rule(stages, inner, target, rules)
    for rule in rules:
        found = attempt(partial(rule.plan, stages, inner, target))
        if found is not None:
            return found
    raise InternalError("no rule takes a stage")


def _decide_rule(
    stages: Sequence[Stage],
    inner: InnerBuffers,
    target: Target,
    rules: Sequence[Rule],
) -> Sequence[Rule]:
    """List the rule that is chosen, and those after it."""

    def fit(rule: Rule) -> bool:
        with suspend_decisions():
            return rule.plan(stages, inner, target) is not None

    fitting = (rule.name for rule in rules if fit(rule))
    name = decide("rule", next(fitting), lambda: fitting)
    return rules[[rule.name for rule in rules].index(name) :]


def _attach_work(plan: Plan, stages: Sequence[Stage], inner: frozenset[Buffer]) -> Plan:
    work = count_work(stages, inner)
    flops, moved = (None, None) if work is None else work
    return replace(plan, flops=flops, bytes=moved, stages=tuple(stages), inner=inner)
