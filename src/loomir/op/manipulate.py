"""Operators that only change the shape of a tensor or the order of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from loomir.arith.fold import add
from loomir.op.rules.arguments import (
    common_extent,
    dims_of,
    find_common_dtype,
    find_known_tensor,
    find_shared_device,
    format_dim,
    is_one,
    must_equal,
    normalize_axes,
    product,
)
from loomir.op.rules.reshaping import (
    infer_broadcast_to,
    infer_reshape,
    lower_broadcast_to,
    lower_reshape,
    normalize_reshape,
)
from loomir.relax.expr import Call
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import axes, integer, shape, tensor, tensors
from loomir.relax.shape import ShapeExpr, as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.tir.expr import PrimExpr

__all__ = [
    "broadcast_to",
    "concat",
    "expand_dims",
    "flatten",
    "flip",
    "permute_dims",
    "reshape",
    "squeeze",
    "stack",
]

T = TensorSample
X = T((2, 3, 4))


# -- another shape -------------------------------------------------------------------------------
reshape = define_op(
    "reshape",
    tensor("x"),
    shape("shape"),
    infer=infer_reshape,
    doc="""Change the shape, keeping elements in row-major order.

    One extent may be -1, to be inferred from the number of elements. An extent of 0 is 0. Whether
    the numbers of elements agree is checked at run time, if it is not known before. Shapes:
    ``shape``. Errors: OPS0032 if the numbers of elements differ, OPS0036.""",
    family="manipulate",
    lower=lower_reshape,
    reference=np.reshape,
    normalize=normalize_reshape,
    samples=(
        Sample((X, (4, 6))),
        Sample((X, (2, -1))),
        Sample((X, 24)),
        Sample((T((), "bfloat16"), (1, 1))),
        Sample((T((1, 1), "bool"), ())),
        Sample((T((0, 3), "int8"), (5, 0))),
    ),
    mistakes=(
        Mistake((X, (5, 5)), {}, "OPS0032"),
        Mistake((X, (-1, 5)), {}, "OPS0032"),
        Mistake((X, (-1, -1)), {}, "OPS0036"),
        Mistake((X, (-2, 12)), {}, "OPS0036"),
    ),
)


def _flatten(c: OpContext) -> StructInfo:
    x = c.tensor(0)
    dims = None if x.dims is None else c.simplify([product(x.dims)])
    return c.make(dims, x.dtype, x, ndim=1)


flatten = define_op(
    "flatten",
    tensor("x"),
    infer=_flatten,
    doc="""Flatten a tensor to one axis, in row-major order.

    Shapes: ``(number of elements,)``.""",
    family="manipulate",
    lower=topi.flatten,
    reference=np.ravel,
    samples=(Sample((X,)), Sample((T((), "int64"),)), Sample((T((3, 0), "float16"),))),
    mistakes=(Mistake((2,), {}, "OPS0004"),),
)

broadcast_to = define_op(
    "broadcast_to",
    tensor("x"),
    shape("shape"),
    infer=infer_broadcast_to,
    doc="""Broadcast to a shape: repeat axes of extent 1, and add leading axes.

    Shapes: ``shape``. Errors: OPS0008 if an extent is neither 1 nor the wanted one.""",
    family="manipulate",
    lower=lower_broadcast_to,
    reference=np.broadcast_to,
    samples=(
        Sample((T((1, 3)), (2, 4, 3))),
        Sample((T((), "int8"), (2, 2))),
        Sample((T((2, 1), "bool"), (2, 0))),
        Sample((T((), "float16"), ())),
    ),
    mistakes=(
        Mistake((T((2, 3)), (2, 4)), {}, "OPS0008"),
        Mistake((T((2, 3)), (3,)), {}, "OPS0008"),
    ),
)


def _expand_dims(c: OpContext) -> StructInfo:
    x = c.tensor(0)
    wanted: tuple[int, ...] = c["axis"]
    if x.ndim < 0:
        return c.make(None, x.dtype, x)
    new = normalize_axes(c, wanted, x.ndim, extra=len(wanted))
    rank = x.ndim + len(new)
    if x.dims is None:
        return c.make(None, x.dtype, x, ndim=rank)
    old = iter(x.dims)
    return c.make([1 if a in new else next(old) for a in range(rank)], x.dtype, x)


expand_dims = define_op(
    "expand_dims",
    tensor("x"),
    axes("axis"),
    infer=_expand_dims,
    doc="""Insert axes of extent 1, at places counted in the result.

    Shapes: with extents of 1 at ``axis``. Errors: OPS0005, OPS0031.""",
    family="manipulate",
    lower=topi.expand_dims,
    reference=np.expand_dims,
    samples=(
        Sample((X, 1)),
        Sample((X, (0, -1))),
        Sample((T((), "uint8"), (0, 1))),
        Sample((T((0, 2), "bfloat16"), -2)),
        Sample((X, ())),
    ),
    mistakes=(Mistake((X, 4), {}, "OPS0005"), Mistake((X, (1, -4)), {}, "OPS0031")),
)


def _squeeze(c: OpContext) -> StructInfo:
    x = c.tensor(0)
    wanted: tuple[int, ...] | None = c["axis"]
    if x.dims is not None and wanted is None:
        return c.make([d for d in x.dims if not is_one(d)], x.dtype, x)
    if x.ndim < 0 or wanted is None:
        return c.make(None, x.dtype, x)
    gone = normalize_axes(c, wanted, x.ndim)
    if x.dims is None:
        return c.make(None, x.dtype, x, ndim=x.ndim - len(gone))
    for axis in gone:
        if c.equal(x.dims[axis], 1) is False:
            c.refuse(
                "OPS0040",
                f"axis {axis} has the extent {format_dim(x.dims[axis])}, not 1",
                help="drop axes of extent 1 only, or take one element of it with R.take",
                arg=0,
            )
    return c.make([d for a, d in enumerate(x.dims) if a not in gone], x.dtype, x)


def _name_dropped_axes(call: Call) -> Call:
    """Name the axes that a squeeze of all drops."""
    x = find_known_tensor(call, 0)
    if call.attrs["axis"] is not None or x is None or x.dims is None:
        return call
    ones = tuple(a for a, d in enumerate(x.dims) if is_one(d))
    return Call(call.op, call.args, call.sinfo_args, {"axis": ones}, span=call.span)


def _lower_squeeze(x: Tensor, axis: Sequence[int] | None) -> Tensor:
    if axis is None:
        return topi.squeeze(x)
    gone = [a % x.ndim for a in axis]
    x = topi.assume_shape(x, [1 if a in gone else d for a, d in enumerate(x.shape)])
    return topi.squeeze(x, gone)


squeeze = define_op(
    "squeeze",
    tensor("x"),
    axes("axis", None),
    infer=_squeeze,
    doc="""Drop axes of extent 1; by default all that are known to have it.

    Shapes: without ``axis``. Errors: OPS0005, OPS0031, OPS0040.""",
    family="manipulate",
    lower=_lower_squeeze,
    reference=np.squeeze,
    normalize=_name_dropped_axes,
    samples=(
        Sample((T((1, 3, 1)),)),
        Sample((T((1, 3, 1), "int16"), -1)),
        Sample((T((1, 3, 1), "bool"), (0, 2))),
        Sample((T((2, 3), "float64"),)),
        Sample((T((1, 0), "float16"), 0)),
    ),
    mistakes=(
        Mistake((T((1, 3)), 1), {}, "OPS0040"),
        Mistake((T((1, 3)), 2), {}, "OPS0005"),
        Mistake((T((1, 1)), (0, -2)), {}, "OPS0031"),
    ),
)


# -- axes in another order -----------------------------------------------------------------------
def _permute_dims(c: OpContext) -> StructInfo:
    x = c.tensor(0)
    wanted: tuple[int, ...] | None = c["axes"]
    if x.ndim < 0:
        return c.make(None, x.dtype, x, ndim=-1 if wanted is None else len(wanted))
    order = tuple(range(x.ndim))[::-1]
    if wanted is not None:
        order = normalize_axes(c, wanted, x.ndim)
        if len(order) != x.ndim:
            c.refuse(
                "OPS0030",
                f"{wanted} is not an order of {x.ndim} axes",
                help="name each axis once",
                arg=0,
            )
    if x.dims is None:
        return c.make(None, x.dtype, x, ndim=x.ndim)
    return c.make([x.dims[a] for a in order], x.dtype, x)


permute_dims = define_op(
    "permute_dims",
    tensor("x"),
    axes("axes", None),
    infer=_permute_dims,
    doc="""Permute axes; reverse them by default.

    Shapes: extents in the new order. Errors: OPS0005, OPS0030, OPS0031.""",
    family="manipulate",
    lower=topi.transpose,
    reference=np.transpose,
    samples=(
        Sample((X,)),
        Sample((T((2, 3, 4), "bfloat16"), (1, -1, 0))),
        Sample((T((), "int32"),)),
        Sample((T((0, 3), "bool"), (1, 0))),
    ),
    mistakes=(
        Mistake((X, (0, 1)), {}, "OPS0030"),
        Mistake((X, (0, 1, 1)), {}, "OPS0031"),
        Mistake((X, (0, 1, 3)), {}, "OPS0005"),
    ),
)


def _flip(c: OpContext) -> StructInfo:
    x = c.tensor(0)
    if x.ndim >= 0:
        normalize_axes(c, c["axis"], x.ndim)
    return x


def _flip_with_numpy(data: Any, axis: tuple[int, ...]) -> Any:
    return np.asarray(np.flip(data, axis))


flip = define_op(
    "flip",
    tensor("data"),
    axes("axis"),
    infer=_flip,
    doc="""Reverse the order of elements along axes.

    Shapes: that of ``data``. Errors: OPS0005, OPS0031.""",
    family="manipulate",
    lower=topi.flip,
    reference=_flip_with_numpy,
    samples=(
        Sample((X, 1)),
        Sample((T((2, 3), "int8"), (0, -1))),
        Sample((T((0, 2), "float16"), 0)),
        Sample((T(()), ())),
    ),
    mistakes=(Mistake((X, 3), {}, "OPS0005"), Mistake((X, (1, 1)), {}, "OPS0031")),
)


# -- several tensors -----------------------------------------------------------------------------
def _match_extents(
    c: OpContext, found: Sequence[TensorStructInfo], along: int | None
) -> list[PrimExpr] | None:
    """Return the extents that tensors share, of which one axis may differ; None if unknown."""
    known = [list(info.dims) for info in found if info.dims is not None]
    if not known:
        return None
    made = known[0]
    for dims in known[1:]:
        for axis, (a, b) in enumerate(zip(made, dims, strict=True)):
            if axis != along:
                must_equal(c, a, b, f"the extents of axis {axis}", arg=0)
                made[axis] = common_extent(a, b)
    return made


def _find_common_rank(c: OpContext, found: Sequence[TensorStructInfo]) -> int:
    if not found:
        c.refuse("OPS0035", "there are no tensors", help="give at least one", arg=0)
    ranks = sorted({info.ndim for info in found if info.ndim >= 0})
    if len(ranks) > 1:
        c.refuse(
            "OPS0030",
            f"the tensors have {' and '.join(map(str, ranks))} axes",
            help="give tensors of one rank; R.expand_dims inserts axes",
            arg=0,
        )
    return ranks[0] if ranks else -1


def _concat(c: OpContext) -> StructInfo:
    found = c.tensors(0)
    if found is None:
        return TensorStructInfo()
    rank, dtype = _find_common_rank(c, found), find_common_dtype(c, found)
    device = find_shared_device(found)
    if rank < 0:
        return TensorStructInfo(None, dtype, device)
    along = c.axis(c["axis"], rank)
    made = _match_extents(c, found, along)
    lengths = [info.dims[along] for info in found if info.dims is not None]
    if made is None or len(lengths) < len(found):
        return TensorStructInfo(None, dtype, device, rank)
    made[along] = c.simplify([reduce(add, lengths)])[0]
    return TensorStructInfo(ShapeExpr(tuple(made)), dtype, device)


def _lower_concat(tensors: Sequence[Tensor], axis: int, out: StructInfo) -> Tensor:
    along = axis % tensors[0].ndim
    dims = dims_of(out)

    def fit(x: Tensor) -> Tensor:
        wanted = [d if a == along else w for a, (d, w) in enumerate(zip(x.shape, dims))]
        return topi.assume_shape(x, wanted)

    return topi.concatenate(list(map(fit, tensors)), along)


concat = define_op(
    "concat",
    tensors("tensors"),
    integer("axis", 0),
    infer=_concat,
    doc="""Join tensors of one dtype along an axis.

    Shapes: equal but for ``axis``, along which extents add up.
    Errors: OPS0005, OPS0030, OPS0032, OPS0006, OPS0035 for no tensors.""",
    family="manipulate",
    lower=_lower_concat,
    reference=np.concatenate,
    samples=(
        Sample(((T((2, 3)), T((4, 3))),)),
        Sample(((T((2, 3), "bool"), T((2, 1), "bool"), T((2, 0), "bool")), -1)),
        Sample(((T((2,), "bfloat16"),),)),
        Sample(((T((0, 2), "int8"), T((0, 2), "int8")),)),
    ),
    mistakes=(
        Mistake(((T((2, 3)), T((2, 4))),), {}, "OPS0032"),
        Mistake(((T((2, 3)), T((2,))),), {}, "OPS0030"),
        Mistake(((T((2, 3)), T((2, 3), "int8")),), {}, "OPS0006"),
        Mistake(((T((2, 3)), T((2, 3))), 2), {}, "OPS0005"),
        Mistake(((),), {}, "OPS0035"),
    ),
)


def _stack(c: OpContext) -> StructInfo:
    found = c.tensors(0)
    if found is None:
        return TensorStructInfo()
    rank, dtype = _find_common_rank(c, found), find_common_dtype(c, found)
    device = find_shared_device(found)
    if rank < 0:
        return TensorStructInfo(None, dtype, device)
    place = c.axis(c["axis"], rank, extra=1)
    made = _match_extents(c, found, None)
    if made is None:
        return TensorStructInfo(None, dtype, device, rank + 1)
    made.insert(place, as_dim(len(found)))
    return TensorStructInfo(ShapeExpr(tuple(made)), dtype, device)


def _lower_stack(tensors: Sequence[Tensor], axis: int, out: StructInfo) -> Tensor:
    dims = dims_of(out)
    place = axis % len(dims)
    del dims[place]
    return topi.stack([topi.assume_shape(x, dims) for x in tensors], place)


stack = define_op(
    "stack",
    tensors("tensors"),
    integer("axis", 0),
    infer=_stack,
    doc="""Join tensors of one shape and dtype along a new axis.

    Shapes: the result has their number at ``axis``.
    Errors: OPS0005, OPS0030, OPS0032, OPS0006, OPS0035 for no tensors.""",
    family="manipulate",
    lower=_lower_stack,
    reference=np.stack,
    samples=(
        Sample(((T((2, 3)), T((2, 3))), 1)),
        Sample(((T((), "int32"), T((), "int32")),)),
        Sample(((T((2, 0), "float16"),), -1)),
    ),
    mistakes=(
        Mistake(((T((2, 3)), T((2, 4))),), {}, "OPS0032"),
        Mistake(((T((2, 3)), T((2,))),), {}, "OPS0030"),
        Mistake(((T((2,)), T((2,), "int8")),), {}, "OPS0006"),
        Mistake(((T((2,)),), 2), {}, "OPS0005"),
        Mistake(((),), {}, "OPS0035"),
    ),
)
