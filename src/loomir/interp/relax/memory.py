"""Semantics of memory operators: storages are bytes, and tensors in them are views."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from loomir.interp.relax.values import Array, allocate, require_size
from loomir.relax import faults
from loomir.support.dtype import DataType, numpy_of
from loomir.support.span import Span

__all__ = ["new_storage", "view_bytes", "view_storage"]

_BYTES = DataType("uint8")


def new_storage(size: int, span: Span | None) -> Array:
    """Allocate bytes."""
    return allocate([size], _BYTES, "a storage", span)


def view_storage(
    storage: Any, offset: int, shape: list[int], dtype: DataType, what: str, span: Span | None
) -> Array:
    """Return the tensor at an offset of a storage. Errors: RUN0450, RUN0451."""
    return _bytes_as(storage, offset, shape, dtype, what, span)


def view_bytes(
    data: Array, offset: int, shape: list[int], dtype: DataType, what: str, span: Span | None
) -> Array:
    """Return another view of a tensor's bytes. Errors: RUN0450, RUN0451."""
    whole: Any = np.ascontiguousarray(data)
    flat = whole.reshape(-1).view(np.uint8)
    return _bytes_as(flat, offset, shape, dtype, what, span)


def _bytes_as(
    storage: Any, offset: int, shape: list[int], dtype: DataType, what: str, span: Span | None
) -> Array:
    require_size(shape, dtype, what, span)
    flat = storage.reshape(-1).view(np.uint8)
    length = math.prod(shape) * dtype.itemsize
    if offset < 0 or offset + length > flat.size:
        raise faults.outside_storage(span, what).error((length, offset, flat.size))
    if offset % dtype.itemsize:
        raise faults.misaligned_offset(span, what, dtype).error((offset,))
    made: Any = flat[offset : offset + length].view(numpy_of(dtype)).reshape(shape)
    return made
