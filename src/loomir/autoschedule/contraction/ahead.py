"""Which factors of a product are constant, so that they are packed before any call."""

from __future__ import annotations

from collections.abc import Set

from loomir.autoschedule.contraction.operand import plain_load, size_of
from loomir.autoschedule.contraction.recognise import Contraction
from loomir.ir.visit import by_class
from loomir.tir.expr import PrimExpr, Var

__all__ = ["is_constant", "packs_ahead"]


def is_constant(found: Contraction, factor: PrimExpr, constants: Set[Var]) -> bool:
    """Whether a factor is a constant array, all of known size, that packing does not widen."""
    load = plain_load(factor)
    if load is None or load.buffer.data not in constants or load.buffer.strides:
        return False
    if load.buffer.dtype.bits < factor.dtype.bits:
        return False
    known = (*found.batch, *found.rows, *found.columns, *found.reduced)
    axes = {axis.var for axis in known}
    used = {var for index in load.indices for var in by_class(index).get(Var, ())}
    sizes = [axis.size for axis in known if axis.var in used]
    return used <= axes and None not in (*sizes, size_of(found.reduced), size_of(found.batch))


def packs_ahead(found: Contraction, constants: Set[Var]) -> bool:
    """Whether the columns are those of a constant, so that they are read as packed panels."""
    return is_constant(found, found.right, constants)
