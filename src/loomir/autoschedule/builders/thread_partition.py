"""Partition the iterations of a loop over threads, if there is enough work to pay for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loomir.arith.fold import imm
from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.builders.loops import INDEX, allocate, loop, parallel
from loomir.autoschedule.ir.decision import decide
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Min, PrimExpr
from loomir.tir.stmt import Stmt

__all__ = ["is_long", "is_worth", "parallelize", "task_size"]

WORTH: Final = 20_000.0
"""Nanoseconds of work from which waking threads pays; waking takes 7 to 18 µs (performance.md)."""
TASK: Final = 8_000.0
"""Least work of one task, in nanoseconds."""

_LONG: Final = 4
"""Tasks from which work counts as long."""
_USUAL: Final = 16
"""The default: tasks that take ``TASK`` each."""
_NONE: Final = 0
"""No tasks: one thread runs the loop."""
_TASKS: Final = (1, 4, _USUAL, 64, 256)
"""Sizes of tasks, in sixteenths of the size that takes ``TASK``; none for one thread."""


def is_worth(nanoseconds: float) -> bool:
    """Whether the work pays for waking a second thread."""
    return nanoseconds >= WORTH


def is_long(nanoseconds: float) -> bool:
    """Whether the work makes several tasks."""
    return nanoseconds > _LONG * TASK


def task_size(each: float) -> int:
    """Count the items, of so many nanoseconds each, that make one task."""
    return max(1, int(TASK / max(each, 1e-3)))


def parallelize(
    count: PrimExpr,
    each: float,
    what: str,
    body: Callable[[PrimExpr], Stmt],
    *,
    private: Sequence[Buffer] = (),
) -> tuple[Stmt, str]:
    """Run ``body`` for ``[0, count)`` in parallel tasks, and say how they were chosen.

    ``each`` is the time of one item in nanoseconds, ``what`` the name of many items.
    The partition depends on sizes only, never on the number of threads. Each task has a copy of
    its own of the buffers that are ``private``, which its items reuse.
    """

    def allocate_private(stmt: Stmt) -> Stmt:
        return allocate(private, stmt) if private else stmt

    known = number(count)
    worth = known is None or is_worth(known * each)
    tasks = decide("tasks", _USUAL if worth else _NONE, lambda: (*_TASKS, _NONE))
    if tasks == _NONE:
        spent = "" if known is None else f": {known * each / 1000:.1f} us"
        why = f"{spent} of work do not pay for waking more" if not worth else ", by decision"
        return allocate_private(loop("item", count, body)), f"one thread{why}"
    together = max(1, int(task_size(each) * tasks // _USUAL))
    if known is not None:
        together = min(together, known)
    if together == 1:
        return parallel(
            "task", count, lambda t: allocate_private(body(t))
        ), f"threads share the {what}"
    size = imm(together, INDEX)
    made = parallel(
        "task",
        (count + imm(together - 1, INDEX)) // size,
        lambda t: allocate_private(
            loop("item", Min(size, count - t * size), lambda i: body(t * size + i))
        ),
    )
    return made, f"threads share the {what}, {together} at a time"
