"""Whether loops are shaped: nothing is left for LLVM to gain by rearranging them.

The default schedule, or somebody by hand, wrote what is worth it as vectors. Then LLVM's loop
passes, most of the time that it takes, find nothing to do.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any, Final

from loomir.ir.equality import structural_equal
from loomir.ir.hashing import structural_hash
from loomir.ir.visit import by_class
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import (
    Add,
    Call,
    FloatImm,
    FloorDiv,
    IntImm,
    Let,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.op import BUILTINS, IF_THEN_ELSE
from loomir.tir.stmt import Allocate, BufferStore, For, LetStmt, While

__all__ = ["is_shaped"]

_SHORT: Final = 8
_STEP: Final = 16
_WRITTEN_OUT: Final = 64
"""Stores of loops, all iterations counted, up to which LLVM writes them out."""
_REINTERPRET: Final = BUILTINS["reinterpret"].op
_XOR: Final = BUILTINS["bitwise_xor"].op


def is_shaped(func: PrimFunc) -> bool:
    """Whether no innermost loop of a lowered function would gain from vectors.

    One that computes scalars would, or copies neighbours; one that moves single elements would not.
    """
    found: dict[Any, list[Any]] = by_class(func.body)
    if While in found:
        return False
    stores: list[BufferStore] = found.get(BufferStore, [])
    registers = _registers(found)
    # Where nothing is a vector, short loops are not what is left at an end or a border.
    has_vectors = any(store.value.dtype.lanes > 1 for store in stores)
    for loop in found.get(For, ()):
        if has_vectors and _is_short(loop.extent):
            continue
        inner: dict[Any, list[Any]] = by_class(loop.body)
        if _accumulates(loop.loop_var, inner, registers):
            return False
        if For in inner:
            continue
        if any(_would_gain(store, loop.loop_var) for store in inner.get(BufferStore, ())):
            return False
    return True


def _registers(found: dict[Any, list[Any]]) -> set[Var]:
    """Find the memory that LLVM takes for registers at once: all accesses are at constants."""
    made: set[Var] = {s.buffer_var for s in found.get(Allocate, ())}
    for access in (*found.get(BufferLoad, ()), *found.get(BufferStore, ())):
        if access.buffer.data in made and any(Var in by_class(i) for i in access.indices):
            made.discard(access.buffer.data)
    return made


def _accumulates(var: Var, inner: dict[Any, list[Any]], registers: set[Var]) -> bool:
    """Whether a loop reads and writes one place in memory that LLVM would keep in a register.

    It does so for the time of an innermost loop, or of one that is so once the short ones in it are
    written out.
    """
    stores: list[BufferStore] = inner.get(BufferStore, [])
    loops: list[For] = inner.get(For, [])
    if loops and len(stores) * prod(_iterations(s.extent) for s in loops) > _WRITTEN_OUT:
        return False
    loaded = {_place(load) for load in inner.get(BufferLoad, ())}
    changes = {var, *(part.var for part in (*inner.get(LetStmt, ()), *inner.get(Let, ())))}
    return any(
        store.buffer.data not in registers
        and _place(store) in loaded
        and changes.isdisjoint(by_class(store.indices[0]).get(Var, ()))
        for store in stores
    )


def _place(access: BufferLoad | BufferStore) -> tuple[Var, int]:
    (index,) = access.indices
    return access.buffer.data, structural_hash(index)


def _iterations(extent: PrimExpr) -> float:
    return extent.value if isinstance(extent, IntImm) else math.inf


def _is_short(extent: PrimExpr) -> bool:
    """Whether so few iterations are no loss, whatever becomes of them."""
    if isinstance(extent, IntImm):
        return extent.value <= _SHORT
    # What whole steps leave: x - x // step * step.
    if not (isinstance(extent, Sub) and isinstance(extent.b, Mul)):
        return False
    whole, step = extent.b.a, extent.b.b
    if not (isinstance(whole, FloorDiv) and isinstance(step, IntImm) and step.value <= _STEP):
        return False
    return structural_equal(whole.b, step) and structural_equal(whole.a, extent.a)


def _would_gain(store: BufferStore, var: Var) -> bool:
    if store.value.dtype.lanes > 1:
        return False
    beside = _step(store.indices, var) == 1
    todo: list[PrimExpr] = [store.value]
    while todo:
        value = todo.pop()
        if isinstance(value, BufferLoad):
            if beside and value.dtype.lanes == 1 and _step(value.indices, var) == 1:
                return True
        elif isinstance(value, Select):
            todo += value.true_value, value.false_value
        elif isinstance(value, Call) and value.op is IF_THEN_ELSE:
            todo += value.args[1:]
        elif isinstance(value, Call) and value.op is _REINTERPRET:
            todo += value.args
        elif isinstance(value, Call) and value.op is _XOR and not beside:
            todo += value.args  # signs of bytes are turned as they are moved
        elif not isinstance(value, IntImm | FloatImm | Var):
            return True
    return False


def _step(indices: tuple[PrimExpr, ...], var: Var) -> int | None:
    """Give by how much an index grows in each iteration; None where that is not plain to see."""
    (index,) = indices
    step = 0
    todo = [(index, 1)]
    while todo:
        part, factor = todo.pop()
        if part is var:
            step += factor
        elif isinstance(part, Add):
            todo += (part.a, factor), (part.b, factor)
        elif isinstance(part, Sub):
            todo += (part.a, factor), (part.b, -factor)
        elif isinstance(part, Mul) and isinstance(part.b, IntImm):
            todo.append((part.a, factor * part.b.value))
        elif var in by_class(part).get(Var, ()):
            return None
    return step
