"""Search sorted rows, and select elements where a mask holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, all_of, compute, select
from loomir.te.operation import extern
from loomir.te.topi.loops import nest, wide, with_buffers
from loomir.te.topi.shape import dims
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.expr import GE, GT, LT, Let, Min, Not, PrimExpr, Var, const
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, While

__all__ = ["bind_extent", "search_rows", "take_chosen"]

_ZERO = (const(0, "int64"),)
_UNROLLED = 4096
"""Rows of at most so many elements are searched by formulas, which form vectors."""


# -- sorted rows ---------------------------------------------------------------------------------
def _move(
    low: PrimExpr, high: PrimExpr, at: PrimExpr, element: PrimExpr, value: PrimExpr, right: bool
) -> tuple[PrimExpr, PrimExpr]:
    """Return the bounds of what is left to search; a NaN is beyond all, as in PyTorch."""
    open_ = LT(low, high)
    stays = (GT if right else GE)(element, value)
    return (
        select(all_of(open_, Not(stays)), at + 1, low),
        select(all_of(open_, stays), at, high),
    )


def search_rows(x: Tensor, values: Tensor, order: Tensor | None, right: bool, dtype: str) -> Tensor:
    """Count the elements of sorted rows before each value, as PyTorch does for any contents.

    One row of all values if ``x`` has one axis, else a row for each row of values. ``order`` are
    the places of the elements in order.
    """
    count = dims(x)[-1]

    def place(i: Sequence[PrimExpr], at: PrimExpr) -> tuple[PrimExpr, ...]:
        front = tuple(i[:-1]) if x.ndim > 1 else ()
        return (*front, at)

    if isinstance(count, int) and count <= _UNROLLED:

        def element(*i: PrimExpr) -> PrimExpr:
            value = Var("value", values.dtype)
            named: list[tuple[Var, PrimExpr]] = [(value, values(*i))]

            def name(what: str, given: PrimExpr) -> Var:
                var = Var(what, given.dtype)
                named.append((var, given))
                return var

            low, high = const(0, "int64"), const(count, "int64")
            for _ in range(count.bit_length()):
                at = name("at", (low + high) // 2)
                there = Min(at, const(count - 1, "int64"))
                if order is not None:
                    there = wide(order(*place(i, there)))
                found = name("found", x(*place(i, there)))
                low, high = _move(low, high, at, found, value, right)
                low, high = name("low", low), name("high", high)
            made = low.astype(dtype)
            for var, given in reversed(named):
                made = Let(var, given, made)
            return made

        return compute(values.shape, element, name="search")

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        sequence, given = ins[0], ins[1]

        def find(i: Sequence[PrimExpr]) -> Stmt:
            cells = [decl_buffer((1,), "int64", name=n, scope="local") for n in ("low", "high")]
            low, high = (BufferLoad(c, _ZERO) for c in cells)
            at = Var("at", low.dtype)
            there = at if order is None else wide(BufferLoad(ins[2], place(i, at)))
            found = BufferLoad(sequence, place(i, there))
            value = BufferLoad(given, tuple(i))
            stays = (GT if right else GE)(found, value)
            step = IfThenElse(
                Let(at, (low + high) // 2, stays),
                BufferStore(cells[1], (low + high) // 2, _ZERO),
                BufferStore(cells[0], (low + high) // 2 + 1, _ZERO),
            )
            made: list[Stmt] = [
                BufferStore(cells[0], const(0, "int64"), _ZERO),
                BufferStore(cells[1], wide(x.shape[-1]), _ZERO),
                While(LT(low, high), step),
                BufferStore(outs[0], low.astype(dtype), tuple(i)),
            ]
            return with_buffers(cells, made)

        return nest(given.shape, find)

    given = [x, values] if order is None else [x, values, order]
    made: Tensor = extern([values.shape], given, body, name="search", dtype=dtype)
    return made


def _importsearch_rows(node: Node, sequence: str, values: str) -> RelaxExpr:
    torch_dtypes = node.promote(sequence, values)
    x, given = node.tensor(sequence, torch_dtypes), node.tensor(values, torch_dtypes)
    side = node.arguments.get("side")
    right = bool(node["right"]) or side == "right"
    order = node.arguments.get("sorter")
    dtype = "int32" if node["out_int32"] else "int64"
    lone = not node.dims_of(given)
    if lone:
        given = node.emit(op.reshape(given, (1,)))
    if any(isinstance(d, int) and d == 0 for d in node.shape):
        return op.full(tuple(node.shape), node.constant(0))

    def kernel(x: Tensor, given: Tensor, *order: Tensor) -> Tensor:
        return search_rows(x, given, order[0] if order else None, right, dtype)

    made = node.compute(kernel, x, given, *([] if order is None else [order]))
    return op.reshape(made, ()) if lone else made


@register("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def _bucketize(node: Node) -> RelaxExpr:
    return _importsearch_rows(node, "boundaries", "self")


@register("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def _searchsorted(node: Node) -> RelaxExpr:
    return _importsearch_rows(node, "sorted_sequence", "self")


# -- sizes that are found ------------------------------------------------------------------------
def bind_extent(node: Node, index: int, total: RelaxExpr) -> Any:
    """Return the extent of a result with one axis, which ``total`` has when the program runs."""
    results: Any = node.definition.meta["val"]
    outputs: list[Any] = [*results] if isinstance(results, (list, tuple)) else [results]
    extent = outputs[index].shape[0]
    expr = getattr(getattr(extent, "node", None), "expr", None)
    if expr is not None and expr.is_Symbol:
        return node.graph.bind_size(extent, total)
    return node.graph.sizes.convert_size(extent)


def _bound(extent: Any) -> Any:
    return PrimValue(extent) if isinstance(extent, PrimExpr) else extent


@register("aten.repeat_interleave.Tensor")
def _repeat_interleave(node: Node) -> RelaxExpr:
    ends = node.emit(op.cumsum(node.tensor(0, "int64"), 0))
    total = node.emit(op.sum(node.tensor(0, "int64")))
    extent = bind_extent(node, 0, total)
    order = node.emit(op.arange(0, _bound(extent), 1, "int64"))
    return node.cast(node.emit(op.bucketize(order, ends, False, True)), node.dtype)


@register("aten.masked_select.default")
def _masked_select(node: Node) -> RelaxExpr:
    x, mask = node.tensor(0), node.tensor(1, "bool")
    shape = tuple(_broadcast_dims(node, node.dims(0), node.dims(1)))
    x, mask = [
        node.emit(op.reshape(node.emit(op.broadcast_to(v, shape)), (-1,))) for v in (x, mask)
    ]
    return take_chosen(node, x, mask, 0)


def _broadcast_dims(node: Node, a: list[Any], b: list[Any]) -> list[Any]:
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    made = list(longer)
    for i, d in enumerate(shorter, len(longer) - len(shorter)):
        made[i] = d if node.is_equal(made[i], 1) else made[i]
    return made


def take_chosen(node: Node, x: RelaxExpr, mask: RelaxExpr, axis: int) -> RelaxExpr:
    """Take what stands along an axis where a mask of one axis holds."""
    found = node.emit(op.nonzero(mask))
    places = node.emit(op.reshape(found, (node.dims_of(found)[1],)))
    return node.emit(op.take(x, places, axis))
