"""Prepack constant operands: hoist what depends only on constant arguments out of a function."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from loomir.autoschedule.builders.fold import fold_constants
from loomir.autoschedule.driver import SCHEDULED, ScheduledFunction, schedule_function
from loomir.autoschedule.ir.plan import Prepack
from loomir.autoschedule.rewrite.def_use import reads_of
from loomir.ir.node import Node
from loomir.support.dtype import HANDLE
from loomir.target import Target
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.analysis.written_buffers import written_buffers
from loomir.tir.buffer import Buffer, decl_buffer
from loomir.tir.expr import IntImm, Var
from loomir.tir.function import PrimFunc
from loomir.tir.prepared_function import Argument, Preparation, PreparedBuffer, PreparedFunction
from loomir.tir.types import VOID_TYPE

__all__ = ["LEAST", "prepare_constants", "schedule_with_constants"]

LEAST: Final = 1 << 12
"""Elements of a constant from which it is worth a function that packs it."""


def prepare_constants(
    func: PrimFunc, constants: Set[int], target: Target, *, least: int = LEAST
) -> PreparedFunction | None:
    """Schedule a function of which some arguments never change; None if that changes nothing.

    ``constants`` are places of parameters. What the schedule packs of them becomes a parameter, in
    the place of the first constant that it is made of, and functions that pack it. Constants of
    fewer elements than ``least`` are read as they are.
    """
    return schedule_with_constants(func, constants, target, least=least)[1]


def schedule_with_constants(
    func: PrimFunc, constants: Set[int], target: Target, *, least: int = LEAST
) -> tuple[ScheduledFunction, PreparedFunction | None]:
    """Return the schedule besides, with what was decided."""
    written = {buffer.data for buffer in written_buffers(func)}
    known = {
        func.buffer_map[param].data: place
        for place, param in enumerate(func.params)
        if place in constants
        and _size(func.buffer_map.get(param)) >= least
        and func.buffer_map[param].data not in written
    }
    made = schedule_function(func, target, constants=known.keys()) if known else None
    ahead = [] if made is None else [part for plan in made.plans for part in plan.ahead]
    if made is None or not ahead:
        return ScheduledFunction(func, ()), None
    taken = [tuple(sorted(_places(part, known))) for part in ahead]
    preparations = tuple(
        [_preparation(func, part, places) for part, places in zip(ahead, taken, strict=True)]
    )
    read = reads_of(made.func.body)
    params: list[Var] = []
    arrays: dict[Var, Buffer] = {}
    arguments: list[Argument] = []
    for place, param in enumerate(func.params):
        for number, (part, places) in enumerate(zip(ahead, taken, strict=True)):
            for k, buffer in enumerate(part.buffers if places[0] == place else ()):
                handle = Var(f"{buffer.name}_handle", HANDLE)
                params.append(handle)
                arrays[handle] = buffer
                arguments.append(PreparedBuffer(number, k))
        buffer = func.buffer_map.get(param)
        packed = buffer is not None and known.get(buffer.data) == place
        if buffer is None or not packed or id(buffer.data) in read:
            params.append(param)
            arguments.append(place)
            if buffer is not None:
                arrays[param] = buffer
    body, span = made.func.body, func.span
    new = PrimFunc(tuple(params), body, func.ret_type, arrays, made.func.attrs, span=span)
    return made._replace(func=new), PreparedFunction(new, tuple(arguments), preparations)


def _size(buffer: Buffer | None) -> int:
    """Count the elements of an array; -1 where it binds names by its shape."""
    if buffer is None or buffer.strides or isinstance(buffer.elem_offset, Var):
        return -1
    size = 1
    for extent in buffer.shape:
        if not isinstance(extent, IntImm):
            return -1
        size *= extent.value
    return size


def _places(part: Prepack, known: dict[Var, int]) -> Iterable[int]:
    read = reads_of(part.stmt)
    return (place for data, place in known.items() if id(data) in read)


def _preparation(func: PrimFunc, part: Prepack, places: tuple[int, ...]) -> Preparation:
    """Write a statement as a function, with names of its own."""
    inputs = [func.buffer_map[func.params[place]] for place in places]
    table: dict[Node, Node] = {}
    arrays: dict[Var, Buffer] = {}
    for buffer in (*inputs, *part.buffers):
        own = decl_buffer(
            buffer.shape, buffer.dtype, buffer.name, data_alignment=buffer.data_alignment
        )
        table[buffer], table[buffer.data] = own, own.data
        arrays[Var(f"{buffer.name}_handle", HANDLE)] = own
    body = fold_constants(fresh_copy(part.stmt, table))
    attrs = {"global_symbol": f"pack_{inputs[0].name}", SCHEDULED: True}
    return Preparation(PrimFunc(tuple(arrays), body, VOID_TYPE, arrays, attrs), places)
