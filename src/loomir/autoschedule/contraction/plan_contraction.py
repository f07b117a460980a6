"""The rule for matrix products: choose a schedule by size, and write its loops."""

from __future__ import annotations

from collections.abc import Sequence, Set

from loomir.autoschedule.contraction.blocks import blocked
from loomir.autoschedule.contraction.dot_products import dot_products
from loomir.autoschedule.contraction.recognise import recognise
from loomir.autoschedule.plan import Plan
from loomir.autoschedule.stage import Stage
from loomir.target import Target
from loomir.tir.buffer import Buffer

__all__ = ["plan_contraction"]


def plan_contraction(
    stages: Sequence[Stage], target: Target, *, inner: Set[Buffer] = frozenset()
) -> Plan | None:
    """Plan a stage that sums products, and the stages after it that use its elements one by one.

    ``inner`` are buffers that nothing reads after these stages. None where the stages are no such
    thing.
    """
    found = recognise(stages)
    if found is None:
        return None
    return dot_products(found, target, inner) or blocked(found, target, inner)
