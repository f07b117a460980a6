"""Operators that sample from distributions; the random numbers are an argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from loomir.op.rules.arguments import must_equal, need_rank, number_of
from loomir.relax.node import StructInfo
from loomir.relax.operator.broadcast import Extents
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import kind_dtype, tensor
from loomir.relax.operator.reference import NPArray, widen, xp
from loomir.relax.operator.rules import common_device, common_dtype, need, tensor_info
from loomir.relax.shape import ShapeExpr, as_dim
from loomir.support.dtype import DataType, numpy_of
from loomir.te import reduction as te
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.index import place_of
from loomir.te.topi.shape import make
from loomir.tir.expr import LT, Min, Not, PrimExpr, const
from loomir.tir.expr import cast as cast_to

__all__ = ["multinomial_from_uniform"]

_INT64 = DataType("int64")


def _infer(c: OpContext) -> StructInfo:
    infos = [need_rank(c, i, 2) for i in range(3)]
    dtype: DataType = c["dtype"]
    for i in (0, 1):
        need(c, "float", infos[i].dtype, i)
    common_dtype(c, (0, 1))
    need(c, "integer", infos[2].dtype, 2)
    if not dtype.is_integer:
        c.refuse(
            "OPS0010",
            f"places cannot be {dtype}",
            help='give an integer dtype, such as "int64"',
        )
    probabilities, drawn, rows = (info.dims for info in infos)
    for i, known in ((1, drawn), (2, rows)):
        if known is not None:
            must_equal(c, known[1], 1, f"the columns of argument {i + 1}, and their number", arg=i)
    if probabilities is not None and number_of(probabilities[1]) == 0:
        c.refuse(
            "OPS0013",
            "axis 1 has no element to choose from",
            help="give a distribution of one place or more",
            arg=0,
        )
    if drawn is not None and rows is not None:
        must_equal(c, drawn[0], rows[0], "the rows of arguments 2 and 3", arg=2)
    known = drawn if drawn is not None else rows
    shape = None if known is None else ShapeExpr((known[0], as_dim(1)))
    return tensor_info(Extents(shape, 2), dtype, common_device(c, range(3)))


def _lower(prob: Tensor, uniform_sample: Tensor, sample_indices: Tensor, dtype: DataType) -> Tensor:
    prob = topi.assume_elements(prob, prob, (1,))
    wide = topi.cast(prob, "float32") if prob.dtype.bits == 16 else prob
    uniform_sample = topi.assume_shape(uniform_sample, [sample_indices.shape[0], 1])
    sample_indices = topi.assume_shape(sample_indices, [sample_indices.shape[0], 1])
    sums = topi.cumsum(wide, 1)
    over = te.reduce_axis((0, prob.shape[1]), "k")
    count = sample_indices.shape[0]

    def place(i: PrimExpr) -> PrimExpr:
        return place_of(sample_indices(i, 0), sums, 0)

    row = make("row", [count], place)

    def count_passed(i: PrimExpr, _: PrimExpr) -> PrimExpr:
        drawn = cast_to(uniform_sample(i, 0), wide.dtype)
        return te.sum(cast_to(Not(LT(drawn, sums(row(i), over.var))), _INT64), axis=over)

    passed = make("passed", [count, 1], count_passed)
    last = cast_to(prob.shape[1], _INT64) - const(1, _INT64)
    made: Tensor = make(
        "multinomial", passed.shape, lambda *i: cast_to(Min(passed(*i), last), dtype)
    )
    return made


def _reference(prob: NPArray, uniform_sample: NPArray, rows: NPArray, dtype: DataType) -> NPArray:
    sums = xp.add.accumulate(widen(prob), 1)
    passed = ~(widen(uniform_sample) < sums[rows[:, 0]])
    place = xp.minimum(passed.sum(axis=1, keepdims=True), prob.shape[1] - 1)
    return xp.asarray(place).astype(numpy_of(dtype))


_P: Any = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 0.0, 0.0]])


def _place_draws(kind: str, drawn: list[list[float]], rows: list[list[int]], index: str) -> Sample:
    return Sample(
        (
            TensorSample((2, 4), kind, values=_P),
            TensorSample((len(drawn), 1), kind, values=np.reshape(drawn, (-1, 1))),
            TensorSample((len(rows), 1), index, values=np.reshape(rows, (-1, 1))),
        )
    )


_WIDE = TensorSample((2, 4))
_COLUMN, _ROWS = TensorSample((3, 1)), TensorSample((3, 1), "int64", 0, 1)

multinomial_from_uniform = define_op(
    "multinomial_from_uniform",
    tensor("prob"),
    tensor("uniform_sample"),
    tensor("sample_indices"),
    kind_dtype("dtype", _INT64),
    infer=_infer,
    doc="Sample an index from a distribution for each uniform random number between 0 and 1."
    "\n\n``prob`` has a distribution in each row, and ``sample_indices`` the row for each number."
    " The result is the first index up to which the probabilities sum to more than the number, or"
    " the last index if there is none. Shapes: ``(rows, places)``, ``(n, 1)`` and ``(n, 1)`` give "
    "``(n, 1)``.",
    family="sampling",
    lower=_lower,
    reference=_reference,
    samples=(
        _place_draws("float32", [[0.0], [0.3], [0.99], [0.5]], [[0], [0], [0], [1]], "int64"),
        _place_draws("float16", [[0.05], [1.0]], [[1], [1]], "int32"),
        _place_draws("float64", [], [], "int64"),
    ),
    mistakes=(
        Mistake((_WIDE, _COLUMN, TensorSample((2, 1), "int64")), {}, "OPS0032"),
        Mistake((_WIDE, TensorSample((3, 2)), _ROWS), {}, "OPS0032"),
        Mistake((_WIDE, TensorSample((3,)), _ROWS), {}, "OPS0030"),
        Mistake((_WIDE, TensorSample((3, 1), "float64"), _ROWS), {}, "OPS0006"),
        Mistake((_WIDE, _COLUMN, _COLUMN), {}, "OPS0007"),
        Mistake((TensorSample((2, 0)), _COLUMN, _ROWS), {}, "OPS0013"),
        Mistake((_WIDE, _COLUMN, _ROWS), {"dtype": "float32"}, "OPS0010"),
    ),
)
