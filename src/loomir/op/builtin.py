"""Marker operators that passes insert, and plain allocation."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

from loomir.op import memory
from loomir.relax.expr import Call, PrimValue
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, define_op
from loomir.relax.operator.params import integer, kind_dtype, shape, tensor, text
from loomir.relax.shape import INT64, ShapeExpr
from loomir.relax.struct_info import UNIT
from loomir.tir.expr import IntImm, PrimExpr

__all__ = ["alloc_tensor", "require_order", "stop_lift_params"]


def _alloc_tensor(c: OpContext) -> StructInfo:
    given = c.shape(0)
    return c.make(given.values, c["dtype"], ndim=given.ndim)


def _allocate_own_storage(builder: Any, call: Call) -> RelaxExpr:
    """Write the tensor as one that lies at the start of a storage of its own."""
    given, info = call.args[0], builder.struct_info_of(call)
    dims = getattr(info, "dims", None)
    if dims is None:
        return call
    itemsize: PrimExpr = IntImm(info.dtype.itemsize, INT64)
    size = builder.emit(
        memory.alloc_storage(ShapeExpr((reduce(mul, dims, itemsize),)), 0, "global", "uint8")
    )
    return memory.alloc_tensor(size, PrimValue(IntImm(0, INT64)), given, info.dtype)


alloc_tensor = define_op(
    "builtin.alloc_tensor",
    shape("shape"),
    kind_dtype("dtype"),
    integer("runtime_device_index", 0),
    text("storage_scope", "global"),
    infer=_alloc_tensor,
    legalize=_allocate_own_storage,
    doc="Allocate a tensor with undefined contents.",
    family="builtin/builtin",
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)
stop_lift_params = define_op(
    "builtin.stop_lift_params",
    tensor("x"),
    infer=lambda c: c.tensor(0),
    doc="Return the tensor, and keep passes from computing it ahead of time.",
    family="builtin/builtin",
    legalize=lambda _, call: call.args[0],  # what was to keep away has run by then
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)


def _infer_order(c: OpContext) -> StructInfo:
    given = c.shape(0)
    if given.ndim not in (-1, 2):
        c.refuse("OPS0061", f"{given.ndim} numbers are given, not 2", help="give two", arg=0)
    return UNIT


require_order = define_op(
    "builtin.require_order",
    shape("numbers"),
    text("message"),
    text("help", ""),
    infer=_infer_order,
    doc="Stop with an error if the first of two numbers is above the second.\n\nIn "
    "``message``, ``{0}`` and ``{1}`` stand for them. Passes keep it, although nothing uses its "
    "result. Errors: OPS0061; RUN0212 in a run.",
    family="builtin/builtin",
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)
