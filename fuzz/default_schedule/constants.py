"""Test schedules with constant arguments, by moving their prepacking into the call.

Products with prepacked operands have schedules of their own. With the prepacking in front of the
loops, a function keeps its parameters, and is checked like any other.
"""

from __future__ import annotations

from collections.abc import Set
from contextlib import AbstractContextManager
from typing import Any, cast
from unittest import mock

from fuzz.choices import Choices
from loomir.autoschedule.builders.loops import allocate
from loomir.autoschedule.driver import ScheduledFunction, schedule_function
from loomir.driver import choose_packing
from loomir.target import Target
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.analysis.written_buffers import written_buffers
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, Var
from loomir.tir.function import PrimFunc

__all__ = ["constants_of", "packs_small", "schedule_with"]


def constants_of(func: PrimFunc, choices: Choices, share: float = 0.6) -> frozenset[Var]:
    """Draw which arrays that a function only reads never change: so many of them."""
    written = {buffer.data for buffer in written_buffers(func)}
    arrays = [b for b in func.buffer_map.values() if b.data not in written and _is_fixed(b)]
    return frozenset(buffer.data for buffer in arrays if choices.chance(share))


def _is_fixed(buffer: Buffer) -> bool:
    fixed = all(isinstance(extent, IntImm) for extent in buffer.shape)
    return fixed and not buffer.strides and not isinstance(buffer.elem_offset, Var)


def packs_small() -> AbstractContextManager[object]:
    """Pack constants however few elements they have."""
    return mock.patch.dict(cast("Any", choose_packing).__kwdefaults__, least=1)


def schedule_with(func: PrimFunc, constants: Set[Var], target: Target) -> ScheduledFunction:
    """Schedule a function of which some arrays never change; packs them first."""
    made = schedule_function(func, target, constants=constants)
    ahead = [part for plan in made.plans for part in plan.ahead]
    if not ahead:
        return made
    buffers = [buffer for part in ahead for buffer in part.buffers]
    stmts = [fresh_copy(part.stmt, {b: b for b in part.buffers}) for part in ahead]
    body = allocate(buffers, *stmts, made.func.body, name="root")
    attrs, span = made.func.attrs, func.span
    new = PrimFunc(func.params, body, func.ret_type, func.buffer_map, attrs, span=span)
    return made._replace(func=new)
