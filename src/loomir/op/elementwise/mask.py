"""Operators that select elements by a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from loomir.op.rules.arguments import find_shared_device, holds
from loomir.op.rules.fitting import fit_shapes
from loomir.relax.node import StructInfo
from loomir.relax.operator.broadcast import broadcast
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import number, tensor
from loomir.relax.operator.reference import NPArray
from loomir.relax.operator.rules import need, tensor_info
from loomir.te import topi
from loomir.te.tensor import Tensor

__all__ = ["masked_fill"]

T = TensorSample
MASK = T((2, 3), "bool")


def _infer_masked_fill(c: OpContext) -> StructInfo:
    x, mask, value = c.tensor(0), c.tensor(1), c["value"]
    need(c, "bool", mask.dtype, 1)
    if not x.dtype.is_void and not holds(x.dtype, value):
        c.refuse(
            "OPS0039",
            f"{value} is no {x.dtype}",
            help=f"give a number that {x.dtype} holds, or convert the tensor with R.astype",
            arg=0,
        )
    return tensor_info(broadcast(c, [x, mask]), x.dtype, find_shared_device([x, mask]))


def _fill(x: Tensor, mask: Tensor, value: float) -> Tensor:
    x, mask = fit_shapes([x, mask])
    exact = value if x.dtype.is_float else int(value)
    return topi.where(mask, bool(exact) if x.dtype.is_bool else exact, x)


def _fill_with_numpy(x: Any, mask: Any, value: float) -> NPArray:
    array = np.asarray(x)
    return np.asarray(np.where(mask, np.array(value).astype(array.dtype), array))


masked_fill = define_op(
    "masked_fill",
    tensor("x"),
    tensor("mask"),
    number("value"),
    infer=_infer_masked_fill,
    doc="""Replace elements by a number where a mask of truths holds.

    Shapes: what both broadcast to. Types: that of ``x``, which must hold ``value``.
    Errors: OPS0007, OPS0008, OPS0039.""",
    family="mask",
    lower=_fill,
    reference=_fill_with_numpy,
    samples=(
        Sample((T((2, 3)), MASK, float("-inf"))),
        Sample((T((3,), "int8"), MASK, -128)),
        Sample((T((2, 3), "bfloat16"), T((), "bool"), 1.5)),
        Sample((T((2, 3), "bool"), MASK, 1)),
        Sample((T((0, 3), "float16"), T((3,), "bool"), 0)),
    ),
    mistakes=(
        Mistake((T((2, 3)), T((2, 3)), 0), {}, "OPS0007"),
        Mistake((T((2, 4)), MASK, 0), {}, "OPS0008"),
        Mistake((T((2, 3), "int8"), MASK, 128), {}, "OPS0039"),
        Mistake((T((2, 3), "int8"), MASK, 0.5), {}, "OPS0039"),
        Mistake((T((2, 3)), MASK, "zero"), {}, "OPS0002"),
    ),
)
