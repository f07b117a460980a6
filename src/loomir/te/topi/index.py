"""Gather and scatter: operators that read or write at indices from tensors.

Negative indices count from the end. Other indices outside of an axis raise at run time (RUN0203).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from typing import Literal, TypeAlias

from loomir.support.dtype import DataType
from loomir.te.operation import extern
from loomir.te.scalar import if_then_else, select
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import nest, saturate, wide
from loomir.te.topi.manipulate import flatten
from loomir.te.topi.shape import (
    Size,
    as_axis,
    bad,
    broadcast_shapes,
    dims,
    has_equal_sizes,
    make,
    need,
    read,
    refuse_shapes,
)
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Add, And, Eq, Max, Min, Mul, PrimExpr, StringImm, const, convert
from loomir.tir.expr import cast as converted
from loomir.tir.stmt import BufferStore, Stmt, seq

TakeMode: TypeAlias = Literal["raise", "wrap", "clip", "nan"]
_MODES = ("raise", "wrap", "clip", "nan")

__all__ = [
    "gather_elements",
    "gather_nd",
    "one_hot",
    "scatter_elements",
    "scatter_nd",
    "take",
    "where",
]


def _from_end(index: PrimExpr, extent: Size) -> PrimExpr:
    """Count negative places from the end; those before the start stay as they are."""
    if index.dtype.is_uint:
        return saturate(index)
    at = wide(index)
    return select(And(at < 0, at >= wide(extent) * -1), at + wide(extent), at)


def place_of(index: PrimExpr, x: Tensor, axis: int) -> PrimExpr:
    """Return the place along an axis that an index names, or raise where there is none."""
    return check_place(_from_end(index, dims(x)[axis]), x, axis)


def check_place(place: PrimExpr, x: Tensor, axis: int) -> PrimExpr:
    extent = wide(dims(x)[axis])
    return call_builtin("checked_index", place, extent, StringImm(x.name), const(axis, "int32"))


def _replace_index(
    i: Sequence[PrimExpr], at: PrimExpr, x: Tensor, along: int, within: Sequence[Size]
) -> list[PrimExpr]:
    """Return indices with a place at one axis; those not certainly inside are checked."""
    made: list[PrimExpr] = []
    for a, (v, d, e) in enumerate(zip(i, dims(x), within, strict=True)):
        inside = has_equal_sizes(d, e) or (isinstance(d, int) and isinstance(e, int) and e <= d)
        made.append(at if a == along else v if inside else check_place(wide(v), x, a))
    return made


def where(condition: Tensor, a: Tensor | PrimExpr | float, b: Tensor | PrimExpr | float) -> Tensor:
    """Select elements of ``a`` where the condition holds, of ``b`` elsewhere.

    A number or a scalar expression takes the dtype of the tensor beside it.
    Shapes: what all three broadcast to. Errors: TE0101, TE0103, TE0104.
    """
    need("where", "bool", condition)
    tensors = [t for t in (a, b) if isinstance(t, Tensor)]
    if not tensors:
        bad("where", "neither choice is a tensor", "give one, as by topi.full")
    need("where", "any", *tensors)
    dtype = tensors[0].dtype
    shape = broadcast_shapes("where", dims(condition), *map(dims, tensors))

    def element(*i: PrimExpr) -> PrimExpr:
        choices = [_choice(t, i, dtype) for t in (a, b)]
        return select(read(condition, i), *choices)

    return make("where", shape, element)


def _choice(given: Tensor | PrimExpr | float, at: Sequence[PrimExpr], dtype: DataType) -> PrimExpr:
    if isinstance(given, Tensor):
        return read(given, at)
    return converted(given, dtype) if isinstance(given, PrimExpr) else const(given, dtype)


def one_hot(
    indices: Tensor,
    depth: int,
    on: float | PrimExpr = 1,
    off: float | PrimExpr = 0,
    axis: int = -1,
    dtype: str | DataType = "float32",
) -> Tensor:
    """Write ``on`` at the indices along a new axis, ``off`` elsewhere and for indices outside.

    Shapes: with ``depth`` at ``axis``. Errors: TE0102, TE0103.
    """
    need("one_hot", "integer", indices)
    new = as_axis("one_hot", axis, indices.ndim + 1)
    wanted = DataType(str(dtype))
    shape: list[Size] = dims(indices)
    shape.insert(new, depth)

    def element(*i: PrimExpr) -> PrimExpr:
        at = _from_end(indices(*(v for a, v in enumerate(i) if a != new)), depth)
        here = Eq(converted(at, "int64"), converted(i[new], "int64"))
        values = [v if isinstance(v, PrimExpr) else const(v, wanted) for v in (on, off)]
        return select(here, *values)

    return make("one_hot", shape, element)


# -- reading ---------------------------------------------------------------------------------
def take(
    x: Tensor, indices: Tensor | PrimExpr, axis: int | None = None, mode: TakeMode = "raise"
) -> Tensor:
    """Take elements at indices along an axis, or of all elements in row-major order.

    ``mode``: places outside raise; ``"wrap"`` counts on around the axis, and ``"clip"`` takes the
    nearest end, also for negative ones; ``"nan"`` gives NaN, also for negative ones.
    Shapes: that of ``indices`` in place of ``axis``. Errors: TE0102 to TE0104.
    """
    if mode not in _MODES:
        bad("take", f"the mode is {mode!r}", f"give one of {', '.join(_MODES)}")
    if isinstance(indices, Tensor):
        need("take", "integer", indices)
    if mode == "nan":
        need("take", "float", x)
    if axis is None:
        return take(flatten(x), indices, 0, mode)
    along = as_axis("take", axis, x.ndim)
    own = dims(indices) if isinstance(indices, Tensor) else []
    shape = [*dims(x)[:along], *own, *dims(x)[along + 1 :]]
    extent = wide(dims(x)[along])

    def element(*i: PrimExpr) -> PrimExpr:
        before, here, after = i[:along], i[along : along + len(own)], i[along + len(own) :]
        index = indices(*here) if isinstance(indices, Tensor) else indices
        if mode == "raise":
            return x(*before, place_of(index, x, along), *after)
        at = saturate(index)
        if mode == "nan":
            inside = And(at >= 0, at < extent)
            return if_then_else(inside, x(*before, at, *after), const(nan, x.dtype))
        if mode == "clip":
            at = Max(Min(at, extent - 1), const(0, "int64"))
        else:
            at = at % Max(extent, const(1, "int64"))
        return x(*before, check_place(at, x, along), *after)

    return make("take", shape, element)


def gather_elements(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """Take one element for each index along an axis; other coordinates are those of the index.

    Shapes: that of ``indices``, of as many axes; extents but at ``axis`` are not above those of
    ``x``, which is checked where it is not certain. Errors: TE0101 to TE0103.
    """
    need("gather_elements", "integer", indices)
    along = as_axis("gather_elements", axis, x.ndim)
    _check_in_line("gather_elements", x, indices, along)

    def element(*i: PrimExpr) -> PrimExpr:
        at = place_of(indices(*i), x, along)
        return x(*_replace_index(i, at, x, along, dims(indices)))

    return make("gather_elements", dims(indices), element)


def _check_in_line(name: str, x: Tensor, indices: Tensor, along: int) -> None:
    pairs = enumerate(zip(dims(indices), dims(x), strict=False))
    fits = indices.ndim == x.ndim and not any(
        a != along and isinstance(i, int) and isinstance(d, int) and i > d for a, (i, d) in pairs
    )
    if not fits:
        refuse_shapes(name, dims(x), dims(indices))


def gather_nd(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Take parts whose first indices are the rows of ``indices``, after axes that both share.

    Shapes: ``(*batch, ..., k)`` gives ``(*batch, ..., *x.shape[batch_dims + k:])``.
    Errors: TE0101, TE0103, TE0104.
    """
    need("gather_nd", "integer", indices)
    count = _depth("gather_nd", x, indices, batch_dims)
    outer = dims(indices)[:-1]
    shape = [*outer, *dims(x)[batch_dims + count :]]

    def element(*i: PrimExpr) -> PrimExpr:
        row, rest = i[: len(outer)], i[len(outer) :]
        at = [place_of(indices(*row, k), x, batch_dims + k) for k in range(count)]
        return x(*row[:batch_dims], *at, *rest)

    return make("gather_nd", shape, element)


