"""Put the values of element-wise stages where they are used, in place of keeping them in memory.

As inside of fused kernels: an expression moves where it is computed no more often than before, or
where it is cheap. Each operation rounds as before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from loomir.arith.fold import imm64, int64
from loomir.autoschedule.instance import at
from loomir.autoschedule.stage import Combine, Kernel, Stage
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class, rewrite
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Call, Div, FloorDiv, FloorMod, IntImm, Let, Mod, PrimExpr, Var
from loomir.tir.op import IF_THEN_ELSE
from loomir.tir.stmt import BufferStore, Stmt

__all__ = ["inline_stages", "reads_of", "writes_of"]

_CHEAP: Final = 24
"""Nodes of an expression that may be computed several times."""
_FEW: Final = 3
"""Places at which it may be computed."""
_COSTLY: Final = (Div, FloorDiv, FloorMod, Mod)


def reads_of(part: Stage | Stmt) -> set[int]:
    """Give the memory that a part reads, by the identity of its pointer."""
    if isinstance(part, Stage):
        values = [part.value] if part.init is None else [part.value, part.init]
        found = {id(p.buffer.data) for v in values for p in by_class(v).get(BufferLoad, ())}
        return found | {id(part.buffer.data)} if part.init is None else found
    return {id(v) for v in by_class(part).get(Var, ())} | _data_of(part)


def _data_of(part: Stmt) -> set[int]:
    found = by_class(part)
    accesses = [*found.get(BufferLoad, ()), *found.get(BufferStore, ())]
    return {id(a.buffer.data) for a in accesses} | {id(b.data) for b in found.get(Buffer, ())}


def writes_of(part: Stage | Stmt) -> set[int]:
    """Give the memory that a part may write."""
    return {id(part.buffer.data)} if isinstance(part, Stage) else reads_of(part)


def inline_stages(kernel: Kernel) -> Kernel:
    """Remove the stages of buffers between whose values can stand where they are used."""
    parts: list[Stage | Stmt | None] = list(kernel.parts)
    inner = {id(b.data) for b in kernel.between}
    for k in reversed(range(len(parts))):
        part = parts[k]
        if isinstance(part, Stage) and id(part.buffer.data) in inner and _is_whole(part):
            _inline(parts, k, part)
    left = tuple(part for part in parts if part is not None)
    if len(left) == len(parts):
        return kernel
    used = set[int]().union(*(writes_of(part) | reads_of(part) for part in left))
    between = tuple(b for b in kernel.between if id(b.data) in used)
    return Kernel(kernel.func, left, between)


def _is_whole(stage: Stage) -> bool:
    """Whether a stage computes each element of its buffer on its own."""
    if stage.combine is not Combine.NONE or stage.in_place or stage.reduced:
        return False
    extents = {axis.var: axis.extent for axis in stage.axes}
    for index, extent in zip(stage.indices, stage.buffer.shape):
        if isinstance(index, Var) and index in extents:
            if not structural_equal(extents[index], int64(extent)):
                return False
        elif not (isinstance(index, IntImm) and isinstance(extent, IntImm) and extent.value == 1):
            return False
    return True


def _inline(parts: list[Stage | Stmt | None], k: int, stage: Stage) -> None:
    data = id(stage.buffer.data)
    sources = reads_of(stage) - {data}
    readers: list[tuple[int, Stage]] = []
    for place, part in enumerate(parts):
        if part is None or place == k:
            continue
        if data in writes_of(part) or (place < k and data in reads_of(part)):
            return
        if data in reads_of(part):
            if not isinstance(part, Stage) or part.buffer is stage.buffer:
                return
            readers.append((place, part))
    if not readers:
        return
    last = readers[-1][0]
    for part in parts[k + 1 : last]:
        if part is not None and writes_of(part) & sources:
            return  # what it is made of does not stay
    if any(reader.buffer.data is load for _, reader in readers for load in _sources(stage)):
        return  # the reader would read what it writes
    if not _is_worth(stage, readers):
        return
    for place, reader in readers:
        parts[place] = _with_values(reader, stage)
    parts[k] = None


def _sources(stage: Stage) -> list[Var]:
    return [p.buffer.data for p in by_class(stage.value).get(BufferLoad, ())]


def _loads(stage: Stage, buffer: Buffer) -> list[BufferLoad]:
    values = [stage.value] if stage.init is None else [stage.value, stage.init]
    found = [p for v in values for p in by_class(v).get(BufferLoad, ())]
    return [p for p in found if p.buffer.data is buffer.data]


def _is_worth(stage: Stage, readers: list[tuple[int, Stage]]) -> bool:
    sites = [(reader, load) for _, reader in readers for load in _loads(reader, stage.buffer)]
    if any(load.buffer is not stage.buffer or load.dtype.lanes != 1 for _, load in sites):
        return False
    if len(sites) == 1 and _covers(*sites[0]):
        return True
    found = by_class(stage.value)
    if Let in found or len(sites) > _FEW:
        return False
    for cls, nodes in found.items():
        if issubclass(cls, _COSTLY):
            return False
        if issubclass(cls, Call) and any(node.op is not IF_THEN_ELSE for node in nodes):
            return False
    return sum(map(len, found.values())) <= _CHEAP


def _covers(reader: Stage, load: BufferLoad) -> bool:
    """Whether a stage loads each element at most about once."""
    named = {v for index in load.indices for v in by_class(index).get(Var, ())}
    axes = (*reader.axes, *reader.reduced)
    return all(axis.var in named or axis.size == 1 for axis in axes)


def _with_values(reader: Stage, stage: Stage) -> Stage:
    def value_of(load: BufferLoad) -> PrimExpr:
        if load.buffer is not stage.buffer:
            return load
        table: dict[Var, PrimExpr] = {axis.var: imm64(0) for axis in stage.axes}  # of one value
        pairs = zip(stage.indices, load.indices)
        table.update({i: int64(e) for i, e in pairs if isinstance(i, Var)})
        return at(stage.value, table)

    value = rewrite(reader.value, {BufferLoad: value_of})
    init = None if reader.init is None else rewrite(reader.init, {BufferLoad: value_of})
    return replace(reader, value=value, init=init)
