"""The factors of a matrix, lower and upper triangular, with the rows exchanged for the pivots."""

from __future__ import annotations

from typing import Any

from loomir.frontend.factorisation.statements import (
    INT64,
    Matrix,
    absolute,
    as_index,
    choose,
    copy_rows,
    factor_batch,
    let,
    loop,
    loop_down,
    room,
    run_if,
)
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import lesser_size
from loomir.te.topi.shape import dims
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Eq, PrimExpr, cast, const
from loomir.tir.stmt import Stmt, seq

__all__ = ["factor_lu", "find_determinant", "order_rows", "solve_by_lu"]


def factor_lu(a: Tensor) -> Any:
    """Return the factors in one matrix, the pivots' rows from 1, and the first pivot that is 0.

    The last is counted from 1, and 0 where there is none. L has ones on its diagonal.
    """
    rows, columns = dims(a)[-2:]
    count = lesser_size(rows, columns)
    best = room(1, INT64)

    def body(source: Matrix, made: Matrix, pivots: Matrix, info: Matrix) -> list[Stmt]:
        zero = made.constant(0)

        def step(k: PrimExpr) -> Stmt:
            def compare(i: PrimExpr) -> Stmt:
                larger = absolute(made[i, k]) > absolute(made[best[0], k])
                return run_if(larger, best.store(0, i))

            def scale(i: PrimExpr) -> Stmt:
                return made.store((i, k), made[i, k] / made[k, k])

            def eliminate(i: PrimExpr) -> Stmt:
                return let(
                    made[i, k],
                    lambda share: loop(
                        k + 1,
                        columns,
                        lambda j: made.store((i, j), made[i, j] - share * made[k, j]),
                    ),
                )

            first_zero = choose(Eq(info[()], const(0, "int32")), cast(k + 1, "int32"), info[()])
            return seq(
                [
                    best.store(0, k),
                    loop(k + 1, rows, compare),
                    pivots.store(k, cast(best[0] + 1, "int32")),
                    run_if(best[0] > k, let(best[0], lambda b: exchange_rows(made, k, b, columns))),
                    let(
                        cast(Eq(made[k, k], zero), "int32"),
                        lambda is_zero: seq(
                            [
                                run_if(is_zero > 0, info.store((), first_zero)),
                                run_if(is_zero < 1, loop(k + 1, rows, scale)),
                            ]
                        ),
                    ),
                    loop(k + 1, rows, eliminate),
                ]
            )

        return [
            copy_rows(made, source, rows, columns),
            info.store((), const(0, "int32")),
            loop(0, count, step),
        ]

    shapes = [((rows, columns), str(a.dtype)), ((count,), "int32"), ((), "int32")]
    return factor_batch("lu_factors", [(a, 2)], shapes, body, [best])


def exchange_rows(x: Matrix, a: PrimExpr, b: PrimExpr, columns: Any) -> Stmt:
    """Exchange two rows of a matrix."""

    def exchange(j: PrimExpr) -> Stmt:
        return let(
            x[a, j],
            lambda kept: seq([x.store((a, j), x[b, j]), x.store((b, j), kept)]),
        )

    return loop(0, columns, exchange)


def solve_by_lu(lu: Tensor, pivots: Tensor, b: Tensor, transposed: bool = False) -> Any:
    """Solve A X = B by the factors of A; ``transposed``: the equations of the transpose of A."""
    rows, columns = dims(b)[-2:]

    def body(factors: Matrix, places: Matrix, source: Matrix, made: Matrix) -> list[Stmt]:
        def exchange(k: PrimExpr) -> Stmt:
            return let(
                as_index(places[k]) - 1,
                lambda p: run_if(p > k, exchange_rows(made, k, p, columns)),
            )

        def subtract(i: PrimExpr, k: PrimExpr) -> Stmt:
            share = factors[k, i] if transposed else factors[i, k]
            return let(
                share,
                lambda s: loop(
                    0, columns, lambda j: made.store((i, j), made[i, j] - s * made[k, j])
                ),
            )

        def divide(i: PrimExpr) -> Stmt:
            return loop(0, columns, lambda j: made.store((i, j), made[i, j] / factors[i, i]))

        def forward(i: PrimExpr) -> Stmt:
            steps = [loop(0, i, lambda k: subtract(i, k))]
            return seq([*steps, divide(i)] if transposed else steps)

        def backward(i: PrimExpr) -> Stmt:
            steps = [loop(i + 1, rows, lambda k: subtract(i, k))]
            return seq(steps if transposed else [*steps, divide(i)])

        solve = [loop(0, rows, forward), loop_down(rows, backward)]
        if transposed:
            return [copy_rows(made, source, rows, columns), *solve, loop_down(rows, exchange)]
        return [copy_rows(made, source, rows, columns), loop(0, rows, exchange), *solve]

    shapes = [((rows, columns), str(b.dtype))]
    return factor_batch("lu_solution", [(lu, 2), (pivots, 1), (b, 2)], shapes, body)


def find_determinant(lu: Tensor, pivots: Tensor) -> Any:
    """Return the determinant, its sign, and the logarithm of its absolute value."""
    count = dims(lu)[-1]

    def body(
        factors: Matrix, places: Matrix, product: Matrix, sign: Matrix, log: Matrix
    ) -> list[Stmt]:
        one, zero = product.constant(1), product.constant(0)

        def step(k: PrimExpr) -> Stmt:
            def multiply(pivot: PrimExpr) -> Stmt:
                exchanged = as_index(places[k]) - 1 > k
                own = choose(exchanged, -pivot, pivot)
                unit = choose(own > zero, one, choose(own < zero, -one, own))
                return seq(
                    [
                        product.store((), product[()] * own),
                        sign.store((), sign[()] * unit),
                        log.store((), log[()] + call_builtin("log", absolute(pivot))),
                    ]
                )

            return let(factors[k, k], multiply)

        starts = [product.store((), one), sign.store((), one), log.store((), zero)]
        return [*starts, loop(0, count, step)]

    shapes = [((), str(lu.dtype))] * 3
    return factor_batch("determinant", [(lu, 2), (pivots, 1)], shapes, body)


def order_rows(pivots: Tensor, rows: Any) -> Any:
    """Return the row of the matrix that stands in each row of its factors."""
    count = dims(pivots)[-1]

    def body(places: Matrix, order: Matrix) -> list[Stmt]:
        def exchange(k: PrimExpr) -> Stmt:
            def swap(p: PrimExpr) -> Stmt:
                return let(
                    order[k],
                    lambda kept: seq([order.store(k, order[p]), order.store(p, kept)]),
                )

            return let(as_index(places[k]) - 1, swap)

        return [loop(0, rows, lambda i: order.store(i, i)), loop(0, count, exchange)]

    return factor_batch("row_order", [(pivots, 1)], [((rows,), "int64")], body)
