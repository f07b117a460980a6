"""Dequantised values, as bytes, zero point and scale: read them from a graph, and write them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from loomir.relax.expr import Call
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.operator.reference import NPArray
from loomir.support.dtype import DataType
from loomir.transform.relax.graph_reading import extent_of, make_call, operator_of, tensor_info
from loomir.transform.relax.quantization.graph_values import (
    BYTES,
    GraphValues,
    as_constant,
    clip_bounds,
    dtype_of,
    is_uniform,
)
from loomir.transform.relax.quantization.integer_factors import (
    IntegerFactor,
    keeps_shape,
    narrow_zero_point,
    read_factor,
)

__all__ = [
    "DequantizedValue",
    "QuantizedValue",
    "dequantize_codes",
    "find_axis",
    "range_of",
    "read_dequantized",
    "read_quantized",
]

_FLOAT32: Final = DataType("float32")


class DequantizedValue(NamedTuple):
    """``float32(int32(codes) - int32(zero)) * scale``, broadcast as by NumPy."""

    factor: IntegerFactor
    scale: RelaxExpr
    values: NPArray | None
    """The contents of the scale, if they are constant."""

    @property
    def uniform(self) -> float | None:
        """Return the scale if it is one positive number for all elements, else None."""
        values: Any = self.values
        if values is None or not is_uniform(values):
            return None
        scale = float(values.reshape(-1)[0])
        # Products of codes and scale are finite and normal, so that they determine the codes.
        return scale if 1e-30 < scale < 1e30 else None


def read_dequantized(values: GraphValues, leaf: RelaxExpr) -> DequantizedValue | None:
    """Read a float32 tensor that is dequantised from bytes; None for others."""
    if dtype_of(leaf) is not _FLOAT32:
        return None
    call = values.call(leaf, "dequantize", "multiply")
    if call is None:
        return None
    if len(call.args) == 3:
        return _read_operator(values, call)
    for codes, scale in (call.args, call.args[::-1]):
        factor = _read_whole(values, codes)
        if factor is not None and dtype_of(scale) is _FLOAT32 and keeps_shape(leaf, codes):
            return DequantizedValue(factor, scale, values.constant(scale))
    return None


def _read_whole(values: GraphValues, leaf: RelaxExpr) -> IntegerFactor | None:
    """Read floats that are bytes minus a zero point."""
    call = values.call(leaf, "astype")
    if call is not None and dtype_of(leaf) is _FLOAT32:
        source = call.args[0]
        return (
            IntegerFactor(source, None)
            if dtype_of(source) in BYTES
            else read_factor(values, source)
        )
    call = values.call(leaf, "subtract")
    if call is None:
        return None
    found = _read_whole_bytes(values, call.args[0])
    zero: Any = values.constant(call.args[1])
    if found is None or zero is None or not keeps_shape(leaf, found):
        return None
    if max(-zero.min(), zero.max()) > 255 or (zero != zero.round()).any():
        return None
    return IntegerFactor(found, narrow_zero_point(zero.astype("int32"), found))


def _read_whole_bytes(values: GraphValues, leaf: RelaxExpr) -> RelaxExpr | None:
    call = values.call(leaf, "astype")
    if call is None or dtype_of(leaf) is not _FLOAT32 or dtype_of(call.args[0]) not in BYTES:
        return None
    return call.args[0]


def _read_operator(values: GraphValues, call: Call) -> DequantizedValue | None:
    """Read ``R.dequantize``, whose parameters vary along an axis."""
    codes, scale, zero = call.args
    info = tensor_info(codes)
    if info is None or info.dtype not in BYTES:
        return None
    found = [
        _reshape_along(values, given, call.attrs["axis"], info.ndim) for given in (scale, zero)
    ]
    if any(array is None for array in found):
        return None
    factor, point = found
    kept = narrow_zero_point(np.asarray(point).astype("int64"), codes)
    array: Any = np.asarray(factor).astype("float32")
    return DequantizedValue(IntegerFactor(codes, kept), as_constant(array), array)


def _reshape_along(values: GraphValues, leaf: RelaxExpr, axis: int, ndim: int) -> NPArray | None:
    """Return a constant parameter in a shape that broadcasts to a tensor."""
    array: Any = values.constant(leaf)
    if array is None or array.ndim == 0:
        return array
    return array.reshape([-1 if a == axis % ndim else 1 for a in range(ndim)])


class QuantizedValue(NamedTuple):
    """``clip(round(source / scale) + zero)`` as bytes, with a single scale and zero point."""

    source: RelaxExpr
    scale: float
    zero: int
    dtype: DataType


def read_quantized(values: GraphValues, call: Call) -> QuantizedValue | None:
    """Read a quantisation of floats to bytes with constant parameters; None for others."""
    if operator_of(call) == "quantize":
        return _read_quantize(values, call)
    if operator_of(call) != "astype":
        return None
    dtype: DataType = call.attrs["dtype"]
    clip = values.call(call.args[0], "clip")
    if (
        dtype not in BYTES
        or clip is None
        or clip_bounds(clip) != (dtype.min_value, dtype.max_value)
    ):
        return None
    leaf, zero = clip.args[0], 0.0
    added = values.call(leaf, "add")
    if added is not None:
        shift = _read_single_number(values, added.args[1])
        if shift is None:
            return None
        leaf, zero = added.args[0], shift
    rounded = values.call(leaf, "round")
    if rounded is None or zero != round(zero):
        return None
    scaled = values.call(rounded.args[0], "divide", "multiply")
    by = None if scaled is None else _read_single_number(values, scaled.args[1])
    if scaled is None or not by or dtype_of(scaled.args[0]) is not _FLOAT32:
        return None
    if values.call(rounded.args[0], "multiply") is not None:
        by = _inverse(by)
    return QuantizedValue(scaled.args[0], by, int(zero), dtype)


def _inverse(by: float) -> float:
    one: Any = np.float32(1)
    return float(one / np.float32(by))


def _read_quantize(values: GraphValues, call: Call) -> QuantizedValue | None:
    source, scale, zero = call.args
    dtype: DataType = call.attrs["out_dtype"]
    numbers = [_read_single_number(values, given) for given in (scale, zero)]
    if dtype not in BYTES or dtype_of(source) is not _FLOAT32 or None in numbers:
        return None
    by, point = numbers
    assert by is not None
    assert point is not None
    return QuantizedValue(source, by, int(point), dtype)


def _read_single_number(values: GraphValues, leaf: RelaxExpr) -> float | None:
    found: Any = values.constant(leaf)
    if found is None or not is_uniform(found):
        return None
    return float(found.reshape(-1)[0])


def find_axis(leaf: RelaxExpr | None, ndim: int) -> int | None:
    """Return the axis of a tensor along which a parameter varies, -1 for none.

    Return None if it varies along several axes, or along unknown extents.
    """
    if leaf is None:
        return -1
    info = tensor_info(leaf)
    if info is None or info.dims is None or info.ndim > ndim:
        return None
    axes = [ndim - info.ndim + a for a in range(info.ndim) if extent_of(info, a) != 1]
    return None if len(axes) > 1 else [*axes, -1][0]


def dequantize_codes(
    builder: BlockBuilder, codes: RelaxExpr, zero: RelaxExpr | None, scale: RelaxExpr
) -> Call:
    """Emit the floats that bytes represent, by the same operations that were read."""
    wide = builder.emit(make_call("astype", codes, "int32"))
    if zero is not None:
        point = builder.emit(make_call("astype", zero, "int32"))
        wide = builder.emit(make_call("subtract", wide, point))
    whole = builder.emit(make_call("astype", wide, "float32"))
    return make_call("multiply", whole, scale)


def range_of(factor: IntegerFactor, values: GraphValues) -> int:
    """Return the largest absolute value of bytes minus their zero point."""
    dtype = dtype_of(factor.codes)
    assert dtype is not None
    low, high = int(dtype.min_value), int(dtype.max_value)
    if factor.zero is None:
        return max(-low, high)
    first, last = values.bounds(factor.zero)
    return max(high - first, last - low)
