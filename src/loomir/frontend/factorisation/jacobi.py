"""Eigenvalues and singular values, by Jacobi's rotations of two rows at a time."""

from __future__ import annotations

import sys
from typing import Any, Final

from loomir.frontend.factorisation.lu import exchange_rows
from loomir.frontend.factorisation.statements import (
    Matrix,
    absolute,
    choose,
    copy_rows,
    factor_batch,
    let,
    loop,
    room,
    root,
    run_if,
)
from loomir.support.dtype import DataType
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims
from loomir.tir.expr import NE, And, Eq, PrimExpr, const
from loomir.tir.stmt import Stmt, seq

__all__ = ["diagonalise", "make_rows_orthogonal", "precision_of"]

_SWEEPS: Final = 40
"""The most sweeps over all pairs of rows; about ten are needed."""


def precision_of(dtype: DataType | str) -> float:
    """Return the distance from 1 to the next number."""
    return sys.float_info.epsilon if str(dtype) == "float64" else 2.0**-23


def rotate(
    x: Matrix, a: PrimExpr, b: PrimExpr, columns: Any, cosine: PrimExpr, sine: PrimExpr
) -> Stmt:
    """Rotate two rows."""
    return loop(0, columns, lambda j: _rotate_pair(x, (a, j), (b, j), cosine, sine))


def _rotate_pair(
    x: Matrix,
    one: tuple[PrimExpr, PrimExpr],
    other: tuple[PrimExpr, PrimExpr],
    cosine: PrimExpr,
    sine: PrimExpr,
) -> Stmt:
    """Rotate two elements."""

    def store(first: PrimExpr) -> Stmt:
        return let(
            x[other],
            lambda second: seq(
                [
                    x.store(one, cosine * first - sine * second),
                    x.store(other, sine * first + cosine * second),
                ]
            ),
        )

    return let(x[one], store)


def find_rotation(x: Matrix, ratio: PrimExpr, body: Any) -> Stmt:
    """Run ``body`` of a cosine and a sine; ``ratio``: the cotangent of the doubled angle."""
    one, zero = x.constant(1), x.constant(0)

    def from_tangent(tangent: PrimExpr) -> Stmt:
        return let(
            one / root(tangent * tangent + one),
            lambda cosine: let(tangent * cosine, lambda sine: body(cosine, sine)),
        )

    size = one / (absolute(ratio) + root(ratio * ratio + one))
    return let(choose(ratio < zero, -size, size), from_tangent)


def store_identity(x: Matrix, rows: Any) -> Stmt:
    """Write the unit matrix."""
    one, zero = x.constant(1), x.constant(0)
    return loop(
        0,
        rows,
        lambda i: loop(0, rows, lambda j: x.store((i, j), choose(Eq(i, j), one, zero))),
    )


def sort_rows(values: Matrix, rows: Any, descending: bool, parts: list[tuple[Matrix, Any]]) -> Stmt:
    """Put values in order, and the rows of matrices with them."""

    def settle(i: PrimExpr) -> Stmt:
        def compare(j: PrimExpr) -> Stmt:
            wrong = values[j] > values[i] if descending else values[j] < values[i]
            swap = let(
                values[i],
                lambda kept: seq([values.store(i, values[j]), values.store(j, kept)]),
            )
            return run_if(wrong, seq([swap, *[exchange_rows(m, i, j, n) for m, n in parts]]))

        return loop(i + 1, rows, compare)

    return loop(0, rows, settle)


