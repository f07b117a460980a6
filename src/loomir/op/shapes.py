"""Operators between tensors and shapes, and null."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import shape, tensor
from loomir.relax.shape import INT64, as_dim
from loomir.relax.struct_info import OBJECT, ShapeStructInfo, TensorStructInfo
from loomir.te import Tensor, topi
from loomir.tir.expr import IntImm

__all__ = ["null_value", "shape_of", "shape_to_tensor", "size", "tensor_to_shape"]

_MISTAKE = Mistake((None,), {}, "OPS0003")


def _infer_shape_of(c: OpContext) -> StructInfo:
    given = c.tensor(0)
    return (
        ShapeStructInfo(given.dims) if given.dims is not None else ShapeStructInfo(ndim=given.ndim)
    )


def _infer_size(c: OpContext) -> StructInfo:
    return c.make((), INT64, c.tensor(0))


def _size(x: Tensor) -> Tensor:
    return topi.full((), reduce(mul, map(as_dim, x.shape), IntImm(1, INT64)), INT64)


def _size_of(x: Any) -> Any:
    return np.array(x.size, "int64")


def _infer_tensor_to_shape(c: OpContext) -> StructInfo:
    given = c.tensor(0)
    if given.ndim not in (-1, 1):
        c.refuse(
            "RLX0240",
            f"the tensor has rank {given.ndim}, not 1",
            help="give the extents in a tensor of one axis",
            arg=0,
        )
    if not given.dtype.is_void and not given.dtype.is_integer:
        c.refuse(
            "RLX0240",
            f"the tensor is {given.dtype}, and extents are integers",
            help='convert it first: R.astype(x, "int64")',
            arg=0,
        )
    rank = given.dims[0] if given.dims else None
    return ShapeStructInfo(ndim=rank.value if isinstance(rank, IntImm) else -1)


def _infer_shape_to_tensor(c: OpContext) -> StructInfo:
    rank = c.shape(0).ndim
    return c.make((rank,), INT64) if rank >= 0 else TensorStructInfo(None, INT64, None, 1)


null_value = define_op(
    "null_value",
    infer=lambda c: OBJECT,
    doc="Return null, which stands for an omitted argument.",
    family="base",
)

shape_of = define_op(
    "shape_of",
    tensor("expr"),
    infer=_infer_shape_of,
    doc="Return the shape of a tensor.",
    family="base",
    mistakes=(_MISTAKE,),
)

size = define_op(
    "size",
    tensor("expr"),
    infer=_infer_size,
    doc="Count the elements of a tensor: an int64 tensor of rank 0.",
    family="base",
    lower=_size,
    reference=_size_of,
    samples=(
        Sample((TensorSample((2, 3)),)),
        Sample((TensorSample((0, 3), "int8"),)),
        Sample((TensorSample((), "bool"),)),
    ),
    mistakes=(_MISTAKE,),
)

tensor_to_shape = define_op(
    "tensor_to_shape",
    tensor("expr"),
    infer=_infer_tensor_to_shape,
    doc="Return the shape whose extents are the elements of a tensor."
    "\n\nThe tensor has one axis, and no negative elements. Errors: RLX0240.",
    family="base",
    mistakes=(_MISTAKE,),
)

shape_to_tensor = define_op(
    "shape_to_tensor",
    shape("expr"),
    infer=_infer_shape_to_tensor,
    doc="Return the extents of a shape as a tensor of int64.",
    family="base",
    mistakes=(_MISTAKE,),
)
