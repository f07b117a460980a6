"""The steps of the default schedule, in their order.

``driver.py`` runs them for the body of a function, and for bodies of loops in it that must run in
order. After each, tests verify the stages (``verify_steps.py``), and ``trace_steps.py`` writes the
function as plain loops for those who look for a wrong step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from loomir.autoschedule.ir.stage import LiftedFunction
from loomir.autoschedule.rewrite.collapse_axes import collapse_axes
from loomir.autoschedule.rewrite.drop_unit_axes import Declare, drop_unit_axes
from loomir.autoschedule.rewrite.forward_copies import forward_copies
from loomir.autoschedule.rewrite.inline import inline_stages
from loomir.autoschedule.rewrite.narrow_integers import narrow_integers
from loomir.autoschedule.rules.delinearized_plan import with_digits
from loomir.tir.buffer import Buffer
from loomir.tir.stmt import Stmt

__all__ = ["READ", "REWRITES", "STEPS", "TIDY", "LiftedKernel", "Rewrite", "ScheduleStep"]


class LiftedKernel(NamedTuple):
    """A kernel as stages, the views that these store to, and what declares names of arrays."""

    kernel: LiftedFunction
    views: tuple[Buffer, ...] = ()
    declare: Declare = lambda stmt: stmt


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """A step by name, and what it does in one line."""

    name: str
    does: str


@dataclass(frozen=True, slots=True)
class Rewrite(ScheduleStep):
    """A step from stages to equal stages."""

    rewrite: Callable[[LiftedKernel], LiftedKernel]


def _keep_names(
    rewrite: Callable[[LiftedFunction], LiftedFunction],
) -> Callable[[LiftedKernel], LiftedKernel]:
    """Make a step of a rewrite that gives no array another name."""
    return lambda lifted: LiftedKernel(rewrite(lifted.kernel), lifted.views, lifted.declare)


def _drop_unit_axes(lifted: LiftedKernel) -> LiftedKernel:
    kernel, declare = drop_unit_axes(lifted.kernel)
    return LiftedKernel(kernel, lifted.views, declare)


def _split_axes(lifted: LiftedKernel) -> LiftedKernel:
    kernel, views = with_digits(lifted.kernel)
    return LiftedKernel(kernel, views, lifted.declare)


def _collapse_axes(lifted: LiftedKernel) -> LiftedKernel:
    kernel, inner = collapse_axes(lifted.kernel)

    def declare(stmt: Stmt) -> Stmt:
        return lifted.declare(inner(stmt))

    return LiftedKernel(kernel, lifted.views, declare)


READ: Final = ScheduleStep(
    "reading the loops", "lift nests to stages, each of which computes the elements of an array"
)
REWRITES: Final = (
    Rewrite(
        "inlining",
        "compute elements where they are read, in place of storing them",
        _keep_names(inline_stages),
    ),
    Rewrite(
        "forwarding copies",
        "reduce into the array into which a result is copied",
        _keep_names(forward_copies),
    ),
    Rewrite(
        "narrowing integers",
        "compute functions of bytes in 16 bits where no value needs more",
        _keep_names(narrow_integers),
    ),
    Rewrite(
        "leaving out axes of one element",
        "make a vector of a column, so that accesses are contiguous along their last index",
        _drop_unit_axes,
    ),
    Rewrite(
        "splitting axes",
        "split an axis that reductions read by quotient and remainder, such as `c // 8`",
        _split_axes,
    ),
    Rewrite(
        "joining axes",
        "make one axis of adjacent ones of symbolic extent that are contiguous in all arrays",
        _collapse_axes,
    ),
)
RULES: Final = ScheduleStep(
    "rules", "write the loops of each group of stages by the first rule that takes it"
)
TIDY: Final = ScheduleStep("tidying", "fold constants in the new loops")

STEPS: Final[tuple[ScheduleStep, ...]] = (READ, *REWRITES, RULES, TIDY)
