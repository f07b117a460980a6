"""Build loops for operators that are written as statements rather than formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loomir.loops.nests import nest_over
from loomir.te.topi.shape import Size
from loomir.tir.buffer import Buffer
from loomir.tir.expr import (
    ExprLike,
    IntImm,
    Max,
    Min,
    PrimExpr,
    Var,
    cast,
    const,
    convert,
    match_dtypes,
)
from loomir.tir.stmt import TRUE, Block, BlockRealize, For, ForKind, Stmt, seq

__all__ = ["count_loop", "greater_size", "lesser_size", "nest", "saturate", "wide", "with_buffers"]


def wide(value: ExprLike) -> PrimExpr:
    """Return an integer as int64, where products of extents have room."""
    return cast(convert(value), "int64")


def saturate(value: PrimExpr) -> PrimExpr:
    """Convert an integer to int64; larger values become the greatest of that."""
    if value.dtype == "uint64":
        value = Min(value, const(2**63 - 1, "uint64"))
    return wide(value)


def count_loop(name: str, extent: ExprLike, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Run ``body`` of each integer from 0 up to an extent."""
    size = convert(extent)
    var = Var(name, size.dtype)
    return For(var, IntImm(0, var.dtype), size, ForKind.SERIAL, body(var))


def nest(extents: Sequence[PrimExpr], body: Callable[[Sequence[Any]], Stmt]) -> Stmt:
    """Run ``body`` at each index of a shape, the last axis fastest."""
    at = [Var(f"i{k}", e.dtype) for k, e in enumerate(extents)]
    return nest_over(at, extents, body(at))


def with_buffers(buffers: Sequence[Buffer], body: Sequence[Stmt]) -> Stmt:
    """Run statements with buffers that are allocated for them."""
    block = Block((), (), (), "row", seq(body), None, tuple(buffers))
    return BlockRealize((), TRUE, block)


def greater_size(a: Size, b: Size) -> Size:
    """Return the greater of two extents."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else Max(*match_dtypes(a, b))


def lesser_size(a: Size, b: Size) -> Size:
    """Return the lesser of two extents."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else Min(*match_dtypes(a, b))
