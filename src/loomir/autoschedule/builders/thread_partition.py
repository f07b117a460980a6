"""Share the items of a loop between threads, where the work is worth it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loomir.arith.fold import imm
from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.builders.loops import INDEX, allocated, loop, parallel
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Min, PrimExpr
from loomir.tir.stmt import Stmt

__all__ = ["is_long", "is_worth", "items_together", "shared"]

WORTH: Final = 20_000.0
"""Nanoseconds of work from which threads are worth waking."""
TASK: Final = 8_000.0
"""Nanoseconds of work that one task has at least."""

_LONG: Final = 4


def is_worth(nanoseconds: float) -> bool:
    """Whether so much work is worth a second thread."""
    return nanoseconds >= WORTH


def is_long(nanoseconds: float) -> bool:
    """Whether so much work is several tasks."""
    return nanoseconds > _LONG * TASK


def items_together(each: float) -> int:
    """Give how many items of so many nanoseconds make a task."""
    return max(1, int(TASK / max(each, 1e-3)))


def shared(
    count: PrimExpr,
    each: float,
    what: str,
    body: Callable[[PrimExpr], Stmt],
    *,
    held: Sequence[Buffer] = (),
) -> tuple[Stmt, str]:
    """Run ``body`` for ``[0, count)``, in tasks that depend on sizes only; say how.

    ``each`` is the time of one item in nanoseconds, ``what`` the name of many items.
    Each task has memory of its own for ``held``, which its items use one after the other.
    """

    def owned(stmt: Stmt) -> Stmt:
        return allocated(held, stmt) if held else stmt

    known = number(count)
    if known is not None and not is_worth(known * each):
        spent = f"{known * each / 1000:.1f} us"
        return owned(
            loop("item", count, body)
        ), f"one thread: {spent} of work do not pay for waking more"
    together = items_together(each)
    if known is not None:
        together = min(together, known)
    if together == 1:
        return parallel("task", count, lambda t: owned(body(t))), f"threads share the {what}"
    size = imm(together, INDEX)
    made = parallel(
        "task",
        (count + imm(together - 1, INDEX)) // size,
        lambda t: owned(loop("item", Min(size, count - t * size), lambda i: body(t * size + i))),
    )
    return made, f"threads share the {what}, {together} at a time"
