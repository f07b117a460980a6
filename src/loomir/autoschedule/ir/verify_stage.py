"""Verify a single stage: the invariants on which rewrites and rules rely."""

from __future__ import annotations

from collections.abc import Iterator

from loomir.arith.fold import INT64
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Add, IntImm, PrimExpr, Var

__all__ = ["stage_violations"]


def stage_violations(stage: Stage, *, of_block: bool = False) -> Iterator[str]:
    """List what contradicts the definition of a stage; nothing if it is well-formed.

    A stage ``of_block`` computes elements from a place on that loops around it determine.
    """
    yield from _verify_axes((*stage.axes, *stage.reduced))
    yield from _verify_indices(stage, of_block)
    yield from _verify_values(stage)
    yield from _verify_reduction(stage)


def _verify_axes(axes: tuple[Axis, ...]) -> Iterator[str]:
    names = {axis.var for axis in axes}
    if len(names) < len(axes):
        yield "two axes have one variable"
    for var, extent in axes:
        if var.dtype is not INT64 or extent.dtype is not INT64:
            yield f"axis {var.name_hint!r} is {var.dtype} up to {extent.dtype}, not int64"
        if isinstance(extent, IntImm):
            if extent.value < 0:
                yield f"axis {var.name_hint!r} has the extent {extent.value}"
        elif names & set(by_class(extent).get(Var, ())):
            yield f"the extent of axis {var.name_hint!r} depends on another axis"


def _verify_indices(stage: Stage, of_block: bool) -> Iterator[str]:
    buffer, indices = stage.buffer, stage.indices
    if len(indices) != len(buffer.shape):
        yield f"{len(indices)} indices for {len(buffer.shape)} dimensions of {buffer.name!r}"
    reduced = {axis.var for axis in stage.reduced}
    left = {axis.var: axis for axis in stage.axes}
    axes = reduced | left.keys()
    for number, index in enumerate(indices):
        base, start = _split_start(index)
        if start is not None and not isinstance(start, IntImm):
            moves = set(by_class(start).get(Var, ())) & axes
            base = index if moves or not of_block else base
        if isinstance(base, IntImm):
            continue
        if not isinstance(base, Var):
            yield f"index {number} is {index}, neither an axis nor a number nor their sum"
        elif base in reduced:
            yield f"index {number} is {index}, and {base.name_hint!r} is reduced"
        elif left.pop(base, None) is None and any(axis.var is base for axis in stage.axes):
            yield f"axis {base.name_hint!r} is in two indices"
    for axis in left.values():
        if axis.size != 1:
            yield f"one element is written for each value of {axis.var.name_hint!r}"


def _split_start(index: PrimExpr) -> tuple[PrimExpr, PrimExpr | None]:
    """Split an index into an axis or a number, and what is added to it."""
    if not isinstance(index, Add):
        return index, None
    return (index.b, index.a) if isinstance(index.b, Var) else (index.a, index.b)


def _verify_values(stage: Stage) -> Iterator[str]:
    dtype = stage.buffer.dtype
    if stage.value.dtype is not dtype:
        yield f"a value of {stage.value.dtype} is stored to {stage.buffer.name!r} of {dtype}"
    if stage.init is not None and stage.init.dtype is not dtype:
        yield f"a sum of {dtype} starts from a value of {stage.init.dtype}"
    for load in _list_own_loads(stage, stage.value):
        if not stage.in_place:
            yield f"the value reads {stage.buffer.name!r}, which is being computed"
        elif not all(map(structural_equal, load.indices, stage.indices)):
            yield f"the value reads another element of {stage.buffer.name!r} than is stored"
    if stage.init is not None and _list_own_loads(stage, stage.init):
        yield f"what an element starts from reads {stage.buffer.name!r}"


def _list_own_loads(stage: Stage, value: PrimExpr) -> list[BufferLoad]:
    loads: list[BufferLoad] = by_class(value).get(BufferLoad, [])
    return [load for load in loads if load.buffer is stage.buffer]


def _verify_reduction(stage: Stage) -> Iterator[str]:
    if stage.init is not None:
        reduced = {axis.var for axis in stage.reduced}
        for var in reduced & set(by_class(stage.init).get(Var, ())):
            yield f"{var.name_hint!r} is reduced, and used in what an element starts from"
    if stage.combine is Combine.NONE:
        if stage.reduced:
            yield "nothing combines the terms of its reduced axes"
        if stage.init is not None:
            yield "it starts from a value to which nothing is added"
    elif stage.in_place:
        yield "a reduction is no update in place"