def diagonalise(a: Tensor, upper: bool) -> Any:
    """Return the eigenvalues of symmetric matrices in order, and eigenvectors as rows.

    ``upper``: the triangle that is read.
    """
    rows = dims(a)[-1]
    work, sums = room((rows, rows), a.dtype), room(2, a.dtype)

    def body(source: Matrix, values: Matrix, vectors: Matrix) -> list[Stmt]:
        zero = work.constant(0)

        def copy(i: PrimExpr, j: PrimExpr) -> Stmt:
            mirrored = choose(j < i, source[j, i], source[i, j])
            other = choose(j > i, source[j, i], source[i, j])
            value = mirrored if upper else other
            return seq([work.store((i, j), value), sums.store(0, sums[0] + value * value)])

        def add_off(i: PrimExpr, j: PrimExpr) -> Stmt:
            return sums.store(1, sums[1] + work[i, j] * work[i, j])

        def eliminate(p: PrimExpr, q: PrimExpr) -> Stmt:
            def turn(cosine: PrimExpr, sine: PrimExpr) -> Stmt:
                def column(k: PrimExpr) -> Stmt:
                    return _rotate_pair(work, (k, p), (k, q), cosine, sine)

                return seq(
                    [
                        loop(0, rows, column),
                        rotate(work, p, q, rows, cosine, sine),
                        rotate(vectors, p, q, rows, cosine, sine),
                        work.store((p, q), zero),
                        work.store((q, p), zero),
                    ]
                )

            ratio = (work[q, q] - work[p, p]) / (work[p, q] + work[p, q])
            return run_if(NE(work[p, q], zero), find_rotation(work, ratio, turn))

        def sweep(_: PrimExpr) -> Stmt:
            limit = work.constant(precision_of(a.dtype) ** 2)
            pairs = loop(0, rows, lambda p: loop(p + 1, rows, lambda q: eliminate(p, q)))
            return seq(
                [
                    sums.store(1, zero),
                    loop(0, rows, lambda i: loop(i + 1, rows, lambda j: add_off(i, j))),
                    run_if(sums[1] > sums[0] * limit, pairs),
                ]
            )

        return [
            sums.store(0, zero),
            loop(0, rows, lambda i: loop(0, rows, lambda j: copy(i, j))),
            store_identity(vectors, rows),
            loop(0, _SWEEPS, sweep),
            loop(0, rows, lambda i: values.store(i, work[i, i])),
            sort_rows(values, rows, False, [(vectors, rows)]),
        ]

    shapes = [((rows,), str(a.dtype)), ((rows, rows), str(a.dtype))]
    return factor_batch("eigenvalues", [(a, 2)], shapes, body, [work, sums])


def make_rows_orthogonal(a: Tensor) -> Any:
    """Return J A, with orthogonal rows in order of size, the orthogonal J, and the sizes."""
    rows, columns = dims(a)[-2:]
    sums, count = room(3, a.dtype), room(1, "int32")

    def body(source: Matrix, made: Matrix, rotations: Matrix, sizes: Matrix) -> list[Stmt]:
        zero, limit = made.constant(0), made.constant(precision_of(a.dtype))

        def add_products(p: PrimExpr, q: PrimExpr) -> Stmt:
            def add(j: PrimExpr) -> Stmt:
                return seq(
                    [
                        sums.store(0, sums[0] + made[p, j] * made[p, j]),
                        sums.store(1, sums[1] + made[q, j] * made[q, j]),
                        sums.store(2, sums[2] + made[p, j] * made[q, j]),
                    ]
                )

            return seq([*[sums.store(i, zero) for i in range(3)], loop(0, columns, add)])

        def separate(p: PrimExpr, q: PrimExpr) -> Stmt:
            def turn(cosine: PrimExpr, sine: PrimExpr) -> Stmt:
                return seq(
                    [
                        rotate(made, p, q, columns, cosine, sine),
                        rotate(rotations, p, q, rows, cosine, sine),
                        count.store(0, count[0] + const(1, "int32")),
                    ]
                )

            ratio = (sums[1] - sums[0]) / (sums[2] + sums[2])
            differs = absolute(sums[2]) > limit * root(sums[0]) * root(sums[1])
            found = And(differs, NE(sums[2], zero))
            return seq([add_products(p, q), run_if(found, find_rotation(made, ratio, turn))])

        def sweep(_: PrimExpr) -> Stmt:
            pairs = loop(0, rows, lambda p: loop(p + 1, rows, lambda q: separate(p, q)))
            again = seq([count.store(0, const(0, "int32")), pairs])
            return run_if(count[0] > const(0, "int32"), again)

        def measure(i: PrimExpr) -> Stmt:
            def add(j: PrimExpr) -> Stmt:
                return sums.store(0, sums[0] + made[i, j] * made[i, j])

            return seq([sums.store(0, zero), loop(0, columns, add), sizes.store(i, root(sums[0]))])

        return [
            copy_rows(made, source, rows, columns),
            store_identity(rotations, rows),
            count.store(0, const(1, "int32")),
            loop(0, _SWEEPS, sweep),
            loop(0, rows, measure),
            sort_rows(sizes, rows, True, [(made, columns), (rotations, rows)]),
        ]

    shapes = [
        ((rows, columns), str(a.dtype)), ((rows, rows), str(a.dtype)), ((rows,), str(a.dtype))
    ]  # fmt: skip
    return factor_batch("orthogonal_rows", [(a, 2)], shapes, body, [sums, count])
