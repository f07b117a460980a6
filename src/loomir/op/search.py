"""Operators that select elements, and that search for indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loomir.op.rules.arguments import need_rank
from loomir.op.rules.fitting import fit_lowering
from loomir.op.statistical import infer_reduction, refuse_empty, require_elements
from loomir.relax.node import StructInfo
from loomir.relax.operator.broadcast import broadcast, extents_of
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import flag, integer, tensor
from loomir.relax.operator.reference import NPArray, widen, xp
from loomir.relax.operator.rules import common_device, common_dtype, need, operand, tensor_info
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import DataType
from loomir.te import topi
from loomir.te.tensor import Tensor

__all__ = ["argmax", "argmin", "bucketize", "where"]

_INT64 = DataType("int64")
_X = TensorSample((2, 3))


# -- where -------------------------------------------------------------------------------------
def _infer_where(c: OpContext) -> StructInfo:
    need(c, "bool", c.tensor(0).dtype)
    dtype = common_dtype(c, (1, 2))
    infos = [info for i in range(3) if isinstance(info := operand(c, i), TensorStructInfo)]
    return tensor_info(broadcast(c, infos), dtype, common_device(c, range(3)))


def _where(condition: NPArray, a: Any, b: Any) -> NPArray:
    dtype = xp.asarray(a if isinstance(a, np.ndarray) else b).dtype
    made: NPArray = xp.where(condition, xp.asarray(a, dtype), xp.asarray(b, dtype))
    return made


_B, _C = TensorSample((3,), "bool"), TensorSample((2, 3), "bool")
where = define_op(
    "where",
    tensor("condition"),
    tensor("x1"),
    tensor("x2"),
    infer=_infer_where,
    doc="Select elements of ``x1`` where the condition holds, of ``x2`` elsewhere."
    "\n\nAll three broadcast; one of the choices may be a number.",
    family="search",
    lower=fit_lowering(topi.where),
    reference=_where,
    samples=(
        Sample((_C, _X, _X)),
        Sample(
            (TensorSample((3,), "bool"), TensorSample((2, 1), "int8"), TensorSample((), "int8"))
        ),
        Sample((_C, TensorSample((1, 3), "float16"), 2)),
        Sample((TensorSample((), "bool"), 0.5, TensorSample((2,), "bfloat16"))),
        Sample(
            (TensorSample((0, 3), "bool"), TensorSample((3,), "bool"), TensorSample((1, 1), "bool"))
        ),
        Sample((_C, TensorSample((2, 3), values=[[np.nan, -0.0, np.inf]] * 2), _X)),
    ),
    mistakes=(
        Mistake((_X, _X, _X), {}, "OPS0007"),
        Mistake((_C, _X, TensorSample((2, 3), "int32")), {}, "OPS0006"),
        Mistake((_C, _X, TensorSample((2,))), {}, "OPS0008"),
        Mistake((_C, 1, 2), {}, "OPS0004"),
    ),
)


# -- places ------------------------------------------------------------------------------------
def _infer_place(c: OpContext) -> StructInfo:
    info, axis = c.tensor(0), c["axis"]
    need(c, "number", info.dtype)
    over = None if axis is None else (axis,)
    refuse_empty(c, info, over)
    return infer_reduction(c, info, over, c["keepdims"], _INT64)


def _define_place(name: str, what: str) -> Callable[..., Any]:
    def reference(x: NPArray, axis: int | None, keepdims: bool) -> NPArray:
        found = getattr(np, name)(widen(x), axis=axis, keepdims=keepdims)
        return xp.asarray(found).astype("int64")

    return define_op(
        name,
        tensor("x"),
        integer("axis", None),
        flag("keepdims", False),
        infer=_infer_place,
        doc=f"Find the index of the {what} element, the first of equal ones; NaN is first."
        "\n\nIndices are int64, into the flat tensor if ``axis`` is None. Shapes: without ``axis``,"
        " or with extents of 1 if ``keepdims``.",
        family="search",
        lower=require_elements(getattr(topi, name)),
        reference=reference,
        samples=(
            Sample((_X,)),
            Sample((TensorSample((3, 4), "int8", 0, 2), 1)),
            Sample((TensorSample((2, 3, 2), "float16"), -2, True)),
            Sample((TensorSample((2, 3), values=[[1, np.nan, np.nan], [-0.0, 0.0, -0.0]]), 1)),
            Sample((TensorSample(()),)),
            Sample((TensorSample((0, 3), "bfloat16"), 1)),
            Sample((TensorSample((2, 2), "uint8"), None, True)),
        ),
        mistakes=(
            Mistake((_X, 2), {}, "OPS0005"),
            Mistake((_X, (0, 1)), {}, "OPS0002"),
            Mistake((TensorSample((2,), "bool"),), {}, "OPS0007"),
            Mistake((TensorSample((0, 3)), 0), {}, "OPS0013"),
        ),
    )


argmax = _define_place("argmax", "greatest")
argmin = _define_place("argmin", "least")


# -- buckets -----------------------------------------------------------------------------------
def _infer_bucketize(c: OpContext) -> StructInfo:
    info = c.tensor(0)
    need_rank(c, 1, 1)
    need(c, "number", info.dtype)
    common_dtype(c, (0, 1))
    dtype = DataType("int32" if c["out_int32"] else "int64")
    return tensor_info(extents_of(info), dtype, common_device(c, (0, 1)))


def _lower_bucketize(x: Tensor, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    return topi.searchsorted(boundaries, x, right, "int32" if out_int32 else "int64")


def _bucketize(x: NPArray, boundaries: NPArray, out_int32: bool, right: bool) -> NPArray:
    side = "right" if right else "left"
    found = xp.searchsorted(widen(boundaries), widen(x), side=side)
    return xp.asarray(found).astype("int32" if out_int32 else "int64")


_STEPS = TensorSample((4,), values=[-1.0, 0.0, 0.5, 0.5])
bucketize = define_op(
    "bucketize",
    tensor("input_tensor"),
    tensor("boundaries"),
    flag("out_int32", False),
    flag("right", False),
    infer=_infer_bucketize,
    doc="Return the bucket of each element, between sorted boundaries."
    "\n\nBucket ``i`` has elements greater than boundary ``i - 1``, up to boundary ``i``; with "
    "``right``,"
    " elements from boundary ``i - 1`` on, less than boundary ``i``. NaN is in the last one."
    " Shapes: that of ``input_tensor``.",
    family="search",
    lower=_lower_bucketize,
    reference=_bucketize,
    samples=(
        Sample((_X, _STEPS)),
        Sample((TensorSample((5,), values=[-1, 0, 0.5, 9, np.nan]), _STEPS, True, True)),
        Sample((TensorSample((), "int8"), TensorSample((2,), "int8", values=[-1, 1]))),
        Sample((TensorSample((3,), "float16"), TensorSample((0,), "float16"))),
        Sample((TensorSample((0, 2)), _STEPS), {"right": True}),
    ),
    mistakes=(
        Mistake((_X, _X), {}, "OPS0030"),
        Mistake((_X, TensorSample((2,), "int32")), {}, "OPS0006"),
        Mistake((TensorSample((2,), "bool"), TensorSample((2,), "bool")), {}, "OPS0007"),
    ),
)
