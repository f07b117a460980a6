"""Operators that create tensors, and triangular parts of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from loomir.op.rules.arguments import need_rank
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import kind_dtype, prim, scalar, shape, tensor
from loomir.relax.operator.reference import NPArray, convert_array
from loomir.relax.operator.rules import operand, shape_argument, tensor_info
from loomir.relax.shape import as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import DataType, numpy_of
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import Size, make
from loomir.tir.expr import IntImm, PrimExpr, const
from loomir.tir.expr import cast as cast_to

__all__ = [
    "eye",
    "eye_like",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

_INT64 = DataType("int64")
_FLOAT32 = DataType("float32")
_FLOAT64 = DataType("float64")


def check_element(c: OpContext, dtype: DataType) -> DataType:
    """Check that elements can have a dtype. Errors: OPS0010."""
    if (dtype.is_handle and not dtype.is_void) or dtype.lanes != 1:
        c.refuse(
            "OPS0010",
            f"elements cannot be {dtype}",
            help="give an integer dtype, a float one or bool, with one lane",
        )
    return dtype


def _infer_fill_dtype(c: OpContext, index: int) -> DataType:
    """Return the dtype of the value to fill with, a scalar or a tensor without axes."""
    info = operand(c, index)
    if isinstance(info, TensorStructInfo):
        need_rank(c, index, 0)
    return info.dtype


def _infer_full(c: OpContext) -> StructInfo:
    given = _infer_fill_dtype(c, 1)
    info = operand(c, 1)
    device = info.vdevice if isinstance(info, TensorStructInfo) else None
    return tensor_info(shape_argument(c, 0), check_element(c, c["dtype"] or given), device)


def _infer_full_like(c: OpContext) -> StructInfo:
    _infer_fill_dtype(c, 1)
    return _infer_like(c)


def _infer_like(c: OpContext) -> StructInfo:
    info = c.tensor(0)
    return TensorStructInfo(
        info.shape, check_element(c, c["dtype"] or info.dtype), info.vdevice, info.ndim
    )


def _infer_filled(c: OpContext) -> StructInfo:
    return tensor_info(shape_argument(c, 0), check_element(c, c["dtype"]), None)


def _fill(extents: Sequence[Size], value: Tensor | PrimExpr, dtype: DataType) -> Tensor:
    def element(*_: PrimExpr) -> PrimExpr:
        return cast_to(value() if isinstance(value, Tensor) else value, dtype)

    return cast("Tensor", make("full", list(extents), element))


def _lower_full(
    extents: Sequence[Size], value: Tensor | PrimExpr, dtype: DataType | None
) -> Tensor:
    return _fill(extents, value, value.dtype if dtype is None else dtype)


def _lower_full_like(x: Tensor, value: Tensor | PrimExpr, dtype: DataType | None) -> Tensor:
    return _fill(x.shape, value, x.dtype if dtype is None else dtype)


def _full(extents: tuple[int, ...], value: Any, dtype: DataType | None) -> NPArray:
    given = np.asarray(value)
    one = given if dtype is None else convert_array(given, dtype)
    return np.full(extents, one)


def _full_like(x: NPArray, value: Any, dtype: DataType | None) -> NPArray:
    kind = x.dtype if dtype is None else numpy_of(dtype)
    return np.full(x.shape, convert_array(np.asarray(value), str(kind)))


_ONE = TensorSample((), values=1.5)
_X = TensorSample((2, 3))
_OTHER_DTYPE = Mistake((_X,), {"dtype": "handle"}, "OPS0010")
full = define_op(
    "full",
    shape("shape"),
    scalar("fill_value"),
    kind_dtype("dtype", None),
    infer=_infer_full,
    doc="Fill a tensor with one value, which is a number, or a tensor without axes."
    "\n\nWithout ``dtype``, elements have the dtype of the value: a plain integer is int64, a plain"
    " float is float32.",
    family="create",
    lower=_lower_full,
    reference=_full,
    samples=(
        Sample(((2, 3), 1.5)),
        Sample(((2,), 7)),
        Sample(((), 0.1, "float64")),
        Sample(((0, 2), 1, "bool")),
        Sample(((3,), _ONE)),
        Sample(((3,), TensorSample((), "float32", values=3.7), "int8")),
    ),
    mistakes=(
        Mistake(((2,), TensorSample((1,))), {}, "OPS0030"),
        Mistake((_X, 1.0), {}, "OPS0004"),
        Mistake(((2,), 1.0, "handle"), {}, "OPS0010"),
        Mistake(((2,),), {}, "OPS0001"),
    ),
)
full_like = define_op(
    "full_like",
    tensor("x"),
    scalar("fill_value"),
    kind_dtype("dtype", None),
    infer=_infer_full_like,
    doc="Fill a tensor of the same shape, and by default the same dtype, with one value.",
    family="create",
    lower=_lower_full_like,
    reference=_full_like,
    samples=(
        Sample((_X, 2.0)),
        Sample((TensorSample((0,), "int8"), 3, "float16")),
        Sample((TensorSample((), "int32"), _ONE)),
    ),
    mistakes=(
        Mistake((_X, TensorSample((1,))), {}, "OPS0030"),
        Mistake((1, 1.0), {}, "OPS0004"),
        Mistake((_X, 1.0, "handle"), {}, "OPS0010"),
    ),
)


def _define_filled(name: str, value: int) -> Callable[..., Any]:
    def lower(extents: Sequence[Size], dtype: DataType) -> Tensor:
        return _fill(extents, const(value, dtype), dtype)

    def reference(extents: tuple[int, ...], dtype: DataType) -> NPArray:
        return np.full(extents, value, numpy_of(dtype))

    return define_op(
        name,
        shape("shape"),
        kind_dtype("dtype"),
        infer=_infer_filled,
        doc=f"Fill a tensor with {name}.",
        family="create",
        lower=lower,
        reference=reference,
        samples=(
            Sample(((2, 3), "float32")),
            Sample(((), "bfloat16")),
            Sample(((0,), "int8")),
            Sample(((3,), "bool")),
        ),
        mistakes=(
            Mistake((_X, "int8"), {}, "OPS0004"),
            Mistake(((2,), "handle"), {}, "OPS0010"),
            Mistake(((2,),), {}, "OPS0001"),
        ),
    )


def _define_filled_like(name: str, value: int) -> Callable[..., Any]:
    def lower(x: Tensor, dtype: DataType | None) -> Tensor:
        wanted = x.dtype if dtype is None else dtype
        return _fill(x.shape, const(value, wanted), wanted)

    def reference(x: NPArray, dtype: DataType | None) -> NPArray:
        return np.full(x.shape, value, x.dtype if dtype is None else numpy_of(dtype))

    return define_op(
        name,
        tensor("x"),
        kind_dtype("dtype", None),
        infer=_infer_like,
        doc=f"Fill a tensor of the same shape, and by default the same dtype, with "
        f"{name.removesuffix('_like')}.",
        family="create",
        lower=lower,
        reference=reference,
        samples=(
            Sample((_X,)),
            Sample((TensorSample((), "int8"), "bool")),
            Sample((TensorSample((0, 2), "float16"),)),
        ),
        mistakes=(_OTHER_DTYPE, Mistake((1,), {}, "OPS0004")),
    )


ones = _define_filled("ones", 1)
zeros = _define_filled("zeros", 0)
ones_like = _define_filled_like("ones_like", 1)
zeros_like = _define_filled_like("zeros_like", 0)


def read_integer(c: OpContext, index: int) -> PrimExpr | None:
    """Return the value of an argument that is an integer, None if it is unknown.

    Errors: OPS0004, OPS0007.
    """
    info = c.prim(index)
    if info is None:
        return None
    if not info.dtype.is_integer:
        c.refuse(
            "OPS0007",
            f"argument {index + 1} is a scalar of {info.dtype}, not an integer",
            help="give an integer",
            arg=index,
        )
    return info.value


def _infer_eye(c: OpContext) -> StructInfo:
    extents = [read_integer(c, i) for i in range(3)][:2]
    dtype = check_element(c, c["dtype"])
    known = [e for e in extents if e is not None]
    for i, extent in enumerate(extents):
        if isinstance(extent, IntImm):
            require_nonnegative(c, extent.value, i)
    return c.make(c.simplify(known) if len(known) == 2 else None, dtype, ndim=2)


def require_nonnegative(c: OpContext, extent: int, index: int) -> None:
    """Refuse a negative extent. Errors: OPS0011."""
    if extent < 0:
        c.refuse(
            "OPS0011",
            f"argument {index + 1} is the extent {extent}",
            help="give an extent of 0 or more",
            arg=index,
        )


def _adapt_eye(given: dict[str, Any]) -> dict[str, Any]:
    """Make a square where no number of columns is given."""
    if given.get("m") is None and "n" in given:
        return {**given, "m": given["n"]}
    return given


def _lower_eye(rows: PrimExpr, columns: PrimExpr, k: PrimExpr, dtype: DataType) -> Tensor:
    return topi.eye(as_dim(rows), as_dim(columns), as_dim(k), dtype)


def _eye(rows: Any, columns: Any, k: Any, dtype: DataType) -> NPArray:
    i, j = np.arange(int(rows))[:, None], np.arange(int(columns))
    return (j - i == int(k)).astype(numpy_of(dtype))


eye = define_op(
    "eye",
    prim("n"),
    prim("m", None),
    prim("k", 0),
    kind_dtype("dtype", _FLOAT32),
    infer=_infer_eye,
    doc="Build a matrix with ones on a diagonal, ``k`` above the main one, and zeros elsewhere."
    "\n\nThere are ``n`` rows, and ``m`` columns, ``n`` where that is left out.",
    family="create",
    lower=_lower_eye,
    reference=_eye,
    samples=(
        Sample((3,)),
        Sample((2, 4, 1, "int8")),
        Sample((4, 2, -1, "bool")),
        Sample((0, 3)),
        Sample((2, 3, 9, "float16")),
    ),
    mistakes=(
        Mistake((1.5,), {}, "OPS0007"),
        Mistake((2, -1), {}, "OPS0011"),
        Mistake((_X,), {}, "OPS0004"),
        Mistake((2, 2, 0, "handle"), {}, "OPS0010"),
    ),
    adapt=_adapt_eye,
)


def _infer_eye_like(c: OpContext) -> StructInfo:
    need_rank(c, 0, 2)
    read_integer(c, 1)
    return _infer_like(c)


def _lower_eye_like(x: Tensor, k: PrimExpr, dtype: DataType | None) -> Tensor:
    return topi.eye(x.shape[0], x.shape[1], as_dim(k), x.dtype if dtype is None else dtype)


def _eye_like(x: NPArray, k: Any, dtype: DataType | None) -> NPArray:
    made = _eye(x.shape[0], x.shape[1], k, _INT64)
    return made.astype(x.dtype if dtype is None else numpy_of(dtype))


eye_like = define_op(
    "eye_like",
    tensor("x"),
    prim("k", 0),
    kind_dtype("dtype", None),
    infer=_infer_eye_like,
    doc="Build a matrix of another's shape with ones on a diagonal, and zeros elsewhere."
    "\n\nThe diagonal is ``k`` above the main one; the dtype is that of ``x`` unless one is"
    " given.",
    family="create",
    lower=_lower_eye_like,
    reference=_eye_like,
    samples=(
        Sample((_X,)),
        Sample((TensorSample((4, 2), "int8"), -1, "float64")),
        Sample((TensorSample((0, 2), "bool"), 1)),
    ),
    mistakes=(
        Mistake((TensorSample((2,)),), {}, "OPS0030"),
        Mistake((_X, 0.5), {}, "OPS0007"),
        _OTHER_DTYPE,
    ),
)


def _infer_triangle(c: OpContext) -> StructInfo:
    read_integer(c, 1)
    return need_rank(c, 0, least=2)


def _define_triangle(
    name: str, doc: str, lower: Callable[..., Tensor], reference: Callable[..., Any]
) -> Callable[..., Any]:
    def lower_triangle(x: Tensor, k: PrimExpr) -> Tensor:
        return lower(x, as_dim(k))

    def compute(x: NPArray, k: Any) -> NPArray:
        return np.asarray(reference(x, int(k)), dtype=x.dtype)

    return define_op(
        name,
        tensor("x"),
        prim("k", 0),
        infer=_infer_triangle,
        doc=f"{doc}\n\nThis applies to the matrices of the last two axes; the part ends at the "
        "diagonal ``k`` above the main one.",
        family="create",
        lower=lower_triangle,
        reference=compute,
        samples=(
            Sample((TensorSample((3, 4)),)),
            Sample((TensorSample((2, 3, 3), "int8"), 1)),
            Sample((TensorSample((2, 3), "bool"), -1)),
            Sample((TensorSample((0, 3), "float16"), 5)),
            Sample((TensorSample((2, 2), values=[[np.nan, np.inf], [-0.0, 1]]),)),
        ),
        mistakes=(
            Mistake((TensorSample((2,)),), {}, "OPS0030"),
            Mistake((_X, 0.5), {}, "OPS0007"),
            Mistake((_X, _X), {}, "OPS0004"),
        ),
    )


tril = _define_triangle("tril", "Keep the lower triangle, and set zeros above.", topi.tril, np.tril)
triu = _define_triangle("triu", "Keep the upper triangle, and set zeros below.", topi.triu, np.triu)
