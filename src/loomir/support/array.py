"""Arrays as constants of programs: read-only, compared by their bytes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of
from loomir.support.fork_safe import import_module

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Array", "empty_on_line"]


def _numpy() -> Any:
    return import_module("numpy")  # imported with the first array, since that is slow


_LINE: Final = 64
_LARGE: Final = 4096
"""Bytes from which an array is placed at a cache line."""
_PIECE: Final = 1 << 20
"""Elements that are compared at a time, so that the first difference ends a comparison."""
_SAMPLE: Final = 1024
"""Bytes that are sampled at the start of a comparison, and by a hash."""


def empty_on_line(shape: Sequence[int], dtype: Any) -> Any:
    """Return an uninitialised array that begins at a cache line.

    Large NumPy arrays begin 16 bytes after one, so that a vector as long as a line crosses two
    lines: reading weights once then takes 1.2 times as long.
    """
    numpy = _numpy()
    kind = numpy.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    memory = numpy.empty(size + _LINE, "uint8")
    start = -memory.ctypes.data % _LINE
    return memory[start : start + size].view(kind).reshape(tuple(shape))


class Array:
    """An immutable array, a constant of a program.

    Two arrays are equal if dtype, shape and all bytes are equal, so that NaN equals itself and -0.0
    differs from 0.0. ``data`` is a NumPy array in row-major order that cannot be written. One that
    was made by ``read_lazily`` is in memory only while somebody needs it.
    """

    __slots__ = ("_data", "_digest", "_hash", "_read", "dtype", "shape")

    _data: np.ndarray[Any, Any] | None
    _read: Callable[[], np.ndarray[Any, Any]] | None
    dtype: DataType
    shape: tuple[int, ...]
    """The extents."""

    def __init__(self, data: Any, dtype: DataType | str | None = None) -> None:
        kind = None if dtype is None else numpy_of(DataType(str(dtype)))
        # In NumPy, a scalar of such a dtype is an array of rank 0.
        try:
            given = _numpy().asarray(data, dtype=kind)
        except ValueError as error:
            what = f"NumPy makes no array of this {type(data).__name__}: {error}"
            raise CompileError(Diagnostic("RLX0001", what, help="give an array")) from None
        if given.nbytes < _LARGE or given.dtype.hasobject:
            self._hold(given.copy(order="C"))
            return
        made = empty_on_line(given.shape, given.dtype)
        made[...] = given
        self._hold(made)

    def _hold(self, data: Any) -> None:
        data.setflags(write=False)
        self._data, self._read = data, None
        self._describe(data.shape, data.dtype)

    def _describe(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        found = dtype_of_numpy(dtype)
        if found is None:
            raise CompileError(
                Diagnostic(
                    "RLX0001",
                    f"a constant cannot hold elements of NumPy's dtype {dtype}",
                    help="give numbers or booleans: int8 to int64, uint8 to uint64, float16 to "
                    "float64, bfloat16, bool",
                )
            )
        self.dtype = found
        self._digest: str | None = None
        self._hash: int | None = None

    @staticmethod
    def wrap_own(data: np.ndarray[Any, Any]) -> Array:
        """Wrap an array in row-major order, which nobody may write any more, without a copy."""
        made = Array.__new__(Array)
        made._hold(_numpy().asarray(data, order="C"))
        return made

    @staticmethod
    def read_lazily(
        read: Callable[[], np.ndarray[Any, Any]], dtype: DataType | str, shape: Sequence[int]
    ) -> Array:
        """Make an array whose elements ``read`` loads on demand, always the same ones.

        ``read`` returns memory that nobody will write, in row-major order.
        """
        made = Array.__new__(Array)
        made._data, made._read = None, read
        made._describe(tuple(shape), numpy_of(DataType(str(dtype))))
        return made

    @property
    def data(self) -> np.ndarray[Any, Any]:
        """The elements, which then stay in memory until ``release``."""
        if self._data is None:
            self._data = self.read_once()
        return self._data

    def read_once(self) -> np.ndarray[Any, Any]:
        """Return the elements for a single use: those that can be read again are not kept."""
        if self._data is not None:
            return self._data
        assert self._read is not None
        found = self._read()
        found.setflags(write=False)
        return found

    def release(self) -> None:
        """Free elements that can be read again; their addresses become invalid."""
        if self._read is not None:
            self._data = None

    @staticmethod
    def from_bytes(data: bytes, dtype: DataType | str, shape: Sequence[int]) -> Array:
        """Make an array from the result of ``to_bytes``. Errors: ValueError if sizes disagree."""
        flat: Any = _numpy().frombuffer(data, dtype=numpy_of(DataType(str(dtype))))
        return Array(flat.reshape(tuple(shape)))

    def to_bytes(self) -> bytes:
        """Return the elements in row-major order."""
        return self.read_once().tobytes()

    def __reduce__(self) -> tuple[Any, ...]:
        return Array.from_bytes, (self.to_bytes(), str(self.dtype), self.shape)

    def digest(self) -> str:
        """Return a hash of dtype, shape and bytes as text."""
        if self._digest is None:
            seen = hashlib.sha256(f"{self.dtype}{self.shape}".encode())
            seen.update(self._bytes())
            self._digest = seen.hexdigest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Array)
            and self.dtype is other.dtype
            and self.shape == other.shape
            and self._equals(other)
        )

    def _bytes(self) -> Any:
        """Return the bytes of the elements, without a copy."""
        data: Any = self.read_once()
        return data.reshape(-1).view("uint8")

    def _equals(self, other: Array) -> bool:
        mine, theirs = self._bytes(), other._bytes()
        # Piece by piece: arrays that differ often do so at the beginning.
        pieces = range(0, len(mine), _PIECE)
        return all((mine[i : i + _PIECE] == theirs[i : i + _PIECE]).all() for i in pieces)

    def __hash__(self) -> int:
        if self._hash is None:
            # Hashing all bytes of 64 MB takes 0.2 s. Arrays with equal samples are compared
            # completely.
            seen = self._bytes()
            step = len(seen) // _SAMPLE
            some = seen if step < 2 else seen[: step * _SAMPLE].reshape(_SAMPLE, step)[:, step - 1]
            self._hash = hash((self.dtype, self.shape, some.tobytes(), seen[-_SAMPLE:].tobytes()))
        return self._hash

    def __repr__(self) -> str:
        return f"Array({self.dtype}, {self.shape}, {self.digest()[:16]})"
