"""The micro-kernel of a GEMM: a tile of accumulators in registers, and rank-1 updates of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from loomir.arith.fold import add, imm64
from loomir.autoschedule.builders.loops import unroll
from loomir.autoschedule.builders.operand_access import ramp
from loomir.autoschedule.rules.matmul.tile_sizes import Tiles
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Add, Broadcast, Mul, PrimExpr, const
from loomir.tir.stmt import BufferStore, Stmt, seq

__all__ = [
    "Multiply",
    "Reader",
    "broadcast",
    "choose_multiply",
    "copy_tile",
    "fill_tile",
    "load_tile",
    "multiply_add",
    "multiply_then_add",
    "run_tile",
]

Reader = Callable[[PrimExpr], PrimExpr]
"""Reads an operand at a row, or a vector of columns, of the tile."""

Multiply = Callable[[PrimExpr, PrimExpr, PrimExpr], PrimExpr]
"""Adds the product of two values to a third."""


def broadcast(value: PrimExpr, lanes: int) -> PrimExpr:
    """Broadcast a scalar to all lanes."""
    return value if lanes == 1 or value.dtype.lanes == lanes else Broadcast(value, lanes)


def _unroll_vectors(tiles: Tiles, body: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
    """Unroll ``body`` over the vectors of the tile."""
    lanes = tiles.lanes
    return unroll(
        "r",
        tiles.rows,
        lambda r: seq(body(r, ramp(imm64(v * lanes), lanes)) for v in range(tiles.vectors)),
    )


def fill_tile(
    sums: Buffer, tiles: Tiles, start: Callable[[PrimExpr], PrimExpr] | None = None
) -> Stmt:
    """Set all accumulators to 0, or to what ``start`` gives for a vector of columns."""
    zero = broadcast(const(0, sums.dtype), tiles.lanes)
    return _unroll_vectors(
        tiles, lambda r, c: BufferStore(sums, start(c) if start else zero, (r, c))
    )


def copy_tile(to: Buffer, at: tuple[PrimExpr, ...], sums: Buffer, tiles: Tiles) -> Stmt:
    """Spill all accumulators to memory."""
    return _unroll_vectors(
        tiles, lambda r, c: BufferStore(to, BufferLoad(sums, (r, c)), (*at, r, c))
    )


def load_tile(
    sums: Buffer,
    source: Buffer,
    at: tuple[PrimExpr, ...],
    tiles: Tiles,
    more: Callable[[PrimExpr], PrimExpr] | None = None,
) -> Stmt:
    """Reload all accumulators, and add what ``more`` gives for a vector of columns."""

    def load_element(r: PrimExpr, c: PrimExpr) -> Stmt:
        acc: PrimExpr = BufferLoad(source, (*at, r, c))
        return BufferStore(sums, Add(acc, more(c)) if more else acc, (r, c))

    return _unroll_vectors(tiles, load_element)


def run_tile(
    sums: Buffer,
    left: Reader,
    right: Reader,
    tiles: Tiles,
    multiply: Multiply,
    rows: Sequence[int] | None = None,
) -> Stmt:
    """Add the outer product of one step, for all rows of the tile or for some."""
    lanes = tiles.lanes

    def multiply_element(r: PrimExpr, c: PrimExpr) -> Stmt:
        acc = BufferLoad(sums, (r, c))
        made = multiply(broadcast(left(r), lanes), broadcast(right(c), lanes), acc)
        return BufferStore(sums, made, (r, c))

    if rows is None or len(rows) == tiles.rows:
        return _unroll_vectors(tiles, multiply_element)

    def run(start: int, end: int) -> Stmt:
        return _unroll_vectors(
            replace(tiles, rows=end - start), lambda r, c: multiply_element(add(r, imm64(start)), c)
        )

    starts = [r for r in rows if r - 1 not in rows]
    ends = [r + 1 for r in rows if r + 1 not in rows]
    return seq(run(start, end) for start, end in zip(starts, ends))


def multiply_add(x: PrimExpr, y: PrimExpr, z: PrimExpr) -> PrimExpr:
    """Return ``x * y + z``, fused (rounded once) where it is a float."""
    return call_builtin("fma", x, y, z) if z.dtype.is_float else multiply_then_add(x, y, z)


def choose_multiply(target: Target) -> Multiply:
    """Choose how to accumulate where roundings are free: fused where the machine has FMA."""
    return multiply_add if target.fma else multiply_then_add


def multiply_then_add(x: PrimExpr, y: PrimExpr, z: PrimExpr) -> PrimExpr:
    """Return ``x * y + z``, where the product is rounded first."""
    return Add(Mul(x, y), z)
