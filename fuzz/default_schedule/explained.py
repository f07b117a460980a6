"""Explain schedules as commands do: step by step, group by group, and what runs as written."""

from __future__ import annotations

from collections.abc import Set

from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.lift.unlifted_reasons import explain_unlifted
from loomir.autoschedule.outline_group import outline_group
from loomir.autoschedule.prepack_constants import schedule_with_constants
from loomir.autoschedule.trace_steps import Step
from loomir.check.tir.verify import verify
from loomir.support.diagnostics import InternalError
from loomir.target import Target
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc

__all__ = ["explain_schedule"]


def explain_schedule(func: PrimFunc, constants: Set[Var], target: Target) -> None:
    """Explain a schedule. Errors: InternalError for a step or a group that is ill-formed."""
    steps: list[Step] = []
    scheduled = schedule_function(func, target, constants=constants, on_step=steps.append)
    for step in steps:
        step.body()
    for stmt in scheduled.unplanned:
        told = explain_unlifted(stmt)
        if not all(told):
            raise InternalError(f"nothing is said of a statement: {told}")
    places = {
        place
        for place, param in enumerate(func.params)
        if param in func.buffer_map and func.buffer_map[param].data in constants
    }
    packed, prepared = schedule_with_constants(func, places, target, least=1)
    for function in [p.func for p in prepared.preparations] if prepared else []:
        for found in verify(function):
            raise InternalError(f"a function that packs is wrong: {found}")
    for made in (scheduled, packed):
        for plan in made.plans:
            outline_group(made, plan)
