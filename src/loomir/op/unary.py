"""Operators on each element alone."""

from __future__ import annotations

import numpy as np

from loomir.relax.node import StructInfo
from loomir.relax.op_context import OpContext
from loomir.relax.op_def import Mistake, Sample, TensorSample, define_op
from loomir.relax.op_params import tensor
from loomir.te import topi

__all__ = ["negative"]


def _as_input(c: OpContext) -> StructInfo:
    """Infer a result like the input: of its shape, dtype and device."""
    return c.tensor(0)


negative = define_op(
    "negative",
    tensor("x"),
    infer=_as_input,
    doc="Negate each element; integers wrap.",
    family="unary",
    lower=topi.negative,
    reference=np.negative,
    samples=(Sample((TensorSample((2, 3)),)), Sample((TensorSample((0,), "int8"),))),
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)
