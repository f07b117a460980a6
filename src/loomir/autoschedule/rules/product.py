"""The rule for matrix products: choose a schedule by the sizes, and write its loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Final

from loomir.arith.fold import imm64
from loomir.autoschedule.builders.operand_access import extent_of, size_of, stride_along
from loomir.autoschedule.ir.decision import attempt
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Combine, Stage
from loomir.autoschedule.rules.convolution.implicit_gemm import convolution
from loomir.autoschedule.rules.matmul.amx import plan_amx
from loomir.autoschedule.rules.matmul.collapse_axes import Views, find_inner_views
from loomir.autoschedule.rules.matmul.dot_groups import find_dot_groups
from loomir.autoschedule.rules.matmul.dot_products import (
    fewest_steps,
    plan_dot_products,
    plan_few_rows,
)
from loomir.autoschedule.rules.matmul.few_rows import plan_blocked
from loomir.autoschedule.rules.matmul.prepack import is_prepacked
from loomir.autoschedule.rules.matmul.recognise import (
    Contraction,
    recognise,
    swap_to_channel_columns,
)
from loomir.autoschedule.rules.matmul.strips import plan_strips
from loomir.target import Target
from loomir.tir.buffer import Buffer
from loomir.tir.expr import LE, And, Eq, Var
from loomir.tir.stmt import IfThenElse

__all__ = ["plan_contraction"]

_FEW_COLUMNS: Final = 32
"""Columns up to which scalar stores of results beat packed rows (``_swap_few_columns``)."""

_MANY: Final = 4
"""Rows for each column from which that is so."""

_DEEP: Final = 128
"""Steps from which storing results one by one costs little."""

_TINY_COLUMNS: Final = 3
_TINY_STEPS: Final = 4
"""Columns of products that are written out, and their steps at most (``_is_tiny``)."""


def plan_contraction(
    stages: Sequence[Stage],
    target: Target,
    *,
    inner: Set[Buffer] = frozenset(),
    constants: Set[Var] = frozenset(),
) -> Plan | None:
    """Plan a stage that sums products, and the element-wise stages after it.

    ``inner`` are buffers that nothing reads after these stages. None if the stages are no such
    thing. The first stage may pad an image for a convolution. ``constants`` are the memory of what
    is the same in all calls: it is prepacked.
    """
    views = Views()
    pad = None
    if len(stages) > 1 and stages[0].combine is Combine.NONE and stages[0].buffer in inner:
        pad, *stages = stages
    found = recognise(stages, views)
    if found is None or (pad is None and _is_tiny(found)):
        return None

    def unwritten(found: Contraction) -> Set[Buffer]:
        return find_inner_views(inner, (found.stage, *found.epilogue), views)

    if found.by_vector:  # nothing is read more than once: only rows that lie along the sum gain
        plan = None if pad or found.ordered else plan_dot_products(found, target, unwritten(found))
    else:
        plan = None
        if not pad:
            plan = attempt(
                lambda: plan_strips(found, target, unwritten, views, constants), "strips"
            )
        if plan is None:
            plan = attempt(
                lambda: convolution(found, target, unwritten, views, pad, constants),
                "" if pad else "convolution",
            )
    if plan is None and pad is None and not found.by_vector:
        plan = _blocks_or_dots(swap_to_channel_columns(found), target, unwritten, views, constants)
    if plan is None:
        return None
    ahead = tuple(part._replace(stmt=views.declare(part.stmt)) for part in plan.ahead)
    return replace(plan, stmt=views.declare(plan.stmt), ahead=ahead)


def _is_tiny(found: Contraction) -> bool:
    """Whether elements are better written out one by one: of three columns, and of few steps.

    Strips of two columns overlap there: 4096 products of 3 by 3 take 0.6 of the time written out,
    4096 points by one matrix of 3 by 3 take 0.45 (float32, one thread, Zen 3).
    """
    k = size_of(found.reduced)
    if size_of(found.columns) != _TINY_COLUMNS or k is None or len(found.epilogue) > 1:
        return False
    if not found.dtype.is_float or found.dtype.bits < 32:
        return False
    return k <= _TINY_STEPS or (size_of(found.batch) == 1 and k <= 2 * _TINY_STEPS)


def _blocks_or_dots(
    found: Contraction,
    target: Target,
    unwritten: Callable[[Contraction], Set[Buffer]],
    views: Views,
    constants: Set[Var],
) -> Plan:
    unread = unwritten(found)
    plan = plan_amx(found, target, unread, views, constants)
    plain = not found.ordered and find_dot_groups(found, target) is None
    if plan is None and plain and not is_prepacked(found, constants):
        plan = attempt(lambda: plan_dot_products(found, target, unread), "dot products")
        few = plan_few_rows(found, target, unread)
        if few:
            least = fewest_steps(found, target)
            return _dispatch_by_rows(
                found, few, least, plan_blocked(found, target, unread, views, constants)
            )
    if plan is None and plain and not is_prepacked(found, constants):
        found = _swap_few_columns(found)
    return plan or plan_blocked(found, target, unread, views, constants)


def _swap_few_columns(found: Contraction) -> Contraction:
    """Swap the operands if there are few columns and neighbouring rows are contiguous.

    Vectors of rows are then read in place: 4096 x 17 x 1000 take 0.2 of the time of packed rows,
    and 100 x 10 x 1000 take 0.3 (on a Xeon, Emerald Rapids).
    """
    m, n, k = (size_of(axes) for axes in (found.rows, found.columns, found.reduced))
    if m is None or n is None or k is None or n > _FEW_COLUMNS or m < _MANY * n or k < _DEEP:
        return found
    if stride_along(found.left, found.rows) != 1 or stride_along(found.left, found.reduced) == 1:
        return found
    sides = {"left": found.right, "right": found.left}
    return replace(found, **sides, rows=found.columns, columns=found.rows)


def _dispatch_by_rows(
    found: Contraction, few: Sequence[tuple[int, Plan]], least: int, many: Plan
) -> Plan:
    """Dispatch at run time between plans for at most so many rows, and one for more.

    Those for several rows take ``least`` steps at least.
    """
    stmt, choices, rows = many.stmt, many.choices, extent_of(found.rows)
    for most, plan in reversed(few):
        fits = Eq(rows, imm64(1)) if most == 1 else LE(rows, imm64(most))
        if most > 1 and size_of(found.reduced) is None:
            fits = And(fits, LE(imm64(least), extent_of(found.reduced)))
        stmt = IfThenElse(fits, plan.stmt, stmt)
        choices = (f"where rows are at most {most}: {'; '.join(plan.choices)}", *choices)
    return replace(many, stmt=stmt, choices=choices)
