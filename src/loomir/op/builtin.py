"""Operators that passes leave marks with, and plain allocation."""

from __future__ import annotations

from loomir.relax.node import StructInfo
from loomir.relax.op_context import OpContext
from loomir.relax.op_def import Mistake, define_op
from loomir.relax.op_params import integer, kind_dtype, shape, tensor, text

__all__ = ["alloc_tensor", "stop_lift_params"]


def _alloc_tensor(c: OpContext) -> StructInfo:
    given = c.shape(0)
    return c.make(given.values, c["dtype"], ndim=given.ndim)


alloc_tensor = define_op(
    "builtin.alloc_tensor",
    shape("shape"),
    kind_dtype("dtype"),
    integer("runtime_device_index", 0),
    text("storage_scope", "global"),
    infer=_alloc_tensor,
    doc="Allocate a tensor; what it holds is undefined.",
    family="builtin/builtin",
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)
stop_lift_params = define_op(
    "builtin.stop_lift_params",
    tensor("x"),
    infer=lambda c: c.tensor(0),
    doc="Give the tensor, and keep passes from computing it ahead of time.",
    family="builtin/builtin",
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)
