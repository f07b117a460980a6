"""Which factors of a product are constant, so that they are packed before any call."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from loomir.arith.fold import add, imm64, mul, sub
from loomir.autoschedule.contraction.operand import plain_load, size_of
from loomir.autoschedule.contraction.recognise import Contraction
from loomir.autoschedule.nest import loop
from loomir.ir.visit import by_class
from loomir.target import Target
from loomir.tir.expr import FloorDiv, IntImm, PrimExpr, Var
from loomir.tir.stmt import Stmt, seq

__all__ = ["FEW_ROWS", "STREAMS", "converted_later", "in_streams", "is_constant", "packs_ahead"]

FEW_ROWS: Final = 64
"""Rows up to which a product waits for its weights rather than for its sums."""

STREAMS: Final = 4
"""Places at which a panel is read at once: 64 MB of weights come in 5.5 ms so, in 9.6 from one."""


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


def converted_later(found: Contraction, constants: Set[Var]) -> bool:
    """Whether columns are a constant of 16 bits that few rows read: panels keep the 16 bits.

    Each panel is then converted where it is read, for each tile of rows, and half as much is read.
    """
    load, rows = plain_load(found.right), size_of(found.rows)
    if load is None or load.buffer.dtype.bits != 16 or not load.buffer.dtype.is_float:
        return False
    few = rows is None or rows <= FEW_ROWS
    return few and found.dtype.bits == 32 and is_constant(found, load, constants)


def packs_ahead(found: Contraction, constants: Set[Var]) -> bool:
    """Whether the columns are those of a constant, so that they are read as packed panels."""
    return is_constant(found, found.right, constants) or converted_later(found, constants)


_AT_ONCE: Final = 8
"""Steps of the innermost loop that are written out: large products take 0.92 of the time of one."""


def in_streams(
    depth: PrimExpr, streams: int, target: Target, body: Callable[[PrimExpr], Stmt]
) -> Stmt:
    """Run all steps of a panel, at several places in turn: memory brings them at once."""
    if streams == 1:
        # Where products wait to be added, more steps at once take more registers than there are.
        return loop("k", depth, body, at_once=_AT_ONCE if target.fma else 1)
    known = isinstance(depth, IntImm)
    each = imm64(depth.value // streams) if known else FloorDiv(depth, imm64(streams))
    turns = loop(
        "k", each, lambda k: seq([body(add(mul(each, imm64(s)), k)) for s in range(streams)])
    )
    done = mul(each, imm64(streams))
    rest = sub(depth, done)
    if isinstance(rest, IntImm) and rest.value == 0:
        return turns
    return seq([turns, loop("k", rest, lambda k: body(add(done, k)))])
