"""Sorting along an axis, by unsigned integers that are in the order of the elements.

The order is stable: equal elements, and zeros of either sign, stay in the order of their indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from loomir.support.dtype import DataType
from loomir.te.operation import extern
from loomir.te.tensor import Tensor
from loomir.te.topi.keys import Keys, keyed_order
from loomir.te.topi.loops import counting, nest, wide
from loomir.te.topi.shape import Size, as_axis, bad, dims, make
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import And, IntImm, Min, Not, Or, PrimExpr, Var, cast, const, convert
from loomir.tir.op import call_builtin
from loomir.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt, seq

__all__ = ["argsort", "sort", "topk"]

NanOrder: TypeAlias = Literal["last", "greatest"]
_INT64 = DataType("int64")
Before: TypeAlias = Callable[[PrimExpr, PrimExpr], PrimExpr]


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
    """Give the indices along an axis that sort it; ``nan`` is as in ``sort``.

    Shapes: that of ``x``. Errors: TE0102, TE0104.
    """
    _, order = _order("argsort", x, axis, descending, nan)
    return _converted("argsort", order, dtype)


def topk(
    x: Tensor,
    k: Size,
    axis: int = -1,
    largest: bool = True,
    dtype: str | DataType = "int64",
    nan: NanOrder = "greatest",
) -> tuple[Tensor, Tensor]:
    """Give the ``k`` greatest or least elements along an axis in order, and their indices.

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
    return _gather("topk", x, at, indices, k), _converted("topk_indices", indices, dtype)


def _converted(name: str, order: Tensor, dtype: str | DataType) -> Tensor:
    wanted = DataType(str(dtype))
    if not wanted.is_integer:
        bad(name, f"indices cannot be {wanted}", 'give an integer dtype, such as "int64"')
    return make(name, dims(order), lambda *i: cast(order(*i), wanted))


def _gather(name: str, x: Tensor, at: int, order: Tensor, extent: Size) -> Tensor:
    shape = dims(x)
    shape[at] = extent
    return make(name, shape, lambda *i: x(*i[:at], order(*i), *i[at + 1 :]))


def _order(name: str, x: Tensor, axis: int, descending: bool, nan: NanOrder) -> tuple[int, Tensor]:
    """Give the number of an axis, and the indices that sort it."""
    at = _axis(name, x, axis, nan)
    return at, _indices(name, x, at, x.shape[at], Keys(x.dtype, descending, nan == "greatest"))


def _axis(name: str, x: Tensor, axis: int, nan: NanOrder) -> int:
    if nan not in ("last", "greatest"):
        bad(name, f"nan is {nan!r}", 'give "last" or "greatest"')
    return as_axis(name, axis, x.ndim)


def _indices(name: str, x: Tensor, at: int, kept: PrimExpr, keys: Keys) -> Tensor:
    """Give the indices of the first ``kept`` elements in order, each row with room of its own."""
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
                return keys.of(BufferLoad(ins[0], place(i)))

            count = wide(x.shape[at])
            some = count if kept is x.shape[at] else wide(kept)
            return keyed_order(count, some, keys.dtype, key, store)

        return nest(others, row)

    made: Tensor = extern([tuple(shape)], [x], body, name=f"{name}_order", dtype=_INT64)
    return made


def order_of(descending: bool, nan_greatest: bool) -> Before:
    """Give the strict order of elements."""

    def before(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if a.dtype.is_bool:
            a, b = cast(a, "int8"), cast(b, "int8")
        plain = a > b if descending else a < b
        if not a.dtype.is_float:
            return plain
        late, early = (a, b) if descending and nan_greatest else (b, a)
        return Or(plain, And(call_builtin("isnan", late), Not(call_builtin("isnan", early))))

    return before


class Row:
    """What one row is sorted with: its elements, their order, and room to merge in."""

    def __init__(
        self,
        source: Buffer,
        order: Buffer,
        room: Buffer,
        heads: Buffer,
        place: Callable[[PrimExpr], tuple[PrimExpr, ...]],
        count: PrimExpr,
        before: Before,
    ) -> None:
        self.source, self.order, self.room, self.heads = source, order, room, heads
        self.place, self.count, self.before = place, count, before

    def entry(self, i: PrimExpr) -> PrimExpr:
        return BufferLoad(self.order, self.place(i))

    def value(self, i: PrimExpr) -> PrimExpr:
        return BufferLoad(self.source, self.place(self.entry(i)))

    def set_entry(self, i: PrimExpr, value: PrimExpr) -> Stmt:
        return BufferStore(self.order, value, self.place(i))


def merge_passes(row: Row) -> Stmt:
    """Merge sorted runs of 1, 2, 4, ... entries in pairs until one run is left."""
    count = row.count
    # Runs of a symbolic axis double at most until they exceed all memory.
    known = isinstance(count, IntImm)
    passes = max(count.value - 1, 0).bit_length() if isinstance(count, IntImm) else 62

    def one_pass(number: PrimExpr) -> Stmt:
        run = call_builtin("shift_left", const(1, _INT64), number)
        width = Var("width", _INT64)
        pairs = (count + width * 2 - 1) // (width * 2)
        merged = counting("pair", pairs, lambda p: _merge(row, p * width * 2, width))
        copied = counting("i", count, lambda i: row.set_entry(i, BufferLoad(row.room, (i,))))
        both = seq([merged, copied])
        return LetStmt(width, run, both if known else IfThenElse(width < count, both))

    return counting("doubling", const(passes, _INT64), one_pass)


def _merge(row: Row, start: PrimExpr, width: PrimExpr) -> Stmt:
    """Merge two runs that follow each other into the room."""
    low, middle, high = (Var(n, _INT64) for n in ("low", "middle", "high"))
    heads = [(const(k, _INT64),) for k in range(2)]
    left, right = (Var(n, _INT64) for n in ("left", "right"))
    position = Var("position", _INT64)

    def take(head: Var, number: int) -> Stmt:
        return seq(
            [
                BufferStore(row.room, row.entry(head), (position,)),
                BufferStore(row.heads, head + 1, heads[number]),
            ]
        )

    # The left one goes first unless the right one must: this is what makes the order stable.
    from_left = And(
        left < middle, Or(right >= high, Not(row.before(row.value(right), row.value(left))))
    )
    step: Stmt = IfThenElse(from_left, take(left, 0), take(right, 1))
    for var, head in ((right, heads[1]), (left, heads[0])):
        step = LetStmt(var, BufferLoad(row.heads, head), step)
    made: Stmt = seq(
        [
            BufferStore(row.heads, low, heads[0]),
            BufferStore(row.heads, middle, heads[1]),
            For(position, low, high - low, ForKind.SERIAL, step),
        ]
    )
    made = LetStmt(high, Min(low + width * 2, row.count), made)
    made = LetStmt(middle, Min(low + width, row.count), made)
    return LetStmt(low, start, made)
