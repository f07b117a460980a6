"""Element-wise operators of three operands, whose shapes broadcast."""

from __future__ import annotations

from loomir.op.rules.fitting import fit_lowering
from loomir.relax.node import StructInfo
from loomir.relax.operator.broadcast import broadcast
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import tensor
from loomir.relax.operator.reference import NPArray, elementwise
from loomir.relax.operator.rules import common_device, common_dtype, need, tensor_info
from loomir.te import topi
from loomir.te.tensor import Tensor

__all__ = ["ewise_fma"]


def _infer(c: OpContext) -> StructInfo:
    infos = [c.tensor(i) for i in range(3)]
    for i, info in enumerate(infos):
        need(c, "number", info.dtype, i)
    dtype = common_dtype(c, range(3))
    return tensor_info(broadcast(c, infos), dtype, common_device(c, range(3)))


def _lower(a: Tensor, b: Tensor, d: Tensor) -> Tensor:
    if not a.dtype.is_float or a.dtype.bits != 16:
        return topi.add(topi.multiply(a, b), d)
    wide = [topi.cast(t, "float32") for t in (a, b, d)]
    return topi.cast(topi.add(topi.multiply(wide[0], wide[1]), wide[2]), a.dtype)


def _reference(a: NPArray, b: NPArray, d: NPArray) -> NPArray:
    made: NPArray = a * b + d
    return made


_X = TensorSample((2, 3))

ewise_fma = define_op(
    "ewise_fma",
    tensor("x1"),
    tensor("x2"),
    tensor("x3"),
    infer=_infer,
    doc="Compute x1 * x2 + x3, rounding the product and the sum; integers wrap.",
    family="ternary",
    lower=fit_lowering(_lower),
    reference=elementwise(_reference),
    samples=(
        Sample((_X, _X, _X)),
        Sample(tuple(TensorSample(s, "int8", -9, 9) for s in ((2, 1), (3,), ()))),
        Sample(tuple(TensorSample(s, "bfloat16") for s in ((4,), (4,), (1,)))),
        Sample((TensorSample((0,)), TensorSample(()), TensorSample((1,)))),
    ),
    mistakes=(
        Mistake((_X, _X, TensorSample((2,))), {}, "OPS0008"),
        Mistake((_X, _X, TensorSample((2, 3), "float64")), {}, "OPS0006"),
        Mistake((_X, _X, 1), {}, "OPS0004"),
        Mistake((_X, _X), {}, "OPS0001"),
    ),
    elementwise=True,
)
