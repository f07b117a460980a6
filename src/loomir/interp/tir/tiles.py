"""Semantics of ``T.dot_tiles``: products of packed operands, added to a tile of sums."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from loomir.interp.exact_memory import forget, read_at, write_at
from loomir.interp.machine import Code, strict
from loomir.interp.rational import EXACT
from loomir.interp.scope import Scope
from loomir.interp.values import Pointer, Value, cell_format, pack
from loomir.support.dtype import DataType
from loomir.tir.builtins.tiles import TILE, TILE_BYTES
from loomir.tir.expr import Add, Call, Mul
from loomir.tir.faults import fault

__all__ = ["dot_tiles"]

_FLOAT32: Final = DataType("float32")
_EXACT_SUM: Final = EXACT.binary(Add, _FLOAT32)
_EXACT_PRODUCT: Final = EXACT.binary(Mul, _FLOAT32)
_LEAST_NORMAL: Final = 2.0**-126
_Bytes: TypeAlias = Any
"""An array of uint8."""
_Float32Array: TypeAlias = Any
"""An array of float32."""


def dot_tiles(node: Call, parts: list[Code], scope: Scope) -> Code:
    """Compile a call; factors are read as bytes, sums in the matching dtype."""
    left, right = node.args[6].dtype, node.args[7].dtype
    outside = fault("index", node.span, axis=0, buffer="of T.dot_tiles")

    def region(pointer: Any, size: int) -> _Bytes:
        if not isinstance(pointer, Pointer):
            raise outside.error((0, size))
        start, limit = pointer.offset, len(pointer.memory.data)
        if not 0 <= start <= limit - size:
            raise outside.error((start + size - 1, limit))
        return np.frombuffer(pointer.memory.data, np.uint8, size, start)

    def run(
        sums: Any, one: Any, other: Any, steps: int, rows: int, columns: int, *rest: Value
    ) -> None:
        steps = max(steps, 0)
        accumulator = region(sums, 4 * rows * columns)
        lefts = region(one, steps * rows * TILE_BYTES).reshape(steps, rows, TILE_BYTES)
        rights = region(other, steps * TILE * columns * 4).reshape(steps, TILE, columns, 4)
        written = sums.memory.written
        if written is not None:
            written[sums.offset : sums.offset + len(accumulator)] = b"\1" * len(accumulator)
        if scope.numbers.exact and left.is_bfloat:
            before = None if rest[-1] else _numbers(sums, rows * columns, _FLOAT32)
            factors = (
                _numbers(one, lefts.size // 2, left).reshape(steps, rows, TILE * 2),
                _numbers(other, rights.size // 2, left).reshape(steps, TILE, columns, 2),
            )
            _put(sums, _exact_sums(before, *factors))
            return
        forget(sums.memory, sums.offset, len(accumulator))
        total = np.zeros(len(accumulator), np.uint8) if rest[-1] else accumulator.copy()
        for step in range(steps):
            add = _add_pairs if left.is_bfloat else _add_bytes
            total = add(total, lefts[step], rights[step], (left, right))
        sums.memory.data[sums.offset : sums.offset + len(accumulator)] = total.tobytes()

    return strict(parts, run)


def _numbers(pointer: Pointer, count: int, dtype: DataType) -> Any:
    """Read elements as exact numbers."""
    start, size = pointer.offset, dtype.itemsize
    cells = pointer.memory.data[start : start + count * size].cast(cell_format(dtype))
    made: Any = np.empty(count, object)
    for n, cell in enumerate(cells):
        made[n] = read_at(pointer.memory, start + n * size, cell, dtype)
    return made


def _put(pointer: Pointer, sums: Any) -> None:
    """Write exact sums and their rounded values."""
    start = pointer.offset
    for n, value in enumerate(sums.ravel()):
        near = write_at(pointer.memory, start + 4 * n, value, _FLOAT32)
        pointer.memory.data[start + 4 * n : start + 4 * n + 4] = pack(near, _FLOAT32)


def _exact_sums(before: Any, lefts: Any, rights: Any) -> Any:
    """Add the products of corresponding pairs."""
    rows, columns = lefts.shape[1], rights.shape[2]
    made: Any = np.zeros((rows, columns), object) if before is None else before
    made = made.reshape(rows, columns)
    for left, right in zip(lefts, rights, strict=True):
        transposed = right.transpose(0, 2, 1).reshape(TILE * 2, columns)
        if not any(type(x) is float for part in (made, left, transposed) for x in part.flat):
            made = made + left.dot(transposed)
            continue
        for i in range(rows):
            for j in range(columns):
                for x, y in zip(left[i], transposed[:, j], strict=True):
                    made[i, j] = _EXACT_SUM(made[i, j], _EXACT_PRODUCT(x, y))
    return made


def _add_bytes(
    total: _Bytes, left: _Bytes, right: _Bytes, dtypes: tuple[DataType, DataType]
) -> _Bytes:
    a, b = (part.view(str(d)).astype("int64") for part, d in zip((left, right), dtypes))
    made: Any = a @ b.transpose(0, 2, 1).reshape(TILE_BYTES, -1)
    return (total.view("int32") + made.ravel()).astype("int32").view(np.uint8)


def _add_pairs(
    total: _Bytes, left: _Bytes, right: _Bytes, dtypes: tuple[DataType, DataType]
) -> _Bytes:
    """Add the products of the first and second elements of pairs, as tile instructions do."""
    with np.errstate(all="ignore"):
        a = _flush(_widen(left)).reshape(len(left), TILE, 2)
        b = _flush(_widen(right)).reshape(TILE, -1, 2)
        sums: list[_Float32Array] = []
        for half in (0, 1):
            acc = np.zeros((len(a), b.shape[1]), np.float32)
            for k in range(TILE):
                acc = _flush(_fma(a[:, k, None, half], b[None, k, :, half], acc))
            sums.append(acc)
        old = _flush(total.view(np.float32))
        return _flush(old + _flush(sums[0] + sums[1]).ravel()).view(np.uint8)


def _widen(parts: _Bytes) -> _Float32Array:
    words: Any = np.frombuffer(parts.tobytes(), np.uint16).astype(np.uint32) << 16
    return words.view(np.float32)


def _flush(x: _Float32Array) -> _Float32Array:
    made: _Float32Array = x.copy()
    small: Any = abs(x) < _LEAST_NORMAL
    made[small] = np.copysign(np.float32(0), x[small])
    return made


def _fma(x: _Float32Array, y: _Float32Array, z: _Float32Array) -> _Float32Array:
    """Return ``x * y + z``, rounded once: in float64, the sum is rounded to odd."""
    p, c = x.astype(np.float64) * y, z.astype(np.float64)
    s = p + c
    back = s - p
    lost = (p - (s - back)) + (c - back)
    even = (s.view(np.int64) & 1) == 0
    toward = np.nextafter(s, np.where(lost > 0, np.inf, -np.inf))
    return np.where((lost != 0) & np.isfinite(lost) & even, toward, s).astype(np.float32)
