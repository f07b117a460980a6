"""Multi-versioning of a blocked GEMM: if sizes are dynamic, add variants for few rows."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Final

from loomir.arith.fold import imm64
from loomir.autoschedule.builders.operand_access import size_of
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rules.matmul.blocked_product import BlockedProduct
from loomir.autoschedule.rules.matmul.collapse_axes import Views
from loomir.autoschedule.rules.matmul.operands import Source
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import MOST_STREAMED
from loomir.target import Target
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, Min, PrimExpr, Var
from loomir.tir.stmt import IfThenElse

__all__ = ["plan_blocked"]

_ROWS: Final = (1, 4, MOST_STREAMED)
"""Rows for which there are variants (at most so many), if the number of rows is dynamic.

8 x 4096 x 4096 take 0.15 of the time of panels packed for any number of rows (on a Xeon, Emerald
Rapids).
"""
_PACKED_ROWS: Final = 128
"""Rows up to which columns that must be packed are packed block by block."""


def plan_blocked(
    found: Contraction,
    target: Target,
    inner: Set[Buffer],
    views: Views,
    constants: Set[Var] = frozenset(),
) -> Plan:
    """Plan a blocked GEMM; operands that are ``constants`` are prepacked.

    Where sizes are dynamic, variants for few rows are dispatched at run time beside the general
    one.
    """
    plan = BlockedProduct(found, target, inner, views, constants).plan()
    if plan.ahead:
        return plan
    stmt, choices = plan.stmt, plan.choices
    for few in reversed(_list_variants(found, target, inner, views)):
        made, fits = few.plan(), few.guard()
        if isinstance(fits, IntImm):
            return made
        stmt = IfThenElse(fits, made.stmt, stmt)
        choices = (f"where {few.describe_guard()}: {'; '.join(made.choices)}", *choices)
    return replace(plan, stmt=stmt, choices=choices)


def _list_variants(
    found: Contraction, target: Target, inner: Set[Buffer], views: Views
) -> list[BlockedProduct]:
    """List the variants for few rows, where the number of rows is dynamic."""
    m = size_of(found.rows)
    if None not in (m, size_of(found.columns), size_of(found.reduced)):
        return []
    many = [axis for axis in found.rows if axis.size != 1]
    if m is None and len(many) != 1:
        return []
    made: list[BlockedProduct] = []
    known = m if m is not None else _find_upper_bound(many[0].extent)
    if m is None and known is not None:
        few = BlockedProduct(found, target, inner, views, frozenset(), known)
        return [few] if few.streamed else []
    for most in (*_ROWS, _PACKED_ROWS) if m is None else (m,):
        rows = found.rows
        if m is None and most == 1:  # the others are 0
            rows = tuple([axis if axis.size == 1 else Axis(axis.var, imm64(1)) for axis in rows])
        few = BlockedProduct(
            replace(found, rows=rows), target, inner, views, frozenset(), most, many
        )
        packed = most == _PACKED_ROWS and not made
        if few.streamed or (packed and few.right.source is Source.BLOCK):
            made.append(few)
    return made


def _find_upper_bound(extent: PrimExpr) -> int | None:
    """Return the static upper bound of an extent, where it has one."""
    bounds = [extent.a, extent.b] if isinstance(extent, Min) else []
    return next((b.value for b in bounds if isinstance(b, IntImm) and b.value > 0), None)
