"""Matrix products.

16-bit floats are summed in float32 and rounded once; integers wrap in their own dtype, unless
``out_dtype`` is another.
"""

from __future__ import annotations

from typing import TypeVar

from loomir.support.dtype import DataType
from loomir.te import reduction as te
from loomir.te.tensor import Tensor
from loomir.te.topi.elementwise import cast
from loomir.te.topi.shape import (
    bad,
    broadcast_shapes,
    compute_dtype,
    dims,
    has_equal_sizes,
    make,
    need,
    read,
    refuse_shapes,
)
from loomir.tir.expr import PrimExpr, convert
from loomir.tir.expr import cast as converted

_T = TypeVar("_T")

__all__ = ["batch_matmul", "dense", "matmul"]


def _dtypes(x: Tensor, out_dtype: str | None) -> tuple[DataType, DataType]:
    """Return the dtype of the result, and the one to sum in."""
    out = x.dtype if out_dtype is None else DataType(out_dtype)
    return out, compute_dtype(out)


def round_to(x: Tensor, dtype: DataType) -> Tensor:
    """Return a tensor in the dtype of a result."""
    return x if x.dtype is dtype else cast(x, dtype)


def matmul(
    a: Tensor,
    b: Tensor,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """Multiply matrices, as NumPy's ``@`` does; those that are to be transposed lie so in memory.

    Shapes: ``(..., n, k)`` and ``(..., k, m)`` give ``(..., n, m)``, where the axes in front
    broadcast; a vector is a row on the left, a column on the right, and leaves no axis. The last
    two axes of what is transposed are swapped.
    Errors: TE0101 to TE0104.
    """
    need("matmul", "number", a, b)
    if not a.ndim or not b.ndim:
        bad("matmul", "a tensor of no axes is no matrix", "multiply by topi.multiply")
    row, column = a.ndim == 1, b.ndim == 1
    if (transpose_a and row) or (transpose_b and column):
        bad("matmul", "a vector has no two axes to swap", "transpose matrices only")
    left, right = _swap_last(dims(a), transpose_a), _swap_last(dims(b), transpose_b)
    inner = left[-1]
    if not has_equal_sizes(inner, right[0 if column else -2]):
        refuse_shapes("matmul", left, right)
    batch = broadcast_shapes("matmul", left[:-2], right[:-2])
    out, wide = _dtypes(a, out_dtype)
    k = te.reduce_axis((0, convert(inner)), "k")
    shape = [*batch, *([] if row else left[-2:-1]), *([] if column else right[-1:])]

    def element(*i: PrimExpr) -> PrimExpr:
        front = i[: len(batch)]
        rest = list(i[len(batch) :])
        x = a(k) if row else read(a, [*front, *_swap_last([rest.pop(0), k], transpose_a)])
        y = b(k) if column else read(b, [*front, *_swap_last([k, rest.pop(0)], transpose_b)])
        return te.sum(converted(x, wide) * converted(y, wide), axis=k)

    # The summed axis and those of the matrix are no axes to broadcast.
    return round_to(make("matmul", shape, element), out)


def _swap_last(given: list[_T], swap: bool) -> list[_T]:
    """Swap the last two of a list, or not."""
    return [*given[:-2], given[-1], given[-2]] if swap else given


def dense(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None
) -> Tensor:
    """Apply a linear layer: ``x @ weight.T + bias``.

    Shapes: ``(..., k)``, ``(n, k)`` and ``(n,)`` give ``(..., n)``. Errors: TE0101, TE0103.
    """
    need("dense", "number", x, weight)
    own, rows = dims(x), dims(weight)
    if x.ndim < 1 or weight.ndim != 2 or not has_equal_sizes(own[-1], rows[1]):
        refuse_shapes("dense", own, rows)
    out, wide = _dtypes(x, out_dtype)
    k = te.reduce_axis((0, convert(own[-1])), "k")
    shape = [*own[:-1], rows[0]]

    def element(*i: PrimExpr) -> PrimExpr:
        return te.sum(converted(x(*i[:-1], k), wide) * converted(weight(i[-1], k), wide), axis=k)

    made: Tensor = make("dense", shape, element)
    if bias is None:
        return round_to(made, out)
    if bias.ndim != 1 or not has_equal_sizes(dims(bias)[0], rows[0]):
        refuse_shapes("dense", rows, dims(bias))
    return make("bias", shape, lambda *i: converted(made(*i) + converted(bias(i[-1]), wide), out))


def batch_matmul(
    a: Tensor,
    b: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str | None = None,
) -> Tensor:
    """Multiply the matrices of two batches, each transposed or not.

    Shapes: ``(batch, n, k)`` and ``(batch, k, m)`` give ``(batch, n, m)``; a batch of 1 repeats.
    Errors: TE0101, TE0103.
    """
    need("batch_matmul", "number", a, b)
    left, right = dims(a), dims(b)
    if a.ndim != 3 or b.ndim != 3:
        refuse_shapes("batch_matmul", left, right)
    n, inner = (left[2], left[1]) if transpose_a else (left[1], left[2])
    other, m = (right[2], right[1]) if transpose_b else (right[1], right[2])
    if not has_equal_sizes(inner, other):
        refuse_shapes("batch_matmul", left, right)
    (batch,) = broadcast_shapes("batch_matmul", left[:1], right[:1])
    out, wide = _dtypes(a, out_dtype)
    k = te.reduce_axis((0, convert(inner)), "k")

    def element(g: PrimExpr, i: PrimExpr, j: PrimExpr) -> PrimExpr:
        at = 0 if left[0] == 1 and isinstance(left[0], int) else g
        x = a(at, k, i) if transpose_a else a(at, i, k)
        at = 0 if right[0] == 1 and isinstance(right[0], int) else g
        y = b(at, j, k) if transpose_b else b(at, k, j)
        return te.sum(converted(x, wide) * converted(y, wide), axis=k)

    return round_to(make("batch_matmul", [batch, n, m], element), out)
