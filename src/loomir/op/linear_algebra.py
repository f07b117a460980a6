"""Matrix products and einsum.

16-bit floats are summed in float32, and rounded once; integers wrap in the dtype of the result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from loomir.op.rules.arguments import (
    common_extent,
    find_common_dtype,
    find_shared_device,
    is_one,
    must_equal,
    need_rank,
)
from loomir.op.rules.fitting import fit_shapes
from loomir.relax.node import StructInfo
from loomir.relax.operator.broadcast import Extents, broadcast, broadcast_extents
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import kind_dtype, tensor, tensors, text
from loomir.relax.operator.reference import NPArray, compute_dtype, convert_array
from loomir.relax.operator.rules import need
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of
from loomir.te import topi
from loomir.te.operation import compute
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import has_equal_sizes
from loomir.tir.expr import Mul, PrimExpr

__all__ = ["einsum", "linear", "matmul", "outer"]

T = TensorSample
A, B = T((2, 3)), T((3, 4))
_NEAR = 1e-5
"""What sums of a few products differ by, in whichever order they are added up."""


# -- dtypes --------------------------------------------------------------------------------------
def _result_dtype(c: OpContext, infos: Sequence[TensorStructInfo], out: DataType | None) -> Any:
    dtype = find_common_dtype(c, infos)
    need(c, "number", dtype)
    if out is None:
        return dtype
    need(c, "number", out)
    return out


def _inner(x: NPArray, out: DataType | None) -> tuple[Any, DataType]:
    """Return the dtype to sum in, and that of the result."""
    own = dtype_of_numpy(x.dtype)
    assert own is not None
    wanted = own if out is None else out
    return dtype_of_numpy(compute_dtype(numpy_of(wanted))), wanted


def _text(out: DataType | None) -> str | None:
    return None if out is None else str(out)


# -- matmul --------------------------------------------------------------------------------------
def _part(info: TensorStructInfo, dims: Any, ndim: int) -> TensorStructInfo:
    """Describe the axes of a tensor that stand in front of its matrix."""
    if dims is None:
        return TensorStructInfo(ndim=ndim)
    return TensorStructInfo(ShapeExpr(tuple(dims)), info.dtype)


def _matmul(c: OpContext) -> StructInfo:
    a, b = need_rank(c, 0, least=1), need_rank(c, 1, least=1)
    dtype, device = _result_dtype(c, [a, b], c["out_dtype"]), find_shared_device([a, b])
    if a.ndim < 0 or b.ndim < 0:
        return TensorStructInfo(None, dtype, device)
    if a.dims is not None and b.dims is not None:
        inner = b.dims[0] if b.ndim == 1 else b.dims[-2]
        must_equal(c, a.dims[-1], inner, "the extents that are summed over", arg=1)
    batches = [
        _part(x, None if x.dims is None else x.dims[:-2], max(x.ndim - 2, 0)) for x in (a, b)
    ]
    front: Extents = broadcast(c, batches)
    rank = front.ndim + (a.ndim > 1) + (b.ndim > 1)
    if a.dims is None or b.dims is None or not isinstance(front.shape, ShapeExpr):
        return TensorStructInfo(None, dtype, device, rank)
    rows = a.dims[-2:-1] if a.ndim > 1 else ()
    columns = b.dims[-1:] if b.ndim > 1 else ()
    return TensorStructInfo(ShapeExpr((*front.shape.values, *rows, *columns)), dtype, device)


def _product(x1: Tensor, x2: Tensor, out_dtype: DataType | None) -> Tensor:
    inner, at = x1.shape[-1], 0 if x2.ndim == 1 else x2.ndim - 2
    shape = [inner if a == at else d for a, d in enumerate(x2.shape)]
    left, right = fit_shapes([x1, topi.assume_shape(x2, shape)], inner=2)
    return topi.matmul(left, right, _text(out_dtype))


def _product_with_numpy(x1: Any, x2: Any, out_dtype: DataType | None) -> NPArray:
    a, b = np.asarray(x1), np.asarray(x2)
    inner, wanted = _inner(a, out_dtype)
    with np.errstate(all="ignore"):
        made = np.matmul(convert_array(a, inner), convert_array(b, inner))
    return convert_array(np.asarray(made), wanted)


matmul = define_op(
    "matmul",
    tensor("x1"),
    tensor("x2"),
    kind_dtype("out_dtype", None),
    infer=_matmul,
    doc="""Multiply matrices, as ``@`` does in NumPy.

    Whether the extents that are summed over are equal is checked at run time, if it is not known
    before. Shapes: ``(..., n, k)`` and ``(..., k, m)`` give ``(..., n, m)``, where the leading axes
    broadcast; a vector is a row on the left, a column on the right, and leaves no axis. Types: that
    of the tensors, or ``out_dtype``. Errors: OPS0006 to OPS0008, OPS0030, OPS0032.""",
    family="linear_algebra",
    lower=_product,
    reference=_product_with_numpy,
    samples=(
        Sample((A, B), absolute=_NEAR),
        Sample((T((2, 1, 3, 5)), T((4, 5, 2))), absolute=_NEAR),
        Sample((T((3,)), T((3,))), absolute=_NEAR),
        Sample((T((3,), "float64"), T((2, 3, 4), "float64")), absolute=1e-12),
        Sample((T((2, 4, 3), "int8", -128, 127), T((3,), "int8", -128, 127))),
        Sample((T((2, 3), "int8", -128, 127), T((3, 2), "int8", -128, 127), "int32")),
        Sample((T((2, 3), "uint8", 0, 255), T((3, 2), "uint8", 0, 255))),
        Sample((T((2, 3), "float16"), T((3, 2), "float16")), ulps=1),
        Sample((T((2, 3), "bfloat16"), T((3, 2), "bfloat16")), ulps=1),
        Sample((T((2, 3), "float16"), T((3, 2), "float16"), "float32"), absolute=_NEAR),
        Sample((T((2, 0)), T((0, 3)))),
        Sample((T((0, 2)), T((2, 3)))),
    ),
    mistakes=(
        Mistake((A, T((4, 2))), {}, "OPS0032"),
        Mistake((T((2, 2, 3)), T((3, 3, 4))), {}, "OPS0008"),
        Mistake((A, T((3, 4), "float64")), {}, "OPS0006"),
        Mistake((T((2, 2), "bool"), T((2, 2), "bool")), {}, "OPS0007"),
        Mistake((T(()), A), {}, "OPS0030"),
        Mistake((A, B, "bool"), {}, "OPS0007"),
    ),
)


# -- linear --------------------------------------------------------------------------------------
def _linear(c: OpContext) -> StructInfo:
    x, weight = need_rank(c, 0, least=1), need_rank(c, 1, 2)
    bias = need_rank(c, 2, 1) if c.has(2) else None
    tensors = [x, weight, *([] if bias is None else [bias])]
    dtype = _result_dtype(c, tensors[:2], c["out_dtype"])
    if bias is not None:
        find_common_dtype(c, [TensorStructInfo(dtype=dtype), bias])
    rows = None if weight.dims is None else weight.dims[0]
    if x.dims is not None and weight.dims is not None:
        must_equal(c, x.dims[-1], weight.dims[1], "the extents that are summed over", arg=1)
    if bias is not None and bias.dims is not None and rows is not None:
        must_equal(c, rows, bias.dims[0], "the extents of the weight and the bias", arg=2)
        rows = common_extent(rows, bias.dims[0])
    if x.dims is None or rows is None:
        return c.make(None, dtype, x, ndim=x.ndim)
    return c.make([*x.dims[:-1], rows], dtype, x)


def _layer(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: DataType | None = None
) -> Tensor:
    weight = topi.assume_shape(weight, [weight.shape[0], data.shape[-1]])
    if bias is None:
        return topi.dense(data, weight, None, _text(out_dtype))
    return topi.dense(data, weight, topi.assume_shape(bias, weight.shape[:1]), _text(out_dtype))


def _layer_with_numpy(
    data: Any, weight: Any, bias: Any = None, out_dtype: DataType | None = None
) -> NPArray:
    x = np.asarray(data)
    inner, wanted = _inner(x, out_dtype)
    with np.errstate(all="ignore"):
        columns = np.swapaxes(convert_array(np.asarray(weight), inner), 0, 1)
        made = np.matmul(convert_array(x, inner), columns)
        if bias is not None:
            made = np.asarray(made + convert_array(np.asarray(bias), inner))
    return convert_array(np.asarray(made), wanted)


linear = define_op(
    "linear",
    tensor("data"),
    tensor("weight"),
    tensor("bias", None),
    kind_dtype("out_dtype", None),
    infer=_linear,
    doc="""Apply a linear layer: ``data @ weight.T + bias``.

    Shapes: ``(..., k)``, ``(n, k)`` and ``(n,)`` give ``(..., n)``.
    Types: that of ``data`` and ``weight``, or ``out_dtype``, which is also that of ``bias``.
    Errors: OPS0006, OPS0007, OPS0030, OPS0032.""",
    family="linear_algebra",
    lower=_layer,
    reference=_layer_with_numpy,
    samples=(
        Sample((A, T((4, 3)), T((4,))), absolute=_NEAR),
        Sample((T((3,)), T((4, 3))), absolute=_NEAR),
        Sample((T((2, 2, 3), "bfloat16"), T((4, 3), "bfloat16"), T((4,), "bfloat16")), ulps=1),
        Sample((T((2, 3), "int8"), T((4, 3), "int8"), T((4,), "int32"), "int32")),
        Sample((T((2, 0)), T((4, 0)), T((4,)))),
    ),
    mistakes=(
        Mistake((A, T((3, 4))), {}, "OPS0032"),
        Mistake((A, T((4, 3)), T((3,))), {}, "OPS0032"),
        Mistake((A, T((3,))), {}, "OPS0030"),
        Mistake((A, T((4, 3)), T((4, 1))), {}, "OPS0030"),
        Mistake((A, T((4, 3), "int32")), {}, "OPS0006"),
        Mistake((A, T((4, 3)), T((4,), "int32")), {}, "OPS0006"),
        Mistake((T((3,), "bool"), T((4, 3), "bool")), {}, "OPS0007"),
    ),
)


# -- sums by subscripts --------------------------------------------------------------------------
_SUBSCRIPTS = re.compile(r"([A-Za-z]*(?:,[A-Za-z]*)*)(->([A-Za-z]*))?")


def _parse(text: str) -> tuple[list[str], str] | None:
    """Split subscripts into the letters of each operand and those of the result."""
    found = _SUBSCRIPTS.fullmatch(text.replace(" ", ""))
    if found is None:
        return None
    every = found[1].replace(",", "")
    implied = "".join(x for x in sorted({*every}) if every.count(x) == 1)
    return found[1].split(","), found[3] if found[2] else implied


def _letters(c: OpContext, text: str, count: int) -> tuple[list[str], str]:
    """Read the letters of the operands and of the result, in order where that is implied."""
    parsed = _parse(text)
    if parsed is None:
        c.refuse(
            "OPS0042",
            f"{text!r} are not subscripts",
            help='write a letter for each axis, as in "ij,jk->ik"',
        )
    inputs, output = parsed
    every = "".join(inputs)
    if len(inputs) != count:
        c.refuse(
            "OPS0042",
            f"{text!r} names {len(inputs)} operands, and there are {count}",
            help="write the letters of each operand, with a comma between two",
        )
    if len({*output}) < len(output) or not {*output} <= {*every}:
        c.refuse(
            "OPS0042",
            f"the result {output!r} has a letter twice, or one that no operand has",
            help="name each axis of the result once, by a letter of the operands",
        )
    return inputs, output


def _einsum(c: OpContext) -> StructInfo:
    found = c.tensors(0)
    if found is None:
        return TensorStructInfo()
    if not found:
        c.refuse("OPS0035", "there are no tensors", help="give at least one", arg=0)
    inputs, output = _letters(c, c["subscripts"], len(found))
    dtype, device = find_common_dtype(c, found), find_shared_device(found)
    need(c, "number", dtype)
    beside: dict[str, list[TensorStructInfo]] = {letter: [] for letter in output}
    for letters, info in zip(inputs, found, strict=True):
        if info.ndim not in (-1, len(letters)):
            c.refuse(
                "OPS0042",
                f"{letters!r} does not name the {info.ndim} axes of its operand",
                help="write a letter for each axis",
                arg=0,
            )
        for axis, letter in enumerate(letters):
            dims = None if info.dims is None else info.dims[axis : axis + 1]
            beside.setdefault(letter, []).append(_part(info, dims, 1))
    extents = {letter: broadcast(c, infos).shape for letter, infos in beside.items()}
    shapes = [extents[letter] for letter in output]
    known = [s.values[0] for s in shapes if isinstance(s, ShapeExpr)]
    if len(known) < len(output):
        return TensorStructInfo(None, dtype, device, len(output))
    return TensorStructInfo(ShapeExpr(tuple(known)), dtype, device)


def _sum(operands: Sequence[Tensor], subscripts: str) -> Tensor:
    inputs = (_parse(subscripts) or ([], ""))[0]
    beside: dict[str, list[PrimExpr]] = {}
    for letters, x in zip(inputs, operands, strict=True):
        for letter, extent in zip(letters, x.shape, strict=True):
            beside.setdefault(letter, []).append(extent)
    extents = {
        letter: broadcast_extents(found, has_equal_sizes) for letter, found in beside.items()
    }

    def fit(x: Tensor, letters: str) -> Tensor:
        pairs = zip(x.shape, letters, strict=True)
        return topi.assume_broadcast(x, [d if is_one(d) else extents[k] for d, k in pairs])

    return topi.einsum(subscripts, *map(fit, operands, inputs))


def _sum_with_numpy(operands: Sequence[Any], subscripts: str) -> NPArray:
    inner, wanted = _inner(np.asarray(operands[0]), None)
    arrays = [convert_array(np.asarray(x), inner) for x in operands]
    inputs, output = _parse(subscripts) or ([], "")
    with np.errstate(all="ignore"):
        if {*"".join(inputs)} <= {*output}:
            made: Any = _outer_product_with_numpy(arrays, inputs, output)
        else:
            made = np.einsum(subscripts, *arrays)
    return convert_array(np.asarray(made), wanted)


def _outer_product_with_numpy(
    arrays: Sequence[NPArray], inputs: Sequence[str], output: str
) -> NPArray:
    """Multiply what is never summed: NumPy's einsum adds it to 0, which loses the sign of -0."""
    made: NPArray | None = None
    for letters, x in zip(inputs, arrays, strict=True):
        named = "".join(k for k in output if k in letters)
        factor: NPArray = np.einsum(f"{letters}->{named}", x)
        factor = np.expand_dims(factor, [i for i, k in enumerate(output) if k not in letters])
        made = factor if made is None else made * factor
    assert made is not None
    return made


