"""Scans: cumulative sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.support.dtype import DataType
from loomir.te.operation import extern
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import nest
from loomir.te.topi.manipulate import flatten
from loomir.te.topi.reduction import sum_dtype
from loomir.te.topi.shape import as_axis, bad, compute_dtype, dims, make
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Add, IntImm, Mul, PrimExpr, cast, const
from loomir.tir.stmt import BufferStore, IfThenElse, Stmt

__all__ = ["cumprod", "cumsum"]


def cumsum(
    x: Tensor,
    axis: int | None = None,
    dtype: str | DataType | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Sum the elements up to each along an axis; over the flat tensor where ``axis`` is None.

    ``exclusive``: without the element itself. ``reverse``: from the end. ``dtype``: what elements
    are converted to first; where it is left out, truths and integers are summed in 64 bits. Floats
    of 16 bits are summed in float32, and each sum is rounded once.
    Shapes: that of ``x``, or (its size). Errors: TE0102, TE0104.
    """
    return _accumulate("cumsum", x, axis, dtype, exclusive, reverse, Add, 0)


def cumprod(
    x: Tensor,
    axis: int | None = None,
    dtype: str | DataType | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Multiply the elements up to each along an axis; over the flat tensor where ``axis`` is None.

    What is said of ``cumsum`` holds.
    Shapes: that of ``x``, or (its size). Errors: TE0102, TE0104.
    """
    return _accumulate("cumprod", x, axis, dtype, exclusive, reverse, Mul, 1)


def _accumulate(
    name: str,
    x: Tensor,
    axis: int | None,
    dtype: str | DataType | None,
    exclusive: bool,
    reverse: bool,
    combine: Callable[[PrimExpr, PrimExpr], PrimExpr],
    identity: int,
) -> Tensor:
    wanted = sum_dtype(x.dtype) if dtype is None else DataType(str(dtype))
    if wanted.is_bool:
        bad(name, "the dtype is bool", 'give a dtype of numbers, such as "int64"')
    if axis is None:
        x, axis = flatten(x), 0
    at = as_axis(name, axis, x.ndim)
    inner = compute_dtype(wanted)
    last = x.shape[at] - 1

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        (source,), (target,) = ins, outs

        def step(i: Sequence[PrimExpr]) -> Stmt:
            def place(steps_back: int) -> tuple[PrimExpr, ...]:
                t = i[at] - steps_back if steps_back else i[at]
                return (*i[:at], last - t if reverse else t, *i[at + 1 :])

            here, before = place(0), place(1)
            taken = cast(BufferLoad(source, before if exclusive else here), inner)
            first = const(identity, inner) if exclusive else taken
            more = combine(BufferLoad(target, before), taken)
            return IfThenElse(
                i[at].equal(IntImm(0, i[at].dtype)),
                BufferStore(target, first, here),
                BufferStore(target, more, here),
            )

        return nest(x.shape, step)

    made: Tensor = extern(x.shape, [x], body, name=name, dtype=inner)
    return made if inner is wanted else make(name, dims(x), lambda *i: cast(made(*i), wanted))
