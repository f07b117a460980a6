"""Arrays as constants of programs: read-only, compared by their bytes."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Array"]


def _numpy() -> Any:
    return importlib.import_module("numpy")  # loaded with the first array: it takes its time


class Array:
    """An array that never changes: a constant of a program.

    Two are equal where dtype, shape and all bytes are, so that NaN equals itself and -0.0 is not
    0.0. ``data`` is a NumPy array in row-major order that cannot be written.
    """

    __slots__ = ("_digest", "data", "dtype")

    data: np.ndarray[Any, Any]
    dtype: DataType

    def __init__(self, data: Any, dtype: DataType | str | None = None) -> None:
        kind = None if dtype is None else numpy_of(DataType(str(dtype)))
        numpy = _numpy()
        made = numpy.array(data, dtype=kind, order="C", copy=True)
        # NumPy has no object for a scalar that is not an array of rank 0.
        self.data = numpy.asarray(made)
        self.data.setflags(write=False)
        found = dtype_of_numpy(self.data.dtype)
        if found is None:
            raise CompileError(
                Diagnostic(
                    "RLX0001",
                    f"a constant cannot hold elements of NumPy's dtype {self.data.dtype}",
                    help="give numbers or booleans: int8 to int64, uint8 to uint64, float16 to "
                    "float64, bfloat16, bool",
                )
            )
        self.dtype = found
        self._digest: str | None = None

    @staticmethod
    def from_bytes(data: bytes, dtype: DataType | str, shape: Sequence[int]) -> Array:
        """Make an array of what ``to_bytes`` gave. Errors: ValueError where sizes disagree."""
        flat: Any = _numpy().frombuffer(data, dtype=numpy_of(DataType(str(dtype))))
        return Array(flat.reshape(tuple(shape)))

    def to_bytes(self) -> bytes:
        """Give the elements in row-major order."""
        return self.data.tobytes()

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.data.shape

    def digest(self) -> str:
        """Give a hash of dtype, shape and bytes as text."""
        if self._digest is None:
            seen = hashlib.sha256(f"{self.dtype}{self.shape}".encode())
            seen.update(self.data.tobytes())
            self._digest = seen.hexdigest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Array)
            and self.dtype is other.dtype
            and self.shape == other.shape
            and self.data.tobytes() == other.data.tobytes()
        )

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        return f"Array({self.dtype}, {self.shape}, {self.digest()[:16]})"
