"""Operators that change the dtype of elements."""

from __future__ import annotations

from typing import Any

from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import kind_dtype, tensor
from loomir.relax.operator.reference import NPArray, convert_array
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import DataType
from loomir.te import topi

__all__ = ["astype", "wrap_param"]


def _infer(c: OpContext) -> StructInfo:
    info = c.tensor(0)
    dtype: DataType = c["dtype"]
    if dtype.is_handle or dtype.lanes != 1:
        c.refuse(
            "OPS0010",
            f"elements cannot be {dtype}",
            help="give an integer dtype, a float one or bool, with one lane",
        )
    return TensorStructInfo(info.shape, dtype, info.vdevice, info.ndim)


def _reference(x: NPArray, dtype: Any) -> NPArray:
    return convert_array(x, dtype)


_MISTAKES = (
    Mistake((TensorSample((2,)), "handle"), {}, "OPS0010"),
    Mistake((TensorSample((2,)), "float32x4"), {}, "OPS0010"),
    Mistake((TensorSample((2,)), 3), {}, "OPS0002"),
    Mistake((1, "int8"), {}, "OPS0004"),
)

astype = define_op(
    "astype",
    tensor("x"),
    kind_dtype("dtype"),
    infer=_infer,
    doc="Convert elements to a dtype."
    "\n\nFloats to integers are truncated and saturate, and NaN becomes 0; integers to narrower"
    " ones lose their upper bits; numbers other than 0 become True.",
    family="datatype",
    lower=topi.cast,
    reference=_reference,
    samples=(
        Sample((TensorSample((2, 3), low=-300, high=300), "int8")),
        Sample((TensorSample((), "int64"), "float16")),
        Sample((TensorSample((0, 2), "bool"), "uint8")),
        Sample((TensorSample((4,), "float64"), "bfloat16")),
        Sample((TensorSample((3,), "int32", -1, 1), "bool")),
        Sample((TensorSample((3,), "uint8", 0, 255), "int8")),
    ),
    mistakes=_MISTAKES,
)

wrap_param = define_op(
    "wrap_param",
    tensor("data"),
    kind_dtype("dtype", DataType("float32")),
    infer=_infer,
    doc="Convert a parameter of a model to the dtype in which it is used, as ``astype`` does.",
    family="datatype",
    lower=topi.cast,
    reference=_reference,
    samples=(
        Sample((TensorSample((2, 3), "float16"),)),
        Sample((TensorSample((), "float32"), "bfloat16")),
    ),
    mistakes=_MISTAKES,
)
