"""What operators on memory mean: storages are bytes, tensors in them are views."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from loomir.interp.relax_values import Array, allocate
from loomir.relax import faults
from loomir.support.dtype import DataType, numpy_of
from loomir.support.span import Span

__all__ = ["in_storage", "new_storage", "viewed"]

_BYTES = DataType("uint8")


def new_storage(size: int, span: Span | None) -> Array:
    """Allocate bytes."""
    return allocate([size], _BYTES, "a storage", span)


def in_storage(
    storage: Any, offset: int, shape: list[int], dtype: DataType, span: Span | None
) -> Array:
    """Give the tensor that lies at an offset of a storage. Errors: RUN0412 beyond its end."""
    return _bytes_as(storage, offset, shape, dtype, "a tensor in a storage, byte", span)


def viewed(data: Array, offset: int, shape: list[int], dtype: DataType, span: Span | None) -> Array:
    """Give another view of a tensor's bytes. Errors: RUN0412 beyond its end."""
    whole: Any = np.ascontiguousarray(data)
    flat = whole.reshape(-1).view(np.uint8)
    return _bytes_as(flat, offset, shape, dtype, "a view of a tensor, byte", span)


def _bytes_as(
    flat: Any, offset: int, shape: list[int], dtype: DataType, what: str, span: Span | None
) -> Array:
    length = math.prod(shape) * dtype.itemsize
    if offset < 0 or offset + length > flat.size:
        raise faults.index_out_of_range(span, what).error((offset + length, flat.size))
    made: Any = flat[offset : offset + length].view(numpy_of(dtype)).reshape(shape)
    return made
