"""Operators that sort along an axis.

The sort is stable: equal elements, and zeros of either sign, keep the order of their indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loomir.op.rules.arguments import need_rank, number_of
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import flag, integer, kind_dtype, tensor, text
from loomir.relax.operator.reference import NPArray, is_float, widen, xp
from loomir.relax.struct_info import TensorStructInfo, TupleStructInfo
from loomir.support.dtype import DataType, numpy_of
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims

__all__ = ["argsort", "sort", "topk"]

_INT32 = DataType("int32")


def _infer_sorted(c: OpContext) -> TensorStructInfo:
    """Return what is known of a tensor that has the axis to sort. Errors: OPS0005, OPS0030."""
    info = need_rank(c, 0, least=1)
    if info.ndim >= 0:
        c.axis(c["axis"], info.ndim)
    return info


def _places(c: OpContext) -> DataType:
    """Return the dtype of places, which are integers. Errors: OPS0010."""
    dtype: DataType = c["dtype"]
    if not dtype.is_integer:
        c.refuse(
            "OPS0010",
            f"places cannot be {dtype}",
            help='give an integer dtype, such as "int32"',
        )
    return dtype


def _order(x: NPArray, axis: int, descending: bool, nan_greatest: bool = False) -> NPArray:
    """Return the places along an axis that sort it."""
    wide = widen(x)
    # Numbers of the elements in order: negated, they sort the other way and stay stable.
    _, rank = xp.unique(wide, return_inverse=True)
    rank = xp.asarray(rank).reshape(x.shape)
    key = -rank if descending else rank
    if is_float(x.dtype) and not (descending and nan_greatest):
        key = xp.where(xp.isnan(wide), x.size + 1, key)
    made: NPArray = xp.argsort(key, axis=axis, kind="stable")
    return made


_X = TensorSample((2, 5))
_SPECIAL = TensorSample((6,), values=[0.0, np.nan, -0.0, np.inf, -1.0, -np.inf])
_SAMPLES: tuple[tuple[Any, ...], ...] = (
    (_X,),
    (TensorSample((4, 3), "int8", -2, 2), 0, True),
    (_SPECIAL,),
    (_SPECIAL, -1, True),
    (TensorSample((2, 0, 3), "float16"), 1),
    (TensorSample((1,), "bool"), 0),
    (TensorSample((6,), "bfloat16", -1, 1), 0, True),
)
_MISTAKES = (
    Mistake((_X, 2), {}, "OPS0005"),
    Mistake((TensorSample(()),), {}, "OPS0030"),
    Mistake((1,), {}, "OPS0004"),
)


def _sort(x: NPArray, axis: int, descending: bool) -> NPArray:
    made: NPArray = xp.take_along_axis(x, _order(x, axis, descending), axis)
    return made


sort = define_op(
    "sort",
    tensor("x"),
    integer("axis", -1),
    flag("descending", False),
    infer=_infer_sorted,
    doc="Sort the elements along an axis; NaN comes last in either order."
    "\n\nShapes: that of ``x``.",
    family="sorting",
    lower=topi.sort,
    reference=_sort,
    samples=tuple(Sample(args) for args in _SAMPLES),
    mistakes=_MISTAKES,
)


def _infer_argsort(c: OpContext) -> StructInfo:
    info = _infer_sorted(c)
    return TensorStructInfo(info.shape, _places(c), info.vdevice, info.ndim)


def _argsort(data: NPArray, axis: int, descending: bool, dtype: DataType) -> NPArray:
    return _order(data, axis, descending).astype(numpy_of(dtype))


argsort = define_op(
    "argsort",
    tensor("data"),
    integer("axis", -1),
    flag("descending", False),
    kind_dtype("dtype", _INT32),
    infer=_infer_argsort,
    doc="Return the indices along an axis that sort it; NaN comes last in either order."
    "\n\nShapes: that of ``data``.",
    family="sorting",
    lower=topi.argsort,
    reference=_argsort,
    samples=(
        *[Sample(args) for args in _SAMPLES],
        Sample((_X, 0, False, "int64")),
    ),
    mistakes=(*_MISTAKES, Mistake((_X,), {"dtype": "float32"}, "OPS0010")),
)


# -- the greatest few --------------------------------------------------------------------------
def _infer_topk(c: OpContext) -> StructInfo:
    info, dtype = _infer_sorted(c), _places(c)
    k: int = c["k"]
    made = [c.make(None, d, info, ndim=info.ndim) for d in (info.dtype, dtype)]
    if info.dims is not None:
        axis, shape = c.axis(c["axis"], info.ndim), list(info.dims)
        extent = number_of(shape[axis])
        if extent is not None and k > extent:
            c.refuse(
                "OPS0014",
                f"axis {axis} has {extent} elements, not {k}",
                help="give a k that is no more, or less than 1 for all",
                arg=0,
            )
        if k >= 1:
            shape[axis] = c.make([k], dtype).dims[0]  # type: ignore[index]
        made = [c.make(shape, d, info) for d in (info.dtype, dtype)]
    return _choose(c["ret_type"], TupleStructInfo(tuple(made)), made)


def _choose(ret_type: str, both: Any, each: Any) -> Any:
    return both if ret_type == "both" else each[0 if ret_type == "values" else 1]


def _lower_topk(
    data: Tensor, k: int, axis: int, ret_type: str, largest: bool, dtype: DataType
) -> Any:
    count = dims(data)[axis] if k < 1 else k
    if k >= 1:
        data = topi.assume_elements(data, data, (axis,), k)
    made = topi.topk(data, count, axis, largest, dtype)
    return _choose(ret_type, made, made)


def _topk(data: NPArray, k: int, axis: int, ret_type: str, largest: bool, dtype: DataType) -> Any:
    count = data.shape[axis]
    if k > count:
        raise ValueError(f"there are {count} elements along axis {axis}, not {k}")
    order = _order(data, axis, largest, nan_greatest=True)
    places = xp.take(order, range(count if k < 1 else k), axis)
    values = xp.take_along_axis(data, places, axis)
    made = (values, places.astype(numpy_of(dtype)))
    return _choose(ret_type, made, made)


topk = define_op(
    "topk",
    tensor("data"),
    integer("k", 1),
    integer("axis", -1),
    text("ret_type", "both", choices=("both", "values", "indices")),
    flag("largest", True),
    kind_dtype("dtype", _INT32),
    infer=_infer_topk,
    doc="Return the ``k`` greatest elements along an axis in order, and their indices."
    "\n\nAll elements if ``k`` is less than 1, and the least ones if ``largest`` is false. A"
    " NaN is the greatest. ``ret_type``: a tuple of both, or one of them. Shapes: that of ``data``,"
    " with ``k`` at ``axis``.",
    family="sorting",
    lower=_lower_topk,
    reference=_topk,
    samples=(
        Sample((_X,)),
        Sample((TensorSample((4, 3), "int8", -2, 2), 3, 0)),
        Sample((_SPECIAL, 4, 0, "values")),
        Sample((_SPECIAL, 4, 0, "both", False)),
        Sample((TensorSample((3, 2), "float16"), 0, 0, "indices", True, "int64")),
        Sample((TensorSample((2, 0)), 0)),
    ),
    mistakes=(
        *_MISTAKES[1:],
        Mistake((_X, 1, 2), {}, "OPS0005"),
        Mistake((_X, 6), {}, "OPS0014"),
        Mistake((_X,), {"dtype": "float32"}, "OPS0010"),
        Mistake((_X,), {"ret_type": "all"}, "OPS0002"),
    ),
)
