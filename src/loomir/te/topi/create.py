"""Operators that create tensors, and triangular parts of matrices."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, isfinite

from loomir.support.dtype import DataType
from loomir.te.operation import Shape
from loomir.te.reduction import as_tuple
from loomir.te.scalar import select
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import greater_size, wide
from loomir.te.topi.shape import Size, bad, dims, make, size, write_shape
from loomir.tir.expr import ExprLike, PrimExpr, cast, const, convert

__all__ = [
    "arange",
    "eye",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def full(shape: Shape, value: ExprLike, dtype: str | DataType = "float32") -> Tensor:
    """Fill a tensor with one value.

    Shapes: ``shape``. Errors: TIR0103 for a number that ``dtype`` does not hold.
    """
    wanted = DataType(str(dtype))

    def element(*_: PrimExpr) -> PrimExpr:
        return (
            const(value, wanted)
            if isinstance(value, (int, float))
            else cast(convert(value), wanted)
        )

    return make("full", as_tuple(shape), element)


def zeros(shape: Shape, dtype: str | DataType = "float32") -> Tensor:
    """Fill a tensor with zeros.

    Shapes: ``shape``.
    """
    return full(shape, 0, dtype)


def ones(shape: Shape, dtype: str | DataType = "float32") -> Tensor:
    """Fill a tensor with ones.

    Shapes: ``shape``.
    """
    return full(shape, 1, dtype)


def full_like(x: Tensor, value: ExprLike, dtype: str | DataType | None = None) -> Tensor:
    """Fill a tensor like another with one value.

    Shapes: that of ``x``.
    """
    return full(x.shape, value, x.dtype if dtype is None else dtype)


def zeros_like(x: Tensor, dtype: str | DataType | None = None) -> Tensor:
    """Fill a tensor like another with zeros.

    Shapes: that of ``x``.
    """
    return full_like(x, 0, dtype)


def ones_like(x: Tensor, dtype: str | DataType | None = None) -> Tensor:
    """Fill a tensor like another with ones.

    Shapes: that of ``x``.
    """
    return full_like(x, 1, dtype)


def arange(
    start: Size | float,
    stop: Size | float | None = None,
    step: float = 1,
    dtype: str | DataType = "int64",
) -> Tensor:
    """Count from ``start`` up to ``stop``, exclusive, by steps; from 0 if only one bound is given.

    Elements are ``start + i * step``, for floats computed in float64 and rounded once. Bounds may
    be symbolic where they and ``step`` are integers.
    Shapes: (the number of steps, at least 0). Errors: TE0104 for a step of 0 or no number.
    """
    first, last = (0, start) if stop is None else (start, stop)
    wanted = DataType(str(dtype))
    if wanted.is_bool or not isfinite(step) or step == 0:
        what = "gives numbers, not bool" if wanted.is_bool else f"the step is {step}"
        bad("arange", what, "give a dtype of numbers, and a finite step other than 0")
    count = _steps(first, last, step)
    inner = DataType("float64") if wanted.is_float else DataType("int64")

    def element(i: PrimExpr) -> PrimExpr:
        made = cast(i, inner) * _number(step, inner) + _number(first, inner)
        return cast(made, wanted)

    return make("arange", [count], element)


def _number(value: Size | float, dtype: DataType) -> PrimExpr:
    return cast(value, dtype) if isinstance(value, PrimExpr) else const(value, dtype)


def _steps(first: Size | float, last: Size | float, step: float) -> Size:
    if not isinstance(first, PrimExpr) and not isinstance(last, PrimExpr):
        if not isfinite(first) or not isfinite(last):
            bad("arange", f"the bounds are {first} and {last}", "give finite bounds")
        if all(isinstance(v, int) for v in (first, last, step)):
            return max(0, int(-((first - last) // step)))
        return max(0, ceil((last - first) / step))
    for bound in (first, last, step):
        if isinstance(bound, float) or (isinstance(bound, PrimExpr) and not bound.dtype.is_integer):
            bad("arange", f"{bound} is beside a symbolic bound", "give integers")
    assert not isinstance(first, float)
    assert not isinstance(last, float)
    assert isinstance(step, int)
    span = last if isinstance(first, int) and first == 0 else last - first
    if step == 1:
        return greater_size(size(convert(span)), 0)
    up = span + (step - 1) if step > 0 else span * -1 + (-step - 1)
    return greater_size(up // abs(step), 0)


def eye(
    rows: Size, columns: Size | None = None, k: Size = 0, dtype: str | DataType = "float32"
) -> Tensor:
    """Build a matrix with ones on a diagonal, ``k`` above the main one, and zeros elsewhere.

    Shapes: (rows, columns or rows).
    """
    wanted = DataType(str(dtype))

    def element(i: PrimExpr, j: PrimExpr) -> PrimExpr:
        return select((wide(i) + wide(k)).equal(wide(j)), const(1, wanted), const(0, wanted))

    return make("eye", [rows, rows if columns is None else columns], element)


def tril(x: Tensor, k: Size = 0) -> Tensor:
    """Keep elements on and below a diagonal of the last two axes, and set zeros above.

    The diagonal is ``k`` above the main one.
    Shapes: that of ``x``. Errors: TE0104 for fewer than two axes.
    """
    return _triangle("tril", x, lambda i, j: j <= i + wide(k))


def triu(x: Tensor, k: Size = 0) -> Tensor:
    """Keep elements on and above a diagonal of the last two axes, and set zeros below.

    The diagonal is ``k`` above the main one.
    Shapes: that of ``x``. Errors: TE0104 for fewer than two axes.
    """
    return _triangle("triu", x, lambda i, j: j >= i + wide(k))


def _triangle(name: str, x: Tensor, keeps: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Tensor:
    if x.ndim < 2:
        bad(
            name,
            f"the tensor has shape {write_shape(dims(x))}",
            "give a tensor of two axes or more",
        )
    zero = const(0, x.dtype)
    return make(name, dims(x), lambda *i: select(keeps(wide(i[-2]), wide(i[-1])), x(*i), zero))
