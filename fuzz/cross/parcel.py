"""Arguments and results of a call as bytes, in the layout that their arrays have in memory."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from fuzz.families.cases import memory_of, view_of

__all__ = ["read_parcel", "write_parcel"]


def write_parcel(path: Path, values: Sequence[Any]) -> None:
    """Write arrays, each with all of the memory that it is a view of, and scalars."""
    path.write_bytes(pickle.dumps([_pack(value) for value in values]))


def read_parcel(path: Path) -> list[Any]:
    """Read what ``write_parcel`` wrote; arrays are views of memory that can be written."""
    return [_unpack(*parts) for parts in pickle.loads(path.read_bytes())]


def _pack(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, (np.ndarray, np.generic)):
        return (value,)
    array = np.asarray(value)
    base = memory_of(array)
    name = array.dtype.name
    if not base.size:
        return b"", 0, array.shape, array.strides, name
    start = array.ctypes.data - base.ctypes.data
    return base.ravel(order="K").tobytes(), start, array.shape, array.strides, name


def _unpack(data: Any, *layout: Any) -> Any:
    if not layout:
        return data
    start, shape, strides, name = layout
    kind = np.dtype(getattr(ml_dtypes, name, name))
    if not data:
        return np.empty(shape, kind)
    memory = np.frombuffer(bytearray(data), np.uint8)
    return view_of(memory, start, shape, kind, strides)
