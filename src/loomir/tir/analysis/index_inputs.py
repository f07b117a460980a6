"""Find the parameters whose elements are used as indices, with the extents that bound them."""

from __future__ import annotations

from typing import NamedTuple

from loomir.ir.visit import by_class, pre_order
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import CHECKED_INDEX
from loomir.tir.expr import Add, Call, Cast, IntImm, Mul, PrimExpr, Sub, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BufferStore, For, LetStmt

__all__ = ["IndexInput", "index_inputs"]


class IndexInput(NamedTuple):
    """An array of indices: its elements, times a factor, must be less than an extent.

    ``is_bound``: loops begin and end at them, so they are ascending, and the extent itself may
    be among them.
    """

    buffer: Buffer
    extent: PrimExpr
    factor: int
    is_bound: bool


def index_inputs(func: PrimFunc) -> list[IndexInput]:
    """List the uses of parameters of integers as indices, or as ends of loops over indices."""
    inputs = {id(b): b for b in func.buffer_map.values() if b.dtype.is_integer}
    named: dict[int, PrimExpr] = {}
    ends: dict[int, list[BufferLoad]] = {}
    places: list[tuple[PrimExpr, PrimExpr]] = []
    for part in pre_order(func.body):
        if isinstance(part, LetStmt):
            named[id(part.var)] = part.value
        elif isinstance(part, For):
            loads = [x for e in (part.min, part.extent) for x in by_class(e).get(BufferLoad, ())]
            ends[id(part.loop_var)] = [x for x in loads if id(x.buffer) in inputs]
        elif isinstance(part, (BufferLoad, BufferStore)):
            places += zip(part.indices, part.buffer.shape)
        elif isinstance(part, Call) and part.op is CHECKED_INDEX:
            places.append((part.args[0], part.args[1]))
    return [use for at, extent in places for use in _terms(at, extent, inputs, named, ends)]


def _terms(
    index: PrimExpr,
    extent: PrimExpr,
    inputs: dict[int, Buffer],
    named: dict[int, PrimExpr],
    ends: dict[int, list[BufferLoad]],
) -> list[IndexInput]:
    """List the parameters that are terms of an index, which is a sum."""
    found: list[IndexInput] = []
    seen: set[int] = set()
    pending = [(index, 1)]
    while pending:
        part, factor = pending.pop()
        if isinstance(part, (Add, Sub)):
            pending += [(part.a, factor), (part.b, factor)]
        elif isinstance(part, Mul) and isinstance(part.b, IntImm):
            pending.append((part.a, factor * max(abs(part.b.value), 1)))
        elif isinstance(part, Mul) and isinstance(part.a, IntImm):
            pending.append((part.b, factor * max(abs(part.a.value), 1)))
        elif isinstance(part, Cast):
            pending.append((part.value, factor))
        elif isinstance(part, BufferLoad) and id(part.buffer) in inputs:
            found.append(IndexInput(part.buffer, extent, factor, False))
        elif isinstance(part, Var) and id(part) not in seen:
            seen.add(id(part))
            if id(part) in named:
                pending.append((named[id(part)], factor))
            for load in ends.get(id(part), ()):
                found.append(IndexInput(load.buffer, extent, factor, True))
    return found
