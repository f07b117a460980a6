"""Quantise floats to small integers, and dequantise them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loomir.op.rules.arguments import common_extent, must_equal
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import integer, kind_dtype, tensor
from loomir.relax.operator.reference import NPArray, convert_array, widen
from loomir.relax.operator.rules import need
from loomir.relax.shape import Dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import DataType
from loomir.te import topi
from loomir.te.operation import compute
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import wide
from loomir.te.topi.shape import widen as widened_in
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Max, Min, PrimExpr, cast, const

__all__ = ["dequantize", "quantize"]

T = TensorSample


# -- inference -----------------------------------------------------------------------------------
def _check_parameter(c: OpContext, index: int, x: TensorStructInfo, dims: list[Any] | None) -> None:
    """Check that a parameter is a scalar, or has an element for each index of the axis.

    Errors: OPS0030, OPS0032.
    """
    info = c.tensor(index)
    if info.ndim not in (-1, 0, 1):
        c.refuse(
            "OPS0030",
            f"argument {index + 1} has {info.ndim} axes, not 0 or 1",
            help="give one number for all elements, or one for each place along the axis",
            arg=index,
        )
    if x.ndim < 0:
        return
    if not x.ndim and info.ndim == 1:
        c.refuse(
            "OPS0030",
            f"argument {index + 1} has 1 axis, and the tensor none",
            help="give one number of no axes",
            arg=index,
        )
    axis = c.axis(c["axis"], x.ndim) if x.ndim else 0
    if info.ndim == 1 and info.dims is not None and dims is not None:
        must_equal(c, dims[axis], info.dims[0], "the axis and the number of values", arg=index)
        dims[axis] = common_extent(dims[axis], info.dims[0])


def _infer_scaled(c: OpContext, dtype: DataType) -> StructInfo:
    x = c.tensor(0)
    dims: list[Dim] | None = None if x.dims is None else list(x.dims)
    need(c, "float", c.tensor(1).dtype, 1)
    need(c, "integer", c.tensor(2).dtype, 2)
    for index in (1, 2):
        _check_parameter(c, index, x, dims)
    return c.make(dims, dtype, x, ndim=x.ndim)


def _quantize(c: OpContext) -> StructInfo:
    need(c, "float", c.tensor(0).dtype, 0)
    need(c, "integer", c["out_dtype"], 0)
    return _infer_scaled(c, c["out_dtype"])


def _dequantize(c: OpContext) -> StructInfo:
    need(c, "integer", c.tensor(0).dtype, 0)
    need(c, "float", c["out_dtype"], 0)
    return _infer_scaled(c, c["out_dtype"])


# -- meaning -------------------------------------------------------------------------------------
Place = Callable[[tuple[PrimExpr, ...]], PrimExpr]


def _read_along(x: Tensor, values: Tensor, axis: int) -> Place:
    """Return the value that belongs to an element."""
    if not values.ndim:
        return lambda i: values()
    at = axis % x.ndim
    fitted = topi.assume_shape(values, [x.shape[at]])
    return lambda i: fitted(i[at])


def _lower_quantize(
    data: Tensor, scale: Tensor, zero_point: Tensor, axis: int, out_dtype: DataType
) -> Tensor:
    scale_of, zero_of = _read_along(data, scale, axis), _read_along(data, zero_point, axis)
    low, high = float(out_dtype.min_value), float(out_dtype.max_value)

    def element(*i: PrimExpr) -> PrimExpr:
        value = cast(widened_in(data(*i)), "float64") / cast(scale_of(i), "float64")
        moved = call_builtin("round", value) + cast(zero_of(i), "float64")
        bounded = Max(Min(moved, const(high, "float64")), const(low, "float64"))
        return cast(bounded, out_dtype)

    return compute(data.shape, element, name="quantize")


def _lower_dequantize(
    data: Tensor, scale: Tensor, zero_point: Tensor, axis: int, out_dtype: DataType
) -> Tensor:
    scale_of, zero_of = _read_along(data, scale, axis), _read_along(data, zero_point, axis)

    def element(*i: PrimExpr) -> PrimExpr:
        moved = cast(wide(data(*i)) - wide(zero_of(i)), "float32")
        return cast(moved * cast(scale_of(i), "float32"), out_dtype)

    return compute(data.shape, element, name="dequantize")


def _expand_along(x: NPArray, values: Any, axis: int) -> NPArray:
    made = np.asarray(values)
    if not made.ndim:
        return made
    return np.expand_dims(made, [a for a in range(x.ndim) if a != axis % x.ndim])


def _quantize_with_numpy(
    data: Any, scale: Any, zero_point: Any, axis: int, out_dtype: DataType
) -> NPArray:
    x = np.asarray(data)
    with np.errstate(all="ignore"):
        value = widen(x).astype("float64") / _expand_along(x, scale, axis).astype("float64")
        moved = np.round(value) + _expand_along(x, zero_point, axis).astype("float64")
    return convert_array(moved, out_dtype)


def _dequantize_with_numpy(
    data: Any, scale: Any, zero_point: Any, axis: int, out_dtype: DataType
) -> NPArray:
    x = np.asarray(data)
    moved = x.astype("int64") - _expand_along(x, zero_point, axis).astype("int64")
    with np.errstate(all="ignore"):
        made = moved.astype("float32") * _expand_along(x, scale, axis).astype("float32")
    return convert_array(made, out_dtype)


_SCALES = T((3,), "float32", 0.01, 0.1)
_ZEROS = T((3,), "int8", -5, 5)

quantize = define_op(
    "quantize",
    tensor("data"),
    tensor("scale"),
    tensor("zero_point"),
    integer("axis", -1),
    kind_dtype("out_dtype", "int8"),
    infer=_quantize,
    doc="""Compute ``round(data / scale) + zero_point``, clipped to the range of ``out_dtype``.

    Halves round to even. Quotients and sums are computed in float64; NaN becomes 0.
    Shapes: that of ``data``; ``scale`` and ``zero_point`` have no axes, or the one at ``axis``.
    Types: floats, floats and integers give ``out_dtype``.
    Errors: OPS0005, OPS0007, OPS0030, OPS0032.""",
    family="qdq",
    lower=_lower_quantize,
    reference=_quantize_with_numpy,
    samples=(
        Sample((T((2, 3)), _SCALES, _ZEROS)),
        Sample((T((3, 2)), _SCALES, T((), "int32", 0, 9), 0, "uint8")),
        Sample((T((2, 3), "bfloat16"), T((), "float32", 0.1, 0.2), T((), "int8"))),
        Sample((T((4,)), T((), "float32", values=1.0), T((), "int8", values=0))),
        Sample(
            (
                T((6,), values=(0.5, 1.5, -2.5, 1e9, float("nan"), float("-inf"))),
                T((), values=1.0),
                T((), "int8", values=0),
                0,
                "int16",
            )
        ),
        Sample((T((), "float16"), T((), "float16", 0.5, 0.6), T((), "int8"))),
        Sample((T((0, 3)), _SCALES, _ZEROS)),
    ),
    mistakes=(
        Mistake((T((2, 3), "int8"), _SCALES, _ZEROS), {}, "OPS0007"),
        Mistake((T((2, 3)), _ZEROS, _ZEROS), {}, "OPS0007"),
        Mistake((T((2, 3)), _SCALES, _SCALES), {}, "OPS0007"),
        Mistake((T((2, 3)), _SCALES, _ZEROS, -1, "float32"), {}, "OPS0007"),
        Mistake((T((2, 3)), T((2, 3)), _ZEROS), {}, "OPS0030"),
        Mistake((T((2, 3)), _SCALES, _ZEROS, 0), {}, "OPS0032"),
        Mistake((T((2, 3)), _SCALES, _ZEROS, 2), {}, "OPS0005"),
        Mistake((T(()), _SCALES, _ZEROS), {}, "OPS0030"),
    ),
)

dequantize = define_op(
    "dequantize",
    tensor("data"),
    tensor("scale"),
    tensor("zero_point"),
    integer("axis", -1),
    kind_dtype("out_dtype", "float32"),
    infer=_dequantize,
    doc="""Compute ``(data - zero_point) * scale``.

    Differences are computed in int64, products in float32, rounded once more to ``out_dtype``.
    Shapes: that of ``data``; ``scale`` and ``zero_point`` have no axes, or the one at ``axis``.
    Types: integers, floats and integers give ``out_dtype``.
    Errors: OPS0005, OPS0007, OPS0030, OPS0032.""",
    family="qdq",
    lower=_lower_dequantize,
    reference=_dequantize_with_numpy,
    samples=(
        Sample((T((2, 3), "int8", -128, 127), _SCALES, _ZEROS)),
        Sample((T((3, 2), "uint8", 0, 255), _SCALES, T((), "int32", 0, 9), 0, "float16")),
        Sample((T((), "int32"), T((), "float32"), T((), "int8"))),
        Sample((T((0, 3), "int8"), _SCALES, _ZEROS, -1, "bfloat16")),
    ),
    mistakes=(
        Mistake((T((2, 3)), _SCALES, _ZEROS), {}, "OPS0007"),
        Mistake((T((2, 3), "int8"), _ZEROS, _ZEROS), {}, "OPS0007"),
        Mistake((T((2, 3), "int8"), _SCALES, _ZEROS, -1, "int32"), {}, "OPS0007"),
        Mistake((T((2, 3), "int8"), T((2, 3)), _ZEROS), {}, "OPS0030"),
        Mistake((T((2, 3), "int8"), _SCALES, _ZEROS, 0), {}, "OPS0032"),
        Mistake((T((2, 3), "int8"), _SCALES, _ZEROS, 2), {}, "OPS0005"),
    ),
)
