"""Operators with data-dependent shapes, which count their results first.

The count of one operator is the extent of the results of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomir.support.dtype import DataType
from loomir.te import reduction as te
from loomir.te.operation import extern
from loomir.te.tensor import Tensor
from loomir.te.topi.keys import Keys, store_order
from loomir.te.topi.loops import count_loop, nest, wide
from loomir.te.topi.manipulate import reshape
from loomir.te.topi.shape import Size, bad, dims, make, product, write_shape
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import GT, NE, And, Eq, Not, Or, PrimExpr, Select, StringImm, const, convert
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt, seq

__all__ = ["count_nonzero", "distinct_rows", "group_rows", "nonzero"]

_INT64 = DataType("int64")


def _holds(value: PrimExpr) -> PrimExpr:
    return value if value.dtype.is_bool else NE(value, const(0, value.dtype))


def _check_place(place: PrimExpr, extent: Size, name: str) -> PrimExpr:
    """Return a place, or raise where there is none: more was found than was counted."""
    return call_builtin("checked_index", place, wide(extent), StringImm(name), const(0, "int32"))


def count_nonzero(x: Tensor) -> Tensor:
    """Count the elements that are not 0, including NaN.

    Shapes: (1), int64.
    """
    size = product(dims(x))
    flat = reshape(x, [size])
    over = te.reduce_axis((0, convert(size)), "k")

    def total(_: PrimExpr) -> PrimExpr:
        return te.sum(Select(_holds(flat(over.var)), const(1, _INT64), const(0, _INT64)), axis=over)

    made: Tensor = make("count_nonzero", [1], total)
    return made


def nonzero(x: Tensor, count: Size) -> Tensor:
    """Return the indices of the elements that are not 0, in row-major order.

    Shapes: (the number of axes, ``count``), int64; ``count`` is what ``count_nonzero`` gives.
    """
    zero = (const(0, _INT64),)

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        (source,), (places, found) = ins, outs

        def step(at: Sequence[PrimExpr]) -> Stmt:
            column = _check_place(BufferLoad(found, zero), count, "nonzero")
            stores: list[Stmt] = [
                BufferStore(places, wide(i), (const(a, _INT64), column)) for a, i in enumerate(at)
            ]
            stores.append(BufferStore(found, BufferLoad(found, zero) + 1, zero))
            return IfThenElse(_holds(BufferLoad(source, tuple(at))), seq(stores))

        return seq([BufferStore(found, const(0, _INT64), zero), nest(x.shape, step)])

    made: tuple[Tensor, ...] = extern(
        [(x.ndim, count), (1,)], [x], body, name="nonzero", dtype=[_INT64, _INT64]
    )
    return made[0]


# -- rows --------------------------------------------------------------------------------------
def _differ(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if not a.dtype.is_float:
        return NE(a, b)
    lost = And(call_builtin("isnan", a), call_builtin("isnan", b))
    return Not(Or(Eq(a, b), lost))


def group_rows(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sort the rows of a matrix, and number the groups of equal ones.

    A NaN equals another and is the greatest, and zeros of both signs are equal. Of equal rows those
    in front come first. Returns the places of the rows in order, the number of the group of each of
    these, and the number of groups.
    Shapes: twice (the number of rows), and (1); int64. Errors: TE0104 for what is no matrix.
    """
    if x.ndim != 2:
        bad("group_rows", f"the tensor has shape {write_shape(dims(x))}", "give a matrix")
    rows, columns = x.shape
    zero, one, count = const(0, _INT64), const(1, _INT64), wide(rows)
    keys = Keys(x.dtype, descending=False, nan_greatest=False)

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        (source,) = ins
        order, group, groups, room, differs = outs

        def sort_by_column(c: PrimExpr) -> Stmt:
            """Sort what is in order of later columns: rows that are equal here stay in it."""
            column = wide(columns) - 1 - wide(c)

            def key(i: PrimExpr) -> PrimExpr:
                return keys.make_key(BufferLoad(source, (BufferLoad(order, (i,)), column)))

            def store(i: PrimExpr, found: PrimExpr) -> Stmt:
                return BufferStore(room, BufferLoad(order, (found,)), (i,))

            back = count_loop(
                "i", wide(rows), lambda i: BufferStore(order, BufferLoad(room, (i,)), (i,))
            )
            return seq([store_order(count, count, keys.dtype, key, store), back])

        def compare(i: PrimExpr) -> Stmt:
            here, before = (BufferLoad(order, (k,)) for k in (i, i - 1))

            def column(c: PrimExpr) -> Stmt:
                is_new = _differ(BufferLoad(source, (here, c)), BufferLoad(source, (before, c)))
                return IfThenElse(is_new, BufferStore(differs, one, (zero,)))

            return seq([BufferStore(differs, zero, (zero,)), count_loop("c", columns, column)])

        def number(i: PrimExpr) -> Stmt:
            first = BufferStore(differs, one, (zero,))
            more = BufferLoad(groups, (zero,)) + BufferLoad(differs, (zero,))
            return seq(
                [
                    IfThenElse(GT(i, zero), compare(i), first),
                    BufferStore(groups, more, (zero,)),
                    BufferStore(group, BufferLoad(groups, (zero,)) - 1, (i,)),
                ]
            )

        return seq(
            [
                count_loop("i", wide(rows), lambda i: BufferStore(order, i, (i,))),
                count_loop("c", columns, sort_by_column),
                BufferStore(groups, zero, (zero,)),
                count_loop("i", wide(rows), number),
            ]
        )

    shapes = [(rows,), (rows,), (1,), (rows,), (1,)]
    made: tuple[Tensor, ...] = extern(shapes, [x], body, name="groups", dtype=[_INT64] * 5)
    return made[0], made[1], made[2]


def distinct_rows(order: Tensor, group: Tensor, count: Size) -> tuple[Tensor, Tensor, Tensor]:
    """Return the index of the first row of each group, the group of each row, and group sizes.

    The inputs are what ``group_rows`` gives.
    Shapes: (``count``), (the number of rows), (``count``); int64.
    """
    (rows,) = order.shape
    zero = const(0, _INT64)

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        (places, groups), (first, inverse, sizes) = ins, outs

        def step(i: PrimExpr) -> Stmt:
            place = _check_place(BufferLoad(places, (i,)), rows, "order")
            number = _check_place(BufferLoad(groups, (i,)), count, "group")
            size = BufferLoad(sizes, (number,))
            return seq(
                [
                    BufferStore(inverse, number, (place,)),
                    IfThenElse(Eq(size, zero), BufferStore(first, place, (number,))),
                    BufferStore(sizes, size + 1, (number,)),
                ]
            )

        cleared = count_loop("g", wide(count), lambda g: BufferStore(sizes, zero, (g,)))
        return seq([cleared, count_loop("i", wide(rows), step)])

    made: Any = extern(
        [(count,), (rows,), (count,)], [order, group], body, name="distinct", dtype=[_INT64] * 3
    )
    return made[0], made[1], made[2]
