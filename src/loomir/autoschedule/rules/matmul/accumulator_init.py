"""Initialise accumulators from the result or from its initial value, if sums must keep their order.

An ordered sum adds its terms one by one to the initial value, so this must be in the register
before the first term. All other accumulators start from 0.
"""

from __future__ import annotations

from collections.abc import Callable

from loomir.arith.fold import imm64
from loomir.autoschedule.builders.evaluate import value_at
from loomir.autoschedule.builders.loops import INDEX, allocate, loop, scratch, unroll, vectorize
from loomir.autoschedule.builders.operand_access import ravel
from loomir.autoschedule.rules.matmul.micro_kernel import fill_tile, load_tile
from loomir.autoschedule.rules.matmul.operands import AxesAtOffset, AxisValues
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.autoschedule.rules.matmul.tile_sizes import Tiles
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, pre_order
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.stmt import TRUE, BufferStore, IfThenElse, Stmt

__all__ = ["init_accumulators"]

_WRITTEN_OUT = 6000
"""Nodes up to which the initialisation of a tile is unrolled."""


def init_accumulators(
    found: Contraction,
    tiles: Tiles,
    sums: Buffer,
    table: AxisValues,
    places: tuple[AxesAtOffset, AxesAtOffset],
    nearest: tuple[AxesAtOffset, AxesAtOffset],
    inside: PrimExpr,
    *,
    by_vectors: bool,
) -> Stmt:
    """Set the accumulators of a tile to their initial values.

    ``places`` address its rows and columns, all of which the result has where ``inside`` holds;
    ``nearest`` clamp those beyond the result. ``by_vectors``: neighbouring columns are contiguous.
    """
    if not found.starts_from_init:
        return fill_tile(sums, tiles)

    def start(at_places: tuple[AxesAtOffset, AxesAtOffset], r: PrimExpr, c: PrimExpr) -> PrimExpr:
        here = {**table, **at_places[0](r), **at_places[1](c)}
        here.update({var: substitute(whole, here) for var, whole in found.cut.items()})
        value = found.stage.init
        if value is None:
            value = BufferLoad(found.stage.buffer, found.stage.indices)
        return value_at(value, here)

    def fill_row(r: PrimExpr, value: Callable[[PrimExpr], PrimExpr]) -> Stmt:
        def fill(v: PrimExpr, c: PrimExpr) -> Stmt:
            column = ravel(v, tiles.lanes, c)
            return BufferStore(sums, value(column), (r, column))

        return unroll(
            "v", tiles.vectors, lambda v: vectorize("c", tiles.lanes, lambda c: fill(v, c))
        )

    # All rows may start alike, as from a bias: then one is enough.
    any_row = Var("r", INDEX)
    alike = any_row not in by_class(start(nearest, any_row, imm64(0))).get(Var, ())
    edge = scratch("start", (1 if alike else tiles.rows, tiles.columns), found.dtype)

    def init_row(r: PrimExpr) -> Stmt:
        return loop("c", tiles.columns, lambda c: BufferStore(edge, start(nearest, r, c), (r, c)))

    light = sum(1 for _ in pre_order(start(places, imm64(0), imm64(0))))
    direct = by_vectors and light * tiles.rows * tiles.vectors <= _WRITTEN_OUT
    full = unroll("r", tiles.rows, lambda r: fill_row(r, lambda c: start(places, r, c)))
    if direct and inside is TRUE:
        return full
    if alike:
        first = imm64(0)
        rows = unroll(
            "r", tiles.rows, lambda r: fill_row(r, lambda c: BufferLoad(edge, (first, c)))
        )
        some = allocate([edge], init_row(first), rows)
    else:
        some = allocate([edge], loop("r", tiles.rows, init_row), load_tile(sums, edge, (), tiles))
    return IfThenElse(inside, full, some) if direct else some
