"""Orthogonal and triangular factors, by Householder's reflections."""

from __future__ import annotations

from typing import Any

from loomir.frontend.factorisation.statements import (
    Matrix,
    as_index,
    choose,
    copy_rows,
    factor_batch,
    let,
    loop,
    loop_down,
    room,
    root,
)
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import lesser_size
from loomir.te.topi.shape import dims
from loomir.tir.expr import Eq, PrimExpr
from loomir.tir.stmt import Stmt, seq

__all__ = ["factor_qr", "multiply_reflections"]


def factor_qr(a: Tensor) -> Any:
    """Return R above the diagonal, the reflections' vectors below it, and their factors.

    The first element of each vector is one and is not stored.
    """
    rows, columns = dims(a)[-2:]
    count = lesser_size(rows, columns)
    sums = room(columns, a.dtype)
    size = room(1, a.dtype)

    def body(source: Matrix, made: Matrix, taus: Matrix) -> list[Stmt]:
        zero, one = made.constant(0), made.constant(1)

        def step(k: PrimExpr) -> Stmt:
            def add_square(i: PrimExpr) -> Stmt:
                return size.store(0, size[0] + made[i, k] * made[i, k])

            def reflect(beta: PrimExpr) -> Stmt:
                flat = Eq(size[0], zero)
                alpha = made[k, k]
                by = choose(flat, one, alpha - beta)
                return seq(
                    [
                        taus.store(k, choose(flat, zero, (beta - alpha) / beta)),
                        let(
                            by,
                            lambda d: loop(
                                k + 1, rows, lambda i: made.store((i, k), made[i, k] / d)
                            ),
                        ),
                        made.store((k, k), choose(flat, alpha, beta)),
                        apply_reflection(made, made, taus, sums, k, (k + 1, rows, columns)),
                    ]
                )

            length = root(made[k, k] * made[k, k] + size[0])
            return seq(
                [
                    size.store(0, zero),
                    loop(k + 1, rows, add_square),
                    let(choose(made[k, k] < zero, length, -length), reflect),
                ]
            )

        return [copy_rows(made, source, rows, columns), loop(0, count, step)]

    shapes = [((rows, columns), str(a.dtype)), ((count,), str(a.dtype))]
    return factor_batch("qr_factors", [(a, 2)], shapes, body, [sums, size])


def apply_reflection(
    x: Matrix,
    vectors: Matrix,
    taus: Matrix,
    sums: Matrix,
    k: PrimExpr,
    part: tuple[Any, Any, Any],
) -> Stmt:
    """Reflect columns of ``x``, from the first of ``part`` to the last, by vector ``k``."""
    first, rows, columns = part

    def add_row(i: PrimExpr) -> Stmt:
        return let(
            vectors[i, k],
            lambda v: loop(first, columns, lambda j: sums.store(j, sums[j] + v * x[i, j])),
        )

    def subtract_row(i: PrimExpr) -> Stmt:
        return let(
            vectors[i, k],
            lambda v: loop(first, columns, lambda j: x.store((i, j), x[i, j] - v * sums[j])),
        )

    return seq(
        [
            loop(first, columns, lambda j: sums.store(j, x[k, j])),
            loop(k + 1, rows, add_row),
            let(
                taus[k],
                lambda tau: loop(first, columns, lambda j: sums.store(j, tau * sums[j])),
            ),
            loop(first, columns, lambda j: x.store((k, j), x[k, j] - sums[j])),
            loop(k + 1, rows, subtract_row),
        ]
    )


def multiply_reflections(vectors: Tensor, taus: Tensor, columns: Any) -> Any:
    """Return the first columns of the product of reflections, which is orthogonal."""
    rows = dims(vectors)[-2]
    sums = room(columns, vectors.dtype)

    def body(stored: Matrix, factors: Matrix, made: Matrix) -> list[Stmt]:
        zero, one = made.constant(0), made.constant(1)

        def start(i: PrimExpr, j: PrimExpr) -> Stmt:
            return made.store((i, j), choose(Eq(i, j), one, zero))

        def step(k: PrimExpr) -> Stmt:
            return apply_reflection(made, stored, factors, sums, k, (0, rows, columns))

        return [
            loop(0, rows, lambda i: loop(0, columns, lambda j: start(i, j))),
            loop_down(as_index(taus.shape[-1]), step),
        ]

    shapes = [((rows, columns), str(vectors.dtype))]
    return factor_batch("orthogonal", [(vectors, 2), (taus, 1)], shapes, body, [sums])
