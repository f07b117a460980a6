"""Triangular matrices: solutions of their equations, and the factor of a symmetric matrix."""

from __future__ import annotations

from typing import Any

from loomir.frontend.factorisation.statements import (
    Matrix,
    choose,
    copy_rows,
    factor_batch,
    let,
    loop,
    loop_down,
    root,
)
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims
from loomir.tir.expr import And, Eq, Not, PrimExpr, cast, const
from loomir.tir.stmt import Stmt, seq

__all__ = ["factor_cholesky", "solve_triangular"]


def solve_triangular(
    t: Tensor, b: Tensor, upper: bool, transposed: bool = False, unit: bool = False
) -> Any:
    """Solve T X = B, where T has only its upper or its lower triangle.

    ``transposed``: the equations of the transpose of T. ``unit``: its diagonal is one.
    """
    rows, columns = dims(b)[-2:]
    backwards = upper != transposed

    def body(factor: Matrix, source: Matrix, made: Matrix) -> list[Stmt]:
        def subtract(i: PrimExpr, k: PrimExpr) -> Stmt:
            return let(
                factor[k, i] if transposed else factor[i, k],
                lambda s: loop(
                    0, columns, lambda j: made.store((i, j), made[i, j] - s * made[k, j])
                ),
            )

        def solve_row(i: PrimExpr) -> Stmt:
            begin, end = (i + 1, rows) if backwards else (0, i)
            steps = [loop(begin, end, lambda k: subtract(i, k))]
            if not unit:
                steps.append(
                    loop(0, columns, lambda j: made.store((i, j), made[i, j] / factor[i, i]))
                )
            return seq(steps)

        walk = loop_down(rows, solve_row) if backwards else loop(0, rows, solve_row)
        return [copy_rows(made, source, rows, columns), walk]

    shapes = [((rows, columns), str(b.dtype))]
    return factor_batch("triangular_solution", [(t, 2), (b, 2)], shapes, body)


def factor_cholesky(a: Tensor, upper: bool) -> Any:
    """Return the upper triangle U where A is the transpose of U times U, and what has failed.

    ``upper``: the triangle of A that is read. The second result is the order of the first leading
    matrix that is not positive definite, or 0.
    """
    rows = dims(a)[-1]

    def body(source: Matrix, made: Matrix, info: Matrix) -> list[Stmt]:
        zero = made.constant(0)

        def copy(i: PrimExpr, j: PrimExpr) -> Stmt:
            value = source[i, j] if upper else source[j, i]
            return made.store((i, j), choose(j >= i, value, zero))

        def step(k: PrimExpr) -> Stmt:
            first_failure = choose(
                And(Eq(info[()], const(0, "int32")), Not(made[k, k] > zero)),
                cast(k + 1, "int32"),
                info[()],
            )

            def subtract(i: PrimExpr) -> Stmt:
                return let(
                    made[k, i],
                    lambda s: loop(
                        i, rows, lambda j: made.store((i, j), made[i, j] - s * made[k, j])
                    ),
                )

            def finish(pivot: PrimExpr) -> Stmt:
                return seq(
                    [
                        made.store((k, k), pivot),
                        loop(k + 1, rows, lambda j: made.store((k, j), made[k, j] / pivot)),
                        loop(k + 1, rows, subtract),
                    ]
                )

            return seq([info.store((), first_failure), let(root(made[k, k]), finish)])

        return [
            loop(0, rows, lambda i: loop(0, rows, lambda j: copy(i, j))),
            info.store((), const(0, "int32")),
            loop(0, rows, step),
        ]

    shapes = [((rows, rows), str(a.dtype)), ((), "int32")]
    return factor_batch("cholesky", [(a, 2)], shapes, body)
