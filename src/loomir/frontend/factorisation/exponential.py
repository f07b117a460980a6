"""The exponential of a matrix, by its Taylor series near zero and repeated squares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.frontend.factorisation.statements import (
    INT64,
    Matrix,
    absolute,
    choose,
    copy_rows,
    factor_batch,
    let,
    loop,
    room,
    run_if,
)
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims
from loomir.tir.expr import Eq, Max, PrimExpr, cast, const
from loomir.tir.stmt import Stmt, seq

__all__ = ["exponentiate"]

_DEGREE: Final = 16
"""The terms of the series; of a matrix of norm 0.5 or less, those after them are below 1e-19."""
_MOST_HALVES: Final = 64


def multiply(target: Matrix, a: Matrix, b: Matrix, rows: Any) -> Stmt:
    """Multiply square matrices."""

    def row(i: PrimExpr) -> Stmt:
        def add(k: PrimExpr) -> Stmt:
            return let(
                a[i, k],
                lambda v: loop(0, rows, lambda j: target.store((i, j), target[i, j] + v * b[k, j])),
            )

        start = loop(0, rows, lambda j: target.store((i, j), target.constant(0)))
        return seq([start, loop(0, rows, add)])

    return loop(0, rows, row)


def exponentiate(a: Tensor) -> Any:
    """Return e to the power of each matrix."""
    rows = dims(a)[-1]
    part, product = room((rows, rows), a.dtype), room((rows, rows), a.dtype)
    norm, count = room(2, a.dtype), room(1, INT64)

    def body(source: Matrix, made: Matrix) -> list[Stmt]:
        zero, one, half = [made.constant(v) for v in (0, 1, 0.5)]

        def measure(j: PrimExpr) -> Stmt:
            def add(i: PrimExpr) -> Stmt:
                return norm.store(1, norm[1] + absolute(source[i, j]))

            greater = norm.store(0, Max(norm[0], norm[1]))
            return seq([norm.store(1, zero), loop(0, rows, add), greater])

        def halve(_: PrimExpr) -> Stmt:
            step = [
                norm.store(0, norm[0] * half),
                norm.store(1, norm[1] * half),
                count.store(0, count[0] + const(1, INT64)),
            ]
            return run_if(norm[0] > half, seq(step))

        def unit(i: PrimExpr, j: PrimExpr) -> PrimExpr:
            return choose(Eq(i, j), one, zero)

        def everywhere(element: Callable[[PrimExpr, PrimExpr], Stmt]) -> Stmt:
            return loop(0, rows, lambda i: loop(0, rows, lambda j: element(i, j)))

        def add_term(n: PrimExpr) -> Stmt:
            order = cast(const(_DEGREE, INT64) - n, a.dtype)
            finish = everywhere(lambda i, j: made.store((i, j), product[i, j] / order + unit(i, j)))
            return seq([multiply(product, part, made, rows), finish])

        def square(_: PrimExpr) -> Stmt:
            return seq([multiply(product, made, made, rows), copy_rows(made, product, rows, rows)])

        return [
            norm.store(0, zero),
            loop(0, rows, measure),
            norm.store(1, one),
            count.store(0, const(0, INT64)),
            loop(0, _MOST_HALVES, halve),
            everywhere(lambda i, j: part.store((i, j), source[i, j] * norm[1])),
            everywhere(lambda i, j: made.store((i, j), unit(i, j))),
            loop(0, _DEGREE, add_term),
            loop(0, count[0], square),
        ]

    shapes = [((rows, rows), str(a.dtype))]
    return factor_batch("exponential", [(a, 2)], shapes, body, [part, product, norm, count])
