"""Operators that change the layout of a tensor, and that collapse what was broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loomir.op.rules.arguments import dims_of, format_dim, holds, is_one, number_of
from loomir.op.rules.reshaping import format_dims, infer_of_shape
from loomir.relax.info.proof import analyzer_for
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.index_text import index_function, index_map_of
from loomir.relax.operator.params import index_map, ints, number, shape, tensor
from loomir.relax.operator.reference import NPArray, widen, xp
from loomir.relax.operator.rules import need
from loomir.relax.shape import ShapeExpr, as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.diagnostics import CompileError
from loomir.te import reduction as te
from loomir.te import topi
from loomir.te.operation import compute
from loomir.te.scalar import if_then_else
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import wide
from loomir.te.topi.shape import compute_dtype as working_in
from loomir.te.topi.shape import has_equal_sizes
from loomir.tir.expr import Eq, IntImm, PrimExpr, Select, cast, const

__all__ = ["collapse_sum_like", "collapse_sum_to", "layout_transform"]

T = TensorSample
X = T((2, 3, 4))


# -- layouts -------------------------------------------------------------------------------------
def _layout_transform(c: OpContext) -> StructInfo:
    x, pad = c.tensor(0), c["pad_value"]
    made = index_map_of(c["index_map"])
    count, rank = len(made.initial_indices), len(made.final_indices)
    if x.ndim >= 0 and x.ndim != count:
        c.refuse(
            "OPS0030",
            f"the index map is of {count} indices, and the tensor has {x.ndim} axes",
            help="take one index for each axis",
            arg=0,
        )
    if pad is not None and not x.dtype.is_void and not holds(x.dtype, pad):
        c.refuse(
            "OPS0039",
            f"{pad} is no {x.dtype}",
            help=f"give a number that {x.dtype} holds",
            arg=0,
        )
    if x.dims is None:
        return c.make(None, x.dtype, x, ndim=rank)
    try:
        analyzer = analyzer_for(ShapeExpr(x.dims))
        made.non_surjective_inverse(x.dims, analyzer=analyzer)
        dims = made.map_shape(x.dims, analyzer=analyzer)
    except CompileError as error:
        if any(number_of(d) is None for d in x.dims):
            return c.make(None, x.dtype, x, ndim=rank)
        c.refuse(
            "OPS0043",
            f"{c['index_map']} has no inverse on the shape {format_dims(x.dims)}",
            help="split, fuse and reorder indices, and use each digit of each index once",
            arg=0,
            notes=(error.diagnostic.message,),
        )
    return c.make(dims, x.dtype, x)


def _lower_layout_transform(
    x: Tensor,
    index_map: str,
    pad_value: float | None,
    axis_separators: tuple[int, ...] | None,
    input_axis_separators: tuple[int, ...] | None,
    out: StructInfo,
) -> Tensor:
    own = [wide(d) for d in x.shape]
    analyzer = analyzer_for(ShapeExpr(tuple(own)))
    inverse, outside = index_map_of(index_map).non_surjective_inverse(own, analyzer=analyzer)
    never = isinstance(outside, IntImm) and not outside.value
    given = pad_value or 0
    exact = given if x.dtype.is_float else bool(given) if x.dtype.is_bool else int(given)

    def element(*i: PrimExpr) -> PrimExpr:
        at = [wide(v) for v in i]
        value = x(*inverse.map_indices(at))
        if never:
            return value
        fills = type(inverse)(inverse.initial_indices, (cast(outside, "int64"),))
        (fill,) = fills.map_indices(at)
        return if_then_else(fill.equal(as_dim(1)), const(exact, x.dtype), value)

    return compute(tuple(dims_of(out)), element, name="layout_transform")


def _lay_out_with_numpy(
    x: Any,
    index_map: str,
    pad_value: float | None,
    axis_separators: tuple[int, ...] | None,
    input_axis_separators: tuple[int, ...] | None,
) -> NPArray:
    data = np.asarray(x)
    extents = index_map_of(index_map).map_shape(data.shape)
    wanted = [e.value for e in extents if isinstance(e, IntImm)]
    made = np.full(wanted, pad_value or 0).astype(data.dtype)
    place = index_function(index_map)
    for at in xp.ndindex(data.shape):
        made[tuple(place(*at))] = data[at]
    return made


layout_transform = define_op(
    "layout_transform",
    tensor("x"),
    index_map("index_map"),
    number("pad_value", None),
    ints("axis_separators", None),
    ints("input_axis_separators", None),
    infer=_layout_transform,
    doc="""Move elements to the indices that an index map returns, such as ``lambda i, j: (j, i)``.

    The map is stored as text, which may be passed instead of a function. Elements of the result
    that do not come from ``x`` are ``pad_value``, or 0. Separators only say which axes are adjacent
    in memory. Shapes: the extents of the map's results. Errors: OPS0030, OPS0039, OPS0043 for a map
    without an inverse.""",
    family="manipulate",
    lower=_lower_layout_transform,
    reference=_lay_out_with_numpy,
    samples=(
        Sample((X, "lambda i, j, k: (k, i, j)")),
        Sample((T((4, 6), "int8"), "lambda i, j: (i, j // 2, j % 2)")),
        Sample((T((2, 6), "bfloat16"), "lambda i, j: (i * 6 + j,)")),
        Sample((T((7,)), "lambda i: (i // 4, i % 4)", 1.5)),
        Sample((T((5,), "int32"), "lambda i: (i // 2, i % 2)")),
        Sample((T((4, 3), "bool"), "lambda i, j: (j, i // 2, i % 2)", None, (1,), ())),
    ),
    mistakes=(
        Mistake((X, "lambda i, j: (j, i)"), {}, "OPS0030"),
        Mistake((T((4,)), "lambda i: (i // 2,)"), {}, "OPS0043"),
        Mistake((T((5,), "int8"), "lambda i: (i // 2, i % 2)", 300), {}, "OPS0039"),
        Mistake((X, "lambda i: abs(i)"), {}, "OPS0002"),
        Mistake((X, 3), {}, "OPS0002"),
    ),
)


# -- sums that undo broadcasting -----------------------------------------------------------------
def _infer_collapsed(
    c: OpContext, wanted: Sequence[PrimExpr] | None, rank: int
) -> TensorStructInfo:
    x = c.tensor(0)
    need(c, "number", x.dtype, 0)
    if 0 <= x.ndim < rank:
        c.refuse(
            "OPS0008",
            f"{rank} axes do not broadcast to {x.ndim}",
            help="give a shape from which the tensor was broadcast",
            arg=0,
        )
    for w, d in zip(tuple(wanted or ())[::-1], tuple(x.dims or ())[::-1]):
        if c.equal(w, d) is False and c.equal(w, 1) is False:
            c.refuse(
                "OPS0008",
                f"the extent {format_dim(w)} does not broadcast to {format_dim(d)}",
                help="give a shape from which the tensor was broadcast",
                arg=0,
            )
    return x


def _sum_to(c: OpContext) -> StructInfo:
    wanted = c.shape(1)
    x = _infer_collapsed(c, wanted.values, wanted.ndim)
    return infer_of_shape(c, 1, x)


def _sum_like(c: OpContext) -> StructInfo:
    target = c.tensor(1)
    x = _infer_collapsed(c, target.dims, target.ndim)
    if target.shape is not None:
        return TensorStructInfo(target.shape, x.dtype, x.vdevice)
    return c.make(None, x.dtype, x, ndim=target.ndim)


def _sum(data: Tensor, wanted: Sequence[Any]) -> Tensor:
    front = data.ndim - len(wanted)
    dims = [wide(w) for w in wanted]
    # An extent that is not known to be 1 is then that of the tensor.
    own = [
        d if is_one(w) or has_equal_sizes(d, w) else Select(Eq(w, as_dim(1)), wide(d), w)
        for d, w in zip(data.shape[front:], dims, strict=True)
    ]
    data = topi.assume_shape(data, [*data.shape[:front], *own])
    axes: dict[int, Any] = {}
    for at, d in enumerate(data.shape):
        w = as_dim(1) if at < front else dims[at - front]
        if at < front or not has_equal_sizes(d, w):
            extent = wide(d) if is_one(w) else Select(Eq(w, as_dim(1)), wide(d), as_dim(1))
            axes[at] = te.reduce_axis((0, extent), f"k{at}")
    inner = working_in(data.dtype)

    def element(*i: PrimExpr) -> PrimExpr:
        place: list[PrimExpr] = []
        for at in range(data.ndim):
            here = wide(i[at - front]) if at >= front else as_dim(0)
            place.append(wide(axes[at]) + here if at in axes else here)
        value = cast(data(*place), inner)
        return te.sum(value, axis=list(axes.values())) if axes else value

    made: Tensor = compute(tuple(wanted), element, name="collapse_sum")
    return topi.cast(made, data.dtype)


def _lower_sum_to(data: Tensor, shape: Sequence[Any], out: StructInfo) -> Tensor:
    return _sum(data, dims_of(out))


def _lower_sum_like(data: Tensor, collapse_target: Tensor) -> Tensor:
    return _sum(data, collapse_target.shape)


def _sum_with_numpy(data: Any, shape: Sequence[int]) -> NPArray:
    x = np.asarray(data)
    front = x.ndim - len(shape)
    axes = [a for a in range(x.ndim) if a < front or (shape[a - front] == 1 and x.shape[a] != 1)]
    with np.errstate(all="ignore"):
        made = xp.add.reduce(widen(x), axis=tuple(axes), keepdims=True)
    return xp.reshape(made.astype(x.dtype), tuple(shape))


def _sum_like_with_numpy(data: Any, collapse_target: Any) -> NPArray:
    return _sum_with_numpy(data, np.asarray(collapse_target).shape)


collapse_sum_to = define_op(
    "collapse_sum_to",
    tensor("data"),
    shape("shape"),
    infer=_sum_to,
    doc="""Sum over the axes along which broadcasting from a shape repeats.

    Shapes: ``shape``, which broadcasts to that of ``data``. Errors: OPS0007, OPS0008.""",
    family="manipulate",
    lower=_lower_sum_to,
    reference=_sum_with_numpy,
    samples=(
        Sample((X, (3, 1)), absolute=1e-5),
        Sample((T((2, 3), "int8", -128, 127), (1,))),
        Sample((T((2, 3), "bfloat16"), (2, 1)), ulps=1),
        Sample((X, (2, 3, 4))),
        Sample((T((2, 0)), (1,))),
    ),
    mistakes=(
        Mistake((X, (2, 4)), {}, "OPS0008"),
        Mistake((X, (1, 2, 3, 4)), {}, "OPS0008"),
        Mistake((T((2,), "bool"), (1,)), {}, "OPS0007"),
    ),
)

collapse_sum_like = define_op(
    "collapse_sum_like",
    tensor("data"),
    tensor("collapse_target"),
    infer=_sum_like,
    doc="""Sum over the axes along which broadcasting from the shape of another tensor repeats.

    Shapes: that of ``collapse_target``, which broadcasts to that of ``data``.
    Errors: OPS0007, OPS0008.""",
    family="manipulate",
    lower=_lower_sum_like,
    reference=_sum_like_with_numpy,
    samples=(
        Sample((X, T((3, 1), "int8")), absolute=1e-5),
        Sample((T((2, 3), "float64"), T((3,))), absolute=1e-12),
        Sample((T((2, 3), "uint8", 0, 255), T(()))),
    ),
    mistakes=(
        Mistake((X, T((2, 4))), {}, "OPS0008"),
        Mistake((T((2,), "bool"), T((1,))), {}, "OPS0007"),
    ),
)
