"""Store an element of a GEMM through its epilogue, once its sum is complete."""

from __future__ import annotations

from collections.abc import Set

from loomir.autoschedule.builders.evaluate import value_at
from loomir.autoschedule.rules.matmul.operands import AxisValues
from loomir.autoschedule.rules.matmul.recognise import Contraction, is_zero
from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Add, PrimExpr, Var, cast
from loomir.tir.stmt import BufferStore, LetStmt, Stmt, seq

__all__ = ["store_element"]


def store_element(
    found: Contraction,
    inner: Set[Buffer],
    place: AxisValues,
    total: PrimExpr,
) -> Stmt:
    """Store the element at ``place``, and the results of the epilogue's stages for it.

    Buffers in ``inner`` are not stored: nothing reads them any more.
    """
    table = dict(place)
    table.update({var: substitute(whole, table) for var, whole in found.cut.items()})
    stage = found.stage
    start = stage.init
    if start is None:
        start = BufferLoad(stage.buffer, stage.indices)
    if not found.starts_from_init and not is_zero(start):
        total = Add(cast(value_at(start, table), total.dtype), total)
    value = cast(total, stage.buffer.dtype)
    values: dict[Buffer, Var] = {}
    bound: list[tuple[Var, PrimExpr]] = []
    stores: list[Stmt] = []

    def read_value(load: BufferLoad) -> PrimExpr:
        return values.get(load.buffer, load)

    for part in (stage, *found.epilogue):
        if part is not stage:
            value = rewrite(value_at(part.value, table), {BufferLoad: read_value})
        var = Var(part.buffer.name, part.buffer.dtype)
        values[part.buffer] = var
        bound.append((var, value))
        if part.buffer not in inner:
            indices = tuple(substitute(index, table) for index in part.indices)
            stores.append(BufferStore(part.buffer, var, indices))
    body = seq(stores)
    for var, made in reversed(bound):
        body = LetStmt(var, made, body)
    return body