einsum = define_op(
    "einsum",
    tensors("operands"),
    text("subscripts"),
    infer=_einsum,
    doc="""Sum products over letters, as in ``einsum((a, b), "ij,jk->ik")``.

    Without ``->`` the sum runs over letters that occur more than once; the others remain, in
    alphabetical order. A letter that occurs twice in one operand takes the diagonal. Operands are
    multiplied in pairs if that takes fewer operations; sums of floats are rounded in that order.
    Shapes: those of the letters; each letter has one extent, or 1, which is broadcast. Errors:
    OPS0006 to OPS0008, OPS0035, OPS0042.""",
    family="linear_algebra",
    lower=_sum,
    reference=_sum_with_numpy,
    samples=(
        Sample(((A, B), "ij,jk->ik"), absolute=_NEAR),
        Sample(((A, B), "ij, jk"), absolute=_NEAR),
        Sample(((T((3, 3), "int8", -128, 127),), "ii->i")),
        Sample(((T((3, 3), "int16"),), "ii")),
        Sample(((A,), "ij->ji")),
        Sample(((T((2, 3), "bfloat16"), T((3, 4), "bfloat16")), "ij,jk->k"), ulps=1),
        Sample(((T((2, 1)), T((3,)), T(())), "ij,j,->ij"), absolute=_NEAR),
        Sample(((T((2,), values=[-0.0, 2.0]), T((2,), values=[1.0, -0.0])), "i,j->ji")),
        Sample(((T((2, 2), values=[[-0.0, 2.0], [1.0, -0.0]]),), "ii->i")),
        Sample(((T((2, 0)), T((0, 3))), "ij,jk->ik")),
    ),
    mistakes=(
        Mistake(((A, B), "i.,.k->ik"), {}, "OPS0042"),
        Mistake(((A, B), "ij->i"), {}, "OPS0042"),
        Mistake(((A, B), "ij,jk->iik"), {}, "OPS0042"),
        Mistake(((A, B), "ij,jk->il"), {}, "OPS0042"),
        Mistake(((A, B), "ijk,jk->ik"), {}, "OPS0042"),
        Mistake(((A, T((4, 2))), "ij,jk->ik"), {}, "OPS0008"),
        Mistake(((A, T((3, 4), "float64")), "ij,jk->ik"), {}, "OPS0006"),
        Mistake(((T((2,), "bool"),), "i->i"), {}, "OPS0007"),
        Mistake(((), ""), {}, "OPS0035"),
    ),
)


