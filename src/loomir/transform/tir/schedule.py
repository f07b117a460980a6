"""Arrange loops for a machine by the default schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loomir.ir.passes import register
from loomir.support.fork_safe import import_module
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.transform.tir.instrument.split_bounds_checks import split_bounds_checks

__all__ = ["ScheduleOptions", "schedule"]


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """How to schedule.

    ``target``: the machine. ``check_bounds``: indices out of bounds will be errors, so only
    functions whose bounds checks can be made before their loops are scheduled.
    """

    target: str | Target = "native"
    check_bounds: bool = False


@register(
    "tir.Schedule",
    requires={"well_formed"},
    breaks={"flat_buffers", "no_blocks", "no_unroll_loops", "no_vector_loops", "plain_addresses"},
)
def schedule(func: PrimFunc, options: ScheduleOptions = ScheduleOptions()) -> PrimFunc:
    """Arrange the loops of a function for a machine, but not those that its author has arranged.

    ``loomir.autoschedule.steps.STEPS`` lists the steps.
    """
    # Imported on demand: many who need other passes schedule nothing.
    arrange: Any = import_module("loomir.autoschedule.driver").schedule_function
    machine = Target(options.target)
    if not options.check_bounds:
        return arrange(func, machine).func
    split = split_bounds_checks(func)
    return func if split is None else split.join(arrange(split.fast, machine).func)
