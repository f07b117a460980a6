"""Write the function after each scheduling step as plain serial loops, to find a wrong step.

Stages that no rule has planned yet become serial loops. The first step after which the function
computes other results is the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from loomir.arith.fold import imm64, product
from loomir.autoschedule.builders.loops import allocate, declare_views
from loomir.autoschedule.builders.reduction_ops import accumulate
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, LiftedFunction, Stage
from loomir.autoschedule.rewrite.def_use import reads_of
from loomir.loops.nests import nest_over
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["OnStep", "Step", "serial_loops", "step_name", "write_body"]


class Step(NamedTuple):
    """A step by what it does, and the body of the function after it."""

    name: str
    body: Callable[[], Stmt]


OnStep: TypeAlias = Callable[[Step], None]


def serial_loops(stage: Stage) -> Stmt:
    """Write a stage as one nest of serial loops, in the order of its axes."""
    buffer, indices = stage.buffer, stage.indices
    if stage.combine is Combine.NONE:
        body: Stmt = BufferStore(buffer, stage.value, indices)
    else:
        value = accumulate(stage.combine, BufferLoad(buffer, indices), stage.value)
        body = BufferStore(buffer, value, indices)
        body = _nest(stage.reduced, body)
        if stage.init is not None:
            body = seq([BufferStore(buffer, stage.init, indices), body])
        if stage.reduced and stage.block is not None and stage.block.init is not None:
            # A block starts an element with the first term, and leaves it as it is without one.
            body = IfThenElse(imm64(0) < product(axis.extent for axis in stage.reduced), body)
    return _nest(stage.axes, body)


def _nest(axes: Sequence[Axis], body: Stmt) -> Stmt:
    return nest_over([axis.var for axis in axes], [axis.extent for axis in axes], body)


def write_body(
    kernel: LiftedFunction,
    declare: Callable[[Stmt], Stmt] = lambda stmt: stmt,
    done: Sequence[Stmt] = (),
    place: int = 0,
    views: Sequence[Buffer] = (),
) -> Stmt:
    """Write a kernel: what is ``done`` for the parts before ``place``, then plain loops.

    ``views`` are names of arrays that stages use, each declared where it is used.
    """
    rest = [
        declare_views(views, serial_loops(part)) if isinstance(part, Stage) else part
        for part in kernel.parts[place:]
    ]
    made = [*done, *rest]
    used = set[int]().union(*(reads_of(part) for part in made))
    left = [b for b in kernel.between if id(b.data) in used]
    return declare(allocate(left, *made, name="root"))


def step_name(plan: Plan, stages: Sequence[Stage | Stmt]) -> str:
    """Say what rule took which stages."""
    names = dict.fromkeys(s.buffer.name for s in stages if isinstance(s, Stage))
    where = f" of {', '.join(names)}" if names else ""
    return f"{plan.kind}{where}"
