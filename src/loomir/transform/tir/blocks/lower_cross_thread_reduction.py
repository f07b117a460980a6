"""Lower cross-thread reductions to serial loops."""

from __future__ import annotations

from loomir.ir.passes import register
from loomir.tir.analysis.cross_thread import serialize_cross_thread_reductions
from loomir.tir.function import PrimFunc

__all__ = ["lower_cross_thread_reduction"]


@register("tir.LowerCrossThreadReduction")
def lower_cross_thread_reduction(func: PrimFunc) -> PrimFunc:
    """Make loops of threads serial that a reduction block reduces over.

    A CPU combines the terms one after another; other loops of threads stay unchanged.
    """
    return serialize_cross_thread_reductions(func)
