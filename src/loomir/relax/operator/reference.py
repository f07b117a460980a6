"""Arithmetic of the language in NumPy, shared by the references of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of

__all__ = [
    "NPArray",
    "compute_dtype",
    "convert_array",
    "elementwise",
    "greater",
    "is_float",
    "lesser",
    "widen",
]

NPArray: TypeAlias = np.ndarray[Any, Any]
_FLOAT32: Final = np.dtype("float32")

xp: Final[Any] = np
"""NumPy, untyped: type checkers lose the types in most formulas."""


def is_float(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype is a float, bfloat16 included."""
    found = dtype_of_numpy(dtype)
    return found is not None and found.is_float


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to compute in: floats of 16 bits are computed in float32, rounded once."""
    return _FLOAT32 if is_float(dtype) and dtype.itemsize == 2 else dtype


def widen(x: NPArray) -> NPArray:
    """Return an array in the dtype to compute in."""
    return x.astype(compute_dtype(x.dtype), copy=False)


def convert_array(x: NPArray, dtype: DataType | str) -> NPArray:
    """Convert elements as a cast does: floats to integers are truncated and saturate, NaN is 0."""
    wanted = DataType(str(dtype))
    target = numpy_of(wanted)
    x = np.asarray(x)
    if wanted.is_integer and is_float(x.dtype):
        wide = np.trunc(x.astype("float64"))
        # No float equals the greatest 64-bit integer: values beyond it are replaced separately.
        low, high = float(wanted.min_value), float(wanted.max_value)
        inside = np.where((wide > low) & (wide < high), wide, 0.0).astype(target)
        made = np.where(wide >= high, np.array(wanted.max_value, target), inside)
        return np.where(wide <= low, np.array(wanted.min_value, target), made)
    with np.errstate(all="ignore"):
        return (_odd(x) if wanted.is_bfloat and x.dtype.itemsize > 2 else x).astype(target)


def _odd(x: NPArray) -> NPArray:
    """Return float32 values that round to bfloat16 as ``x`` does: NumPy converts through float32.

    If bits are cut off, the last one is set (round to odd), so that no false tie arises.
    """
    wide = xp.asarray(_short(x), "float64")
    near = xp.asarray(wide, "float32")
    lost = (near.astype("float64") != wide) & xp.isfinite(wide)
    beyond = lost & (abs(near.astype("float64")) > abs(wide))
    cut = (near.view("uint32") - beyond.astype("uint32")) | lost.astype("uint32")
    made: NPArray = xp.asarray(cut).view(_FLOAT32)
    return made


def _short(x: NPArray) -> NPArray:
    """Return integers of more than 53 bits as others that a float64 holds, rounded to odd too."""
    if x.dtype.kind not in "iu":
        return x
    plain = xp.asarray(x, "uint64")
    size, rest = xp.where(x < 0, ~plain + xp.uint64(1), plain), xp.uint64(0x7FF)
    kept = xp.where((size & rest) > 0, (size & ~rest) | xp.uint64(0x800), size)
    exact = xp.where(size < xp.uint64(2**53), size, kept).astype("float64")
    made: NPArray = xp.where(x < 0, -exact, exact)
    return made


def greater(a: NPArray, b: NPArray) -> NPArray:
    """Return the greater; the first NaN if there is one, and the first of two zeros."""
    return np.where((a >= b) | (a != a), a, b)


def lesser(a: NPArray, b: NPArray) -> NPArray:
    """Return the lesser; the first NaN if there is one, and the first of two zeros."""
    return np.where((a <= b) | (a != a), a, b)


def elementwise(compute: Callable[..., Any]) -> Callable[..., NPArray]:
    """Make a reference from a function of arrays of one dtype.

    Scalars take the dtype of the first array. Floats of 16 bits are computed in float32, and
    results that are floats rounded once.
    """

    def reference(*values: Any, **options: Any) -> NPArray:
        tensors: list[NPArray] = [v for v in values if isinstance(v, np.ndarray)]
        dtype = tensors[0].dtype
        wide = compute_dtype(dtype)
        with np.errstate(all="ignore"):
            made = np.asarray(
                compute(*[np.asarray(v).astype(wide, copy=False) for v in values], **options)
            )
            return made.astype(dtype) if made.dtype == wide and wide != dtype else made

    return reference