def _depth(name: str, x: Tensor, indices: Tensor, batch_dims: int) -> int:
    """Return how many axes a row of indices names."""
    count = dims(indices)[-1] if indices.ndim else 0
    if not isinstance(count, int) or not 0 <= batch_dims < max(indices.ndim, 1):
        bad(name, "the length of an index is unknown", "give indices of shape (..., k), k a number")
    if count < 1 or batch_dims + count > x.ndim:
        bad(name, f"indices of {count} axes are too long or empty for {x.ndim}", "name fewer axes")
    for d, e in zip(dims(x)[:batch_dims], dims(indices)[:batch_dims], strict=True):
        if not has_equal_sizes(d, e):
            refuse_shapes(name, dims(x), dims(indices))
    return count


# -- writing -----------------------------------------------------------------------------------
_COMBINED: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "update": lambda _, new: new,
    "add": Add,
    "mul": Mul,
    "min": Min,
    "max": Max,
}


def _scatter(
    name: str,
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    reduction: str,
    place: Callable[[Buffer, list[PrimExpr]], list[PrimExpr]],
) -> Tensor:
    combine = _COMBINED.get(reduction)
    if combine is None:
        bad(name, f"{reduction!r} is no way to combine", f"use one of {', '.join(_COMBINED)}")
    need(name, "any" if reduction == "update" else "number", x, updates)

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        source, at, new = ins
        (out,) = outs
        copy = nest(out.shape, lambda i: BufferStore(out, BufferLoad(source, tuple(i)), tuple(i)))

        def write(i: list[PrimExpr]) -> Stmt:
            to = tuple(place(at, i))
            return BufferStore(out, combine(BufferLoad(out, to), BufferLoad(new, tuple(i))), to)

        return seq([copy, nest(new.shape, lambda i: write(list(i)))])

    return extern(x.shape, [x, indices, updates], body, name=name, dtype=x.dtype)


