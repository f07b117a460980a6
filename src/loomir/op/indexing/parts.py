"""Operators that slice, split and repeat tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from loomir.arith.analyzer import Analyzer
from loomir.op.rules.arguments import (
    common_extent,
    dims_of,
    format_dim,
    integers,
    must_equal,
    product,
)
from loomir.op.rules.slicing import slice_bounds, slice_tensor
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import axes, integer, sections, tensor
from loomir.relax.shape import as_dim
from loomir.relax.struct_info import TupleStructInfo
from loomir.te import topi
from loomir.te.operation import compute
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import saturate, wide
from loomir.tir.expr import FloorDiv, Max, Min, PrimExpr, Select

__all__ = ["repeat", "reverse_sequence", "split", "tile"]

T = TensorSample
X = T((2, 3, 4))
Parts = int | tuple[int, ...]

_MOST: Final = 1 << 16
"""Parts of an axis: each is a tensor of the program."""


# -- split ---------------------------------------------------------------------------------------
def _bounds(analyzer: Analyzer, extent: PrimExpr, parts: Parts) -> list[tuple[PrimExpr, PrimExpr]]:
    """Return where each part of an axis starts, and how many elements it has."""
    if isinstance(parts, int):
        length = analyzer.simplify(FloorDiv(extent, as_dim(parts)))
        return [(product([length, k]), length) for k in range(parts)]
    ends = (0, *parts, extent)
    return [slice_bounds(analyzer, extent, a, b, 1) for a, b in pairwise(ends)]


def _split(c: OpContext) -> StructInfo:
    x, parts = c.tensor(0), c["indices_or_sections"]
    if isinstance(parts, int) and parts < 1:
        c.refuse("OPS0037", f"{parts} parts are none", help="give a number of 1 or more", arg=0)
    if isinstance(parts, int) and parts > _MOST:
        c.refuse("OPS0037", f"{parts} parts are too many", help=f"make {_MOST} at most", arg=0)
    if not isinstance(parts, int) and any(p < 0 for p in parts):
        c.refuse(
            "OPS0037",
            f"{parts} has a negative place",
            help="count the places to cut at from the start of the axis",
            arg=0,
        )
    cut = c.axis(c["axis"], x.ndim) if x.ndim >= 0 else -1
    if x.dims is None:
        count = parts if isinstance(parts, int) else len(parts) + 1
        return TupleStructInfo((c.make(None, x.dtype, x, ndim=x.ndim),) * count)
    extent, made = x.dims[cut], list[StructInfo]()
    for _, length in _bounds(c.analyzer, extent, parts):
        made.append(c.make([length if a == cut else d for a, d in enumerate(x.dims)], x.dtype, x))
        if isinstance(parts, int) and c.equal(product([length, parts]), extent) is False:
            c.refuse(
                "OPS0037",
                f"{format_dim(extent)} elements do not make {parts} equal parts",
                help="give a number that divides the extent, or the places to cut at",
                arg=0,
            )
    return TupleStructInfo(tuple(made))


def _cut(x: Tensor, indices_or_sections: Parts, axis: int, out: StructInfo) -> Any:
    cut = axis % x.ndim
    shapes = [dims_of(f) for f in (out.fields if isinstance(out, TupleStructInfo) else (out,))]
    if isinstance(indices_or_sections, int):
        whole = list(x.shape)
        whole[cut] = product([shapes[0][cut], indices_or_sections])
        x = topi.assume_shape(x, whole)
    found = _bounds(Analyzer(), wide(x.shape[cut]), indices_or_sections)
    return [
        slice_tensor(x, {cut: (start, 1)}, s) for (start, _), s in zip(found, shapes, strict=True)
    ]


def _cut_with_numpy(x: Any, indices_or_sections: Parts, axis: int) -> Any:
    return tuple(np.split(x, indices_or_sections, axis))


split = define_op(
    "split",
    tensor("x"),
    sections("indices_or_sections"),
    integer("axis", 0),
    infer=_split,
    doc="""Split an axis into a number of equal parts, or at indices.

    Indices count from the start of the axis; those beyond its end cut off nothing. Whether the
    extent is a multiple of the number of parts is checked at run time, if it is not known before.
    Shapes: a tuple of parts. Errors: OPS0005, OPS0037.""",
    family="manipulate",
    lower=_cut,
    reference=_cut_with_numpy,
    samples=(
        Sample((X, 2, -1)),
        Sample((T((6, 2), "int8"), 3)),
        Sample((T((6,), "bfloat16"), (1, 4))),
        Sample((X, (1, 1, 9), 1)),
        Sample((T((0, 2), "bool"), 2)),
        Sample((X, (), 0)),
        Sample((X, (3, 1), 2)),
    ),
    mistakes=(
        Mistake((T((0, 2)), 1 << 40), {}, "OPS0037"),
        Mistake((X, 2, 1), {}, "OPS0037"),
        Mistake((X, 0), {}, "OPS0037"),
        Mistake((X, (-1,)), {}, "OPS0037"),
        Mistake((X, 2, 3), {}, "OPS0005"),
        Mistake((X, "two"), {}, "OPS0002"),
    ),
)


# -- repetition ----------------------------------------------------------------------------------
def _need_counts(c: OpContext, counts: Sequence[int]) -> None:
    if any(count < 0 for count in counts):
        c.refuse(
            "OPS0039",
            f"repeats is {counts[0] if len(counts) == 1 else tuple(counts)}",
            help="repeat 0 times or more",
        )


def _repeat(c: OpContext) -> StructInfo:
    x, count, axis = c.tensor(0), c["repeats"], c["axis"]
    _need_counts(c, [count])
    if axis is None:
        total = None if x.dims is None else c.simplify([product([*x.dims, count])])
        return c.make(total, x.dtype, x, ndim=1)
    along = c.axis(axis, x.ndim) if x.ndim >= 0 else -1
    if x.dims is None:
        return c.make(None, x.dtype, x, ndim=x.ndim)
    dims = [product([d, count]) if a == along else d for a, d in enumerate(x.dims)]
    return c.make(c.simplify(dims), x.dtype, x)


repeat = define_op(
    "repeat",
    tensor("data"),
    integer("repeats"),
    integer("axis", None),
    infer=_repeat,
    doc="""Repeat each element along an axis, or all elements in row-major order.

    Shapes: the extent at ``axis`` times ``repeats``. Errors: OPS0005, OPS0039.""",
    family="manipulate",
    lower=topi.repeat,
    reference=np.repeat,
    samples=(
        Sample((X, 2)),
        Sample((X, 3, -2)),
        Sample((T((2, 3), "bool"), 0, 1)),
        Sample((T((), "int32"), 2)),
        Sample((T((0, 2), "bfloat16"), 2, 1)),
    ),
    mistakes=(Mistake((X, -1), {}, "OPS0039"), Mistake((X, 2, 3), {}, "OPS0005")),
)


def _tile(c: OpContext) -> StructInfo:
    x, counts = c.tensor(0), c["repeats"]
    _need_counts(c, counts)
    if x.ndim < 0:
        return c.make(None, x.dtype, x)
    rank = max(x.ndim, len(counts))
    if x.dims is None:
        return c.make(None, x.dtype, x, ndim=rank)
    own = [*[as_dim(1)] * (rank - x.ndim), *x.dims]
    times = [*[1] * (rank - len(counts)), *counts]
    return c.make(c.simplify([product(p) for p in zip(own, times, strict=True)]), x.dtype, x)


def _lower_tile(data: Tensor, repeats: tuple[int, ...]) -> Tensor:
    return topi.tile(data, repeats)


def _tile_with_numpy(data: Any, repeats: tuple[int, ...]) -> Any:
    return np.tile(data, repeats)


tile = define_op(
    "tile",
    tensor("data"),
    axes("repeats"),
    infer=_tile,
    doc="""Repeat the whole tensor along each axis; missing axes or counts are 1, in front.

    Shapes: extents times ``repeats``. Errors: OPS0039.""",
    family="manipulate",
    lower=_lower_tile,
    reference=_tile_with_numpy,
    samples=(
        Sample((X, (2, 1, 3))),
        Sample((T((2, 3), "int8"), 2)),
        Sample((T((), "float16"), (2, 2))),
        Sample((T((3,), "bool"), (2, 0))),
        Sample((T((0, 2)), (2, 2))),
    ),
    mistakes=(Mistake((X, (1, -1)), {}, "OPS0039"),),
)


# -- parts reversed or rotated ------------------------------------------------------------------
def _reverse_sequence(c: OpContext) -> StructInfo:
    x, lengths = c.tensor(0), integers(c, 1)
    if lengths.ndim not in (-1, 1):
        c.refuse(
            "OPS0030",
            f"the lengths have {lengths.ndim} axes, not 1",
            help="give one length for each element of the batch",
            arg=1,
        )
    if x.ndim < 0:
        return x
    along, batch = c.axis(c["seq_axis"], x.ndim), c.axis(c["batch_axis"], x.ndim)
    if along == batch:
        c.refuse(
            "OPS0031",
            f"the axis of sequences is that of the batch, {along}",
            help="name two axes",
            arg=0,
        )
    if x.dims is None or lengths.dims is None:
        return x
    must_equal(c, x.dims[batch], lengths.dims[0], "the batch and the number of lengths", arg=1)
    dims = [common_extent(d, lengths.dims[0]) if a == batch else d for a, d in enumerate(x.dims)]
    return c.make(dims, x.dtype, x)


def _lower_reverse(data: Tensor, seq_lengths: Tensor, seq_axis: int, batch_axis: int) -> Tensor:
    along, batch = seq_axis % data.ndim, batch_axis % data.ndim
    seq_lengths = topi.assume_shape(seq_lengths, [data.shape[batch]])
    extent = wide(data.shape[along])

    def element(*i: PrimExpr) -> PrimExpr:
        at = wide(i[along])
        length = Max(Min(saturate(seq_lengths(i[batch])), extent), as_dim(1))
        mirrored = Select(at < length, length - 1 - at, at)
        return data(*(mirrored if a == along else v for a, v in enumerate(i)))

    return compute(data.shape, element, name="reverse_sequence")


def _reverse_with_numpy(data: Any, seq_lengths: Any, seq_axis: int, batch_axis: int) -> Any:
    made = np.moveaxis(np.array(data), (batch_axis, seq_axis), (0, 1))
    for row, length in zip(made, np.asarray(seq_lengths).tolist(), strict=True):
        count = min(max(length, 1), row.shape[0])
        row[:count] = row[:count][::-1].copy()
    return np.moveaxis(made, (0, 1), (batch_axis, seq_axis))


reverse_sequence = define_op(
    "reverse_sequence",
    tensor("data"),
    tensor("seq_lengths"),
    integer("seq_axis", 1),
    integer("batch_axis", 0),
    infer=_reverse_sequence,
    doc="""Reverse the first elements along an axis.

    ``seq_lengths`` says how many, for each element of a batch. Lengths below 1 are 1, and those
    above the extent are the extent.
    Shapes: that of ``data``; ``seq_lengths`` has the extent at ``batch_axis``.
    Errors: OPS0005, OPS0007, OPS0030 to OPS0032.""",
    family="manipulate",
    lower=_lower_reverse,
    reference=_reverse_with_numpy,
    samples=(
        Sample((T((4, 5)), T((4,), "int64", values=(0, 3, 5, 9)))),
        Sample((T((3, 2, 2), "int8"), T((2,), "int32", values=(2, -4)), 0, -1)),
        Sample((T((2, 3)), T((2,), "uint64", values=(2**64 - 1, 2)))),
        Sample((T((0, 2)), T((0,), "int32"))),
    ),
    mistakes=(
        Mistake((X, T((2,))), {}, "OPS0007"),
        Mistake((X, T((3,), "int32")), {}, "OPS0032"),
        Mistake((X, T((), "int32")), {}, "OPS0030"),
        Mistake((X, T((2,), "int32"), 0), {}, "OPS0031"),
        Mistake((X, T((2,), "int32"), 3), {}, "OPS0005"),
    ),
)
