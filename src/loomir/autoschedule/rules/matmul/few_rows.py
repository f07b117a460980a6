"""Products in blocks: where sizes are known at run time only, kernels for few rows stand by."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Final

from loomir.arith.fold import imm64
from loomir.autoschedule.builders.operand_access import size_of
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rules.matmul.blocked import Blocked
from loomir.autoschedule.rules.matmul.collapse_axes import Views
from loomir.autoschedule.rules.matmul.operands import Source
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import MOST_STREAMED
from loomir.target import Target
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, Min, PrimExpr, Var
from loomir.tir.stmt import IfThenElse

__all__ = ["blocked"]

_ROWS: Final = (1, 4, MOST_STREAMED)
"""Rows up to which there are kernels of their own, where their number is not known.

8 x 4096 x 4096 take 0.15 of the time that they take in panels packed for any number of rows.
"""
_PACKED_ROWS: Final = 128
"""Rows up to which columns that must be packed are packed where they are used."""


def blocked(
    found: Contraction,
    target: Target,
    inner: Set[Buffer],
    views: Views,
    constants: Set[Var] = frozenset(),
) -> Plan:
    """Plan a product in blocks; factors that are ``constants`` are packed ahead.

    Where sizes are known at run time only, kernels for few rows stand beside the one for many.
    """
    plan = Blocked(found, target, inner, views, constants).plan()
    if plan.ahead:
        return plan
    stmt, choices = plan.stmt, plan.choices
    for few in reversed(_few_rows(found, target, inner, views)):
        made, fits = few.plan(), few.fits()
        if isinstance(fits, IntImm):
            return made
        stmt = IfThenElse(fits, made.stmt, stmt)
        choices = (f"where {few.asked()}: {'; '.join(made.choices)}", *choices)
    return replace(plan, stmt=stmt, choices=choices)


def _few_rows(
    found: Contraction, target: Target, inner: Set[Buffer], views: Views
) -> list[Blocked]:
    """List what computes few rows, where it is known at run time whether they are."""
    m = size_of(found.rows)
    if None not in (m, size_of(found.columns), size_of(found.reduced)):
        return []
    many = [axis for axis in found.rows if axis.size != 1]
    if m is None and len(many) != 1:
        return []
    made: list[Blocked] = []
    known = m if m is not None else _at_most(many[0].extent)
    if m is None and known is not None:
        few = Blocked(found, target, inner, views, frozenset(), known)
        return [few] if few.streamed else []
    for most in (*_ROWS, _PACKED_ROWS) if m is None else (m,):
        rows = found.rows
        if m is None and most == 1:  # the others are 0
            rows = tuple([axis if axis.size == 1 else Axis(axis.var, imm64(1)) for axis in rows])
        few = Blocked(replace(found, rows=rows), target, inner, views, frozenset(), most, many)
        packed = most == _PACKED_ROWS and not made
        if few.streamed or (packed and few.right.source is Source.BLOCK):
            made.append(few)
    return made


def _at_most(extent: PrimExpr) -> int | None:
    """Give how many rows there are at most, where they are few for certain."""
    bounds = [extent.a, extent.b] if isinstance(extent, Min) else []
    return next((b.value for b in bounds if isinstance(b, IntImm) and b.value > 0), None)
