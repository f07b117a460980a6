"""Sort by keys: unsigned integers that are ordered like the elements.

Few keys are sorted by insertion, and so are the least few of many. Many keys are sorted by a radix
sort, lowest byte first: each pass counts how often each byte occurs, which gives the positions of
elements. Both are stable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loomir.support.dtype import DataType
from loomir.te.topi.loops import count_loop, with_buffers
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import And, Eq, IntImm, PrimExpr, Select, Var, cast, const
from loomir.tir.stmt import (
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)

__all__ = ["Keys", "store_order"]

_FEW: Final = 64
"""Elements up to which inserting them one by one takes less time than counting their bytes."""
_INT64 = DataType("int64")
_DIGITS: Final = 256
_ZERO: Final = const(0, _INT64)

Key = Callable[[PrimExpr], PrimExpr]
Store = Callable[[PrimExpr, PrimExpr], Stmt]


class Keys:
    """How elements of a dtype become keys."""

    def __init__(self, dtype: DataType, descending: bool, nan_greatest: bool) -> None:
        self.descending = descending
        self.first = descending and nan_greatest
        self.plain = dtype.is_float and dtype.bits < 16
        bits = 32 if self.plain else max(8, dtype.bits)
        self.dtype = DataType(f"uint{bits}")

    def make_key(self, x: PrimExpr) -> PrimExpr:
        """Return the key of an element: zeros of both signs share one, and so do all NaNs."""
        if self.plain:  # floats of 8 bits, of which float32 has all
            x = cast(x, "float32")
        wanted, bits = self.dtype, self.dtype.bits
        if not x.dtype.is_float:
            key = cast(x, wanted)
            if x.dtype.is_int:
                key = call_builtin("bitwise_xor", key, const(1 << bits - 1, wanted))
            return self._direct(key)
        raw = call_builtin("reinterpret", x, dtype=wanted)
        raw = Select(Eq(x, const(0, x.dtype)), const(0, wanted), raw)
        top = const(1 << bits - 1, wanted)
        low = Eq(call_builtin("bitwise_and", raw, top), const(0, wanted))
        flipped = call_builtin("bitwise_not", raw)
        key = self._direct(Select(low, call_builtin("bitwise_or", raw, top), flipped))
        lost = const(0 if self.first else (1 << bits) - 1, wanted)
        return Select(call_builtin("isnan", x), lost, key)

    def _direct(self, key: PrimExpr) -> PrimExpr:
        return call_builtin("bitwise_not", key) if self.descending else key


def store_order(count: PrimExpr, kept: PrimExpr, dtype: DataType, key: Key, store: Store) -> Stmt:
    """Store the places of the ``kept`` least of ``count`` keys in order.

    ``kept`` is ``count`` itself, or no more.
    """
    if isinstance(kept, IntImm) and kept.value <= _FEW:
        return _InsertionSort(kept.value, dtype).sort(count, kept, key, store)
    many = _RadixSort(count, dtype).sort(kept, key, store)
    if isinstance(count, IntImm) or kept is not count:
        return many
    few = _InsertionSort(_FEW, dtype).sort(count, count, key, store)
    return IfThenElse(count <= const(_FEW, _INT64), few, many)


def _bind(name: str, value: PrimExpr, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    var = Var(name, value.dtype)
    return LetStmt(var, value, body(var))


class _InsertionSort:
    """Keys in order, of which there is room for some."""

    def __init__(self, room: int, dtype: DataType) -> None:
        room = max(room, 1)
        self.keys = decl_buffer((room,), dtype, "least", scope="local")
        self.places = decl_buffer((room,), "int64", "places", scope="local")
        self.hole = decl_buffer((1,), "int64", "hole", scope="local")

    def sort(self, count: PrimExpr, kept: PrimExpr, key: Key, store: Store) -> Stmt:
        """Insert the first ``kept``, then those of the others that are less than the last."""

        def insert_first(i: PrimExpr) -> Stmt:
            return _bind("key", key(i), lambda k: self._insert(i, k, i))

        def later(i: PrimExpr) -> Stmt:
            last = kept - 1
            return _bind(
                "key",
                key(i),
                lambda k: IfThenElse(k < BufferLoad(self.keys, (last,)), self._insert(last, k, i)),
            )

        parts = [count_loop("i", kept, insert_first)]
        if kept is not count and not (isinstance(kept, IntImm) and not kept.value):
            var = Var("i", _INT64)
            parts.append(For(var, kept, count - kept, ForKind.SERIAL, later(var)))
        parts.append(count_loop("i", kept, lambda i: store(i, BufferLoad(self.places, (i,)))))
        return with_buffers([self.keys, self.places, self.hole], parts)

    def _insert(self, at: PrimExpr, key: PrimExpr, place: PrimExpr) -> Stmt:
        """Move greater keys up, from the one before ``at`` on, and fill the hole."""
        zero = const(0, _INT64)
        hole = BufferLoad(self.hole, (zero,))
        below = hole - 1

        def move_up(buffer: Buffer) -> Stmt:
            return BufferStore(buffer, BufferLoad(buffer, (below,)), (hole,))

        # There is an element before the hole, or the first one is compared in vain.
        before = BufferLoad(self.keys, (Select(hole > zero, below, zero),))
        move = seq(
            [move_up(self.keys), move_up(self.places), BufferStore(self.hole, below, (zero,))]
        )
        return seq(
            [
                BufferStore(self.hole, at, (zero,)),
                While(And(hole > zero, key < before), move),
                BufferStore(self.keys, key, (hole,)),
                BufferStore(self.places, place, (hole,)),
            ]
        )


class _RadixSort:
    """Keys of a row, in two copies between which each pass moves them."""

    def __init__(self, count: PrimExpr, dtype: DataType) -> None:
        self.count, self.dtype = count, dtype
        self.passes = dtype.bits // 8
        self.keys = decl_buffer((2, count), dtype, "keys")
        self.places = decl_buffer((2, count), "int64", "places")
        self.ends = decl_buffer((self.passes, _DIGITS), "int64", "ends", scope="local")
        self.cells = [decl_buffer((1,), "int64", n, scope="local") for n in ("next", "side")]

    def sort(self, kept: PrimExpr, key: Key, store: Store) -> Stmt:
        """Count all bytes at once, then move elements by each byte in which they differ."""
        following, side = (BufferLoad(cell, (_ZERO,)) for cell in self.cells)
        some = Var("many", _INT64)
        many = self.count if kept is self.count else some
        if kept is self.count:
            parts = [
                self._clear(),
                count_loop("i", self.count, lambda i: self._begin(i, i, key(i))),
            ]
        else:
            parts = self._select_keys(kept, key)
        rest = seq(
            [
                self._set(1, _ZERO),
                count_loop("pass", const(self.passes, _INT64), lambda p: self._pass(p, many)),
                count_loop("i", kept, lambda i: store(i, BufferLoad(self.places, (side, i)))),
            ]
        )
        parts.append(rest if many is self.count else LetStmt(some, following, rest))
        block = [self.keys, self.places, self.ends, *self.cells]
        return with_buffers(block, [IfThenElse(kept > _ZERO, seq(parts))])

    def _set(self, cell: int, value: PrimExpr) -> Stmt:
        return BufferStore(self.cells[cell], value, (_ZERO,))

    def _clear(self) -> Stmt:
        def clear_pass(p: PrimExpr) -> Stmt:
            return count_loop(
                "digit",
                const(_DIGITS, _INT64),
                lambda d: BufferStore(self.ends, _ZERO, (p, d)),
            )

        return count_loop("pass", const(self.passes, _INT64), clear_pass)

    def _begin(self, to: PrimExpr, i: PrimExpr, key: PrimExpr) -> Stmt:
        """Let a key take part, and count its bytes."""

        def count(k: PrimExpr) -> Stmt:
            stores: list[Stmt] = [
                BufferStore(self.keys, k, (_ZERO, to)),
                BufferStore(self.places, i, (_ZERO, to)),
            ]
            for p in range(self.passes):
                number = const(p, _INT64)
                stores.append(self._count(number, self._digit(k, number)))
            return seq(stores)

        return _bind("key", key, count)

    def _count(self, number: PrimExpr, digit: PrimExpr) -> Stmt:
        return BufferStore(self.ends, BufferLoad(self.ends, (number, digit)) + 1, (number, digit))

    def _select_keys(self, kept: PrimExpr, key: Key) -> list[Stmt]:
        """Let those keys take part of which the upper byte is among the least."""
        one, top = const(1, _INT64), const(self.passes - 1, _INT64)
        following, last = (BufferLoad(cell, (_ZERO,)) for cell in self.cells)

        def read(i: PrimExpr) -> Stmt:
            return _bind(
                "key",
                key(i),
                lambda k: seq(
                    [BufferStore(self.keys, k, (one, i)), self._count(top, self._digit(k, top))]
                ),
            )

        def reach(d: PrimExpr) -> Stmt:
            more = self._set(0, following + BufferLoad(self.ends, (top, d)))
            return IfThenElse(following < kept, seq([more, self._set(1, d)]))

        def choose(i: PrimExpr) -> Stmt:
            def select_key(k: PrimExpr) -> Stmt:
                taken = seq([self._begin(following, i, k), self._set(0, following + 1)])
                return IfThenElse(self._digit(k, top) <= last, taken)

            return _bind("key", BufferLoad(self.keys, (one, i)), select_key)

        return [
            self._clear(),
            count_loop("i", self.count, read),
            self._set(0, _ZERO),
            self._set(1, _ZERO),
            count_loop("digit", const(_DIGITS, _INT64), reach),
            self._clear(),
            self._set(0, _ZERO),
            count_loop("i", self.count, choose),
        ]

    def _digit(self, key: PrimExpr, number: PrimExpr) -> PrimExpr:
        if self.passes > 1:
            key = call_builtin("shift_right", key, cast(number * 8, self.dtype))
        return cast(call_builtin("bitwise_and", key, const(255, self.dtype)), _INT64)

    def _pass(self, number: PrimExpr, many: PrimExpr) -> Stmt:
        side = Var("from", _INT64)
        following = BufferLoad(self.cells[0], (_ZERO,))

        def start(d: PrimExpr) -> Stmt:
            here = (number, d)

            def move(size: PrimExpr) -> Stmt:
                return seq(
                    [BufferStore(self.ends, following, here), self._set(0, following + size)]
                )

            return _bind("size", BufferLoad(self.ends, here), move)

        def move(i: PrimExpr) -> Stmt:
            def put(k: PrimExpr) -> Stmt:
                digit = self._digit(k, number)
                return _bind("digit", digit, lambda d: self._move_key(number, d, side, i, k))

            return _bind("key", BufferLoad(self.keys, (side, i)), put)

        first = self._digit(BufferLoad(self.keys, (side, _ZERO)), number)
        work = seq(
            [
                self._set(0, _ZERO),
                count_loop("digit", const(_DIGITS, _INT64), start),
                count_loop("i", many, move),
                self._set(1, const(1, _INT64) - side),
            ]
        )
        # A byte that is the same in all keys, as the upper ones of small numbers, moves nothing.
        differ = BufferLoad(self.ends, (number, first)) < many
        return LetStmt(side, BufferLoad(self.cells[1], (_ZERO,)), IfThenElse(differ, work))

    def _move_key(
        self, number: PrimExpr, digit: PrimExpr, side: PrimExpr, i: PrimExpr, key: PrimExpr
    ) -> Stmt:
        other = const(1, _INT64) - side

        def stores(end: PrimExpr) -> Stmt:
            return seq(
                [
                    BufferStore(self.keys, key, (other, end)),
                    BufferStore(self.places, BufferLoad(self.places, (side, i)), (other, end)),
                    BufferStore(self.ends, end + 1, (number, digit)),
                ]
            )

        return _bind("end", BufferLoad(self.ends, (number, digit)), stores)
