"""Decide which constant operands (weights) of a GEMM are packed before any call."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from loomir.autoschedule.builders.loops import loop
from loomir.autoschedule.builders.operand_access import load_under_casts, size_of
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.ir.visit import by_class
from loomir.target import Target
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.stmt import Stmt

__all__ = ["FEW_ROWS", "is_constant", "is_prepacked", "keeps_narrow_panels", "loop_over_steps"]

FEW_ROWS: Final = 64
"""Rows up to which a product is bound by reading its weights rather than by arithmetic."""


def is_constant(found: Contraction, factor: PrimExpr, constants: Set[Var]) -> bool:
    """Whether an operand is a constant array of static size that packing does not widen.

    Rows that are looked up are constant where the array of their numbers is one too.
    """
    load = load_under_casts(factor)
    if load is None or load.buffer.strides:
        return False
    if any(part.buffer.data not in constants for part in by_class(load).get(BufferLoad, ())):
        return False
    if load.buffer.dtype.bits < factor.dtype.bits:
        return False
    known = (*found.batch, *found.rows, *found.columns, *found.reduced)
    axes = {axis.var for axis in known}
    used = {var for index in load.indices for var in by_class(index).get(Var, ())}
    sizes = [axis.size for axis in known if axis.var in used]
    return used <= axes and None not in (*sizes, size_of(found.reduced), size_of(found.batch))


def keeps_narrow_panels(found: Contraction, constants: Set[Var]) -> bool:
    """Whether the right operand is a 16-bit constant that few rows read: panels keep the 16 bits.

    Each panel is then converted where it is read, for each tile of rows, and half as much is read.
    """
    load, rows = load_under_casts(found.right), size_of(found.rows)
    if load is None or load.buffer.dtype.bits != 16 or not load.buffer.dtype.is_float:
        return False
    few = rows is None or rows <= FEW_ROWS
    return few and found.dtype.bits == 32 and is_constant(found, load, constants)


def is_prepacked(found: Contraction, constants: Set[Var]) -> bool:
    """Whether the right operand is a constant, which is read as prepacked panels."""
    return is_constant(found, found.right, constants) or keeps_narrow_panels(found, constants)


_AT_ONCE: Final = 8
"""Unroll factor of the innermost loop: large products take 0.92 of the time of 1 (on a Xeon)."""


def loop_over_steps(depth: PrimExpr, target: Target, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Loop over all steps of a panel."""
    # Without FMA products need registers of their own: unrolling would spill.
    return loop("k", depth, body, at_once=_AT_ONCE if target.fma else 1)
