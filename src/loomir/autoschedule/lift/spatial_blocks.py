"""Unwrap blocks all of whose iterators are spatial, so that their bodies are lifted as plain loops.

Such a block tells nothing that the loops around it do not: each iteration runs its body once. Once
it is gone, a body of several statements can be distributed like any loop.
"""

from __future__ import annotations

from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.lift.lift_loops import Reader, is_number, nest_of
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class
from loomir.loops.nests import split_nest, wrap_in_loops
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.stmt import TRUE, Allocate, Block, BlockRealize, DeclBuffer, Stmt

__all__ = ["unwrap_spatial_block"]


def unwrap_spatial_block(reader: Reader, stmt: Stmt) -> Stmt | None:
    """Return a nest around a spatial block as plain loops; None if it is none."""
    outer, inner = split_nest(stmt)
    if not isinstance(inner, BlockRealize) or not _is_transparent(inner):
        return None
    axes = reader.axes(nest_of(stmt)[0], inner)
    if axes is None or axes[1]:
        return None
    block = inner.block
    values = zip(block.iter_vars, inner.values, strict=True)
    table: dict[Var, PrimExpr] = {it.var: value for it, value in values}
    body = substitute(block.body, table)
    for buffer in reversed(block.alloc_buffers):
        body = _allocate(buffer, body)
    return wrap_in_loops(outer, body)


def _is_transparent(realize: BlockRealize) -> bool:
    """Whether a block binds iterators and allocates, and nothing else."""
    block = realize.block
    if not is_number(realize.predicate, 1) or block.init is not None:
        return False
    if block.match_buffers or block.annotations or Block in by_class(block.body):
        return False
    return all(
        not buffer.strides and all(number(extent) is not None for extent in buffer.shape)
        for buffer in block.alloc_buffers
    )


def _allocate(buffer: Buffer, body: Stmt) -> Stmt:
    return Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, DeclBuffer(buffer, body))