def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """Copy ``x`` and write each update at its index along an axis, in row-major order of updates.

    ``reduction``: ``update``, ``add``, ``mul``, ``min`` or ``max`` with what is there.
    Shapes: that of ``x``; updates have that of ``indices``. Errors: TE0101 to TE0104.
    """
    need("scatter_elements", "integer", indices)
    along = as_axis("scatter_elements", axis, x.ndim)
    _check_in_line("scatter_elements", x, indices, along)
    _check_same_shape("scatter_elements", dims(indices), dims(updates))

    def place(at: Buffer, i: list[PrimExpr]) -> list[PrimExpr]:
        to = place_of(BufferLoad(at, tuple(i)), x, along)
        return _replace_index(i, to, x, along, dims(indices))

    return _scatter("scatter_elements", x, indices, updates, reduction, place)


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "update") -> Tensor:
    """Copy ``x`` and write parts at the indices in the rows of ``indices``, in row-major order.

    ``reduction``: ``update``, ``add``, ``mul``, ``min`` or ``max`` with what is there.
    Shapes: that of ``x``; ``(..., k)`` takes updates of ``(..., *x.shape[k:])``.
    Errors: TE0101, TE0103, TE0104.
    """
    need("scatter_nd", "integer", indices)
    count = _depth("scatter_nd", x, indices, 0)
    rows = indices.ndim - 1
    _check_same_shape("scatter_nd", [*dims(indices)[:-1], *dims(x)[count:]], dims(updates))

    def place(at: Buffer, i: list[PrimExpr]) -> list[PrimExpr]:
        row = [place_of(BufferLoad(at, (*i[:rows], convert(k))), x, k) for k in range(count)]
        return [*row, *i[rows:]]

    return _scatter("scatter_nd", x, indices, updates, reduction, place)


def _check_same_shape(name: str, a: Sequence[Size], b: Sequence[Size]) -> None:
    if len(a) != len(b) or not all(map(has_equal_sizes, a, b)):
        refuse_shapes(name, a, b)
