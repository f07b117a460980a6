"""Sort along an axis, by unsigned integer keys that are ordered like the elements.

The sort is stable: equal elements, and zeros of either sign, keep the order of their indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from loomir.support.dtype import DataType
from loomir.te.operation import extern
from loomir.te.tensor import Tensor
from loomir.te.topi.keys import Keys, store_order
from loomir.te.topi.loops import nest, wide
from loomir.te.topi.shape import Size, as_axis, bad, dims, make
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import PrimExpr, cast, convert
from loomir.tir.stmt import BufferStore, Stmt

__all__ = ["argsort", "sort", "topk"]

NanOrder: TypeAlias = Literal["last", "greatest"]
_INT64 = DataType("int64")
IsBefore: TypeAlias = Callable[[PrimExpr, PrimExpr], PrimExpr]


def sort(x: Tensor, axis: int = -1, descending: bool = False, nan: NanOrder = "last") -> Tensor:
    """Sort the elements along an axis.

    ``nan``: ``"last"`` puts NaN at the end in either order, ``"greatest"`` at the start of a
    descending one. Shapes: that of ``x``. Errors: TE0102, TE0104.
    """
    at, order = _order("sort", x, axis, descending, nan)
    return _gather("sort", x, at, order, dims(x)[at])


def argsort(
    x: Tensor,
    axis: int = -1,
    descending: bool = False,
    dtype: str | DataType = "int64",
    nan: NanOrder = "last",
) -> Tensor:
    """Return the indices along an axis that sort it; ``nan`` is as in ``sort``.

    Shapes: that of ``x``. Errors: TE0102, TE0104.
    """
    _, order = _order("argsort", x, axis, descending, nan)
    return _convert("argsort", order, dtype)


def topk(
    x: Tensor,
    k: Size,
    axis: int = -1,
    largest: bool = True,
    dtype: str | DataType = "int64",
    nan: NanOrder = "greatest",
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` greatest or least elements along an axis in order, and their indices.

    Of equal elements, those of lower index come first. ``nan`` is as in ``sort``.
    Shapes: twice that of ``x``, with ``k`` at ``axis``. Errors: TE0102, TE0104.
    """
    at = _axis("topk", x, axis, nan)
    shape = dims(x)
    extent = shape[at]
    if isinstance(k, int) and (k < 0 or (isinstance(extent, int) and k > extent)):
        bad("topk", f"k is {k} for an axis of {extent}", f"give 0 to {extent}")
    shape[at] = k
    keys = Keys(x.dtype, largest, nan == "greatest")
    indices = _indices("topk", x, at, convert(k), keys)
    return _gather("topk", x, at, indices, k), _convert("topk_indices", indices, dtype)


def _convert(name: str, order: Tensor, dtype: str | DataType) -> Tensor:
    wanted = DataType(str(dtype))
    if not wanted.is_integer:
        bad(name, f"indices cannot be {wanted}", 'give an integer dtype, such as "int64"')
    return make(name, dims(order), lambda *i: cast(order(*i), wanted))


def _gather(name: str, x: Tensor, at: int, order: Tensor, extent: Size) -> Tensor:
    shape = dims(x)
    shape[at] = extent
    return make(name, shape, lambda *i: x(*i[:at], order(*i), *i[at + 1 :]))


def _order(name: str, x: Tensor, axis: int, descending: bool, nan: NanOrder) -> tuple[int, Tensor]:
    """Return the number of an axis, and the indices that sort it."""
    at = _axis(name, x, axis, nan)
    return at, _indices(name, x, at, x.shape[at], Keys(x.dtype, descending, nan == "greatest"))


def _axis(name: str, x: Tensor, axis: int, nan: NanOrder) -> int:
    if nan not in ("last", "greatest"):
        bad(name, f"nan is {nan!r}", 'give "last" or "greatest"')
    return as_axis(name, axis, x.ndim)


def _indices(name: str, x: Tensor, at: int, kept: PrimExpr, keys: Keys) -> Tensor:
    """Return the indices of the first ``kept`` elements in order, each row with room of its own."""
    shape = list(x.shape)
    shape[at] = kept

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        others = [e for axis, e in enumerate(x.shape) if axis != at]

        def row(o: Sequence[PrimExpr]) -> Stmt:
            def place(i: PrimExpr) -> tuple[PrimExpr, ...]:
                return (*o[:at], i, *o[at:])

            def store(i: PrimExpr, index: PrimExpr) -> Stmt:
                return BufferStore(outs[0], index, place(i))

            def key(i: PrimExpr) -> PrimExpr:
                return keys.make_key(BufferLoad(ins[0], place(i)))

            count = wide(x.shape[at])
            some = count if kept is x.shape[at] else wide(kept)
            return store_order(count, some, keys.dtype, key, store)

        return nest(others, row)

    made: Tensor = extern([tuple(shape)], [x], body, name=f"{name}_order", dtype=_INT64)
    return made