def _outer(c: OpContext) -> StructInfo:
    a, b = need_rank(c, 0, 1), need_rank(c, 1, 1)
    dtype, device = find_common_dtype(c, [a, b]), find_shared_device([a, b])
    need(c, "number", dtype)
    if a.dims is None or b.dims is None:
        return TensorStructInfo(None, dtype, device, 2)
    return TensorStructInfo(ShapeExpr((*a.dims, *b.dims)), dtype, device)


def _table(x1: Tensor, x2: Tensor) -> Tensor:
    def element(i: PrimExpr, j: PrimExpr) -> PrimExpr:
        return Mul(x1(i), x2(j))

    return compute((*x1.shape, *x2.shape), element, name="outer")


def _table_with_numpy(x1: Any, x2: Any) -> NPArray:
    a, b = np.asarray(x1), np.asarray(x2)
    inner, wanted = _inner(a, None)
    with np.errstate(all="ignore"):
        made = convert_array(a, inner)[:, None] * convert_array(b, inner)[None, :]
    return convert_array(np.asarray(made), wanted)


outer = define_op(
    "outer",
    tensor("x1"),
    tensor("x2"),
    infer=_outer,
    doc="""Multiply each element of a vector with each of another.

    Shapes: ``(n,)`` and ``(m,)`` give ``(n, m)``. Errors: OPS0006, OPS0007, OPS0030.""",
    family="linear_algebra",
    lower=_table,
    reference=_table_with_numpy,
    samples=(
        Sample((T((2,)), T((3,)))),
        Sample((T((2,), "int8", -128, 127), T((3,), "int8", -128, 127))),
        Sample((T((2,), "bfloat16"), T((3,), "bfloat16"))),
        Sample((T((0,), "float16"), T((3,), "float16"))),
    ),
    mistakes=(
        Mistake((A, T((3,))), {}, "OPS0030"),
        Mistake((T((2,)), T((2,), "int32")), {}, "OPS0006"),
        Mistake((T((2,), "bool"), T((2,), "bool")), {}, "OPS0007"),
    ),
)
