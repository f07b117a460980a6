"""Forward a copy: let a reduction write to the array into which its results are copied.

Loops that sum into ``acc`` and then store ``o[i, j] = acc`` are distributed into a nest that sums
into a temporary array and a nest that copies it. This rewrite removes the array and the copy.
"""

from __future__ import annotations

from dataclasses import replace

from loomir.arith.fold import imm64, int64
from loomir.autoschedule.ir.stage import Combine, LiftedFunction, Stage, has_zero_trip_case
from loomir.autoschedule.rewrite.def_use import Usage
from loomir.ir.equality import structural_equal
from loomir.ir.substitution import substitute
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import PrimExpr, Var

__all__ = ["compute_at", "forward_copies"]


def forward_copies(kernel: LiftedFunction) -> LiftedFunction:
    """Redirect reductions into temporary buffers to the arrays into which these are copied."""
    usage = Usage(kernel.parts)
    inner = {id(b.data) for b in kernel.between}
    for place, part in enumerate(kernel.parts):
        if isinstance(part, Stage) and id(part.buffer.data) in inner:
            _forward(usage, place, part)
    left = tuple(part for part in usage.parts if part is not None)
    if len(left) == len(kernel.parts):
        return kernel
    used = usage.memory()
    between = tuple(b for b in kernel.between if id(b.data) in used)
    return LiftedFunction(kernel.func, left, between)


def _forward(usage: Usage, place: int, stage: Stage) -> None:
    data = id(stage.buffer.data)
    if stage.combine is Combine.NONE or stage.init is None or has_zero_trip_case(stage):
        return
    readers = [reader for reader in usage.readers(data) if reader != place]
    if len(readers) != 1 or readers[0] < place or any(w != place for w in usage.writers(data)):
        return
    copy = usage.parts[readers[0]]
    made = _redirect(stage, copy) if isinstance(copy, Stage) else None
    if made is None:
        return
    target = id(made.buffer.data)
    between = range(place, readers[0])
    if any(p in between for p in usage.readers(target)) or target in stage.reads():
        return
    if any(p in between for p in usage.writers(target)):
        return
    usage.put(place, made)
    usage.put(readers[0], None)


def _redirect(stage: Stage, copy: Stage) -> Stage | None:
    """Return the reduction, writing to a copy's target; None if the copy is not plain."""
    if copy.combine is not Combine.NONE or not isinstance(copy.value, BufferLoad):
        return None
    return compute_at(stage, copy.value, copy)


def compute_at(stage: Stage, load: BufferLoad, reader: Stage) -> Stage | None:
    """Rewrite a reduction over the axes of its reader, to write what that writes.

    None if the reader does not load each element of the reduction once, in its own iteration.
    """
    if load.buffer is not stage.buffer or load.dtype.lanes != 1 or stage.init is None:
        return None
    table: dict[Var, PrimExpr] = {}
    own = {axis.var: axis for axis in stage.axes}
    left = {axis.var: axis for axis in reader.axes}
    for written, read in zip(stage.indices, load.indices, strict=True):
        if isinstance(written, Var) and isinstance(read, Var):
            axis, other = own.pop(written, None), left.pop(read, None)
            if axis is None or other is None or not structural_equal(axis.extent, other.extent):
                return None
            table[written] = read
        elif not structural_equal(int64(written), int64(read)):
            return None
    if any(axis.size != 1 for axis in (*own.values(), *left.values())):
        return None
    table.update(dict.fromkeys(own, imm64(0)))
    return replace(
        stage,
        name=reader.name,
        axes=reader.axes,
        buffer=reader.buffer,
        indices=reader.indices,
        value=substitute(stage.value, table),
        init=substitute(stage.init, table),
    )
