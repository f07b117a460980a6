"""Operators on memory that the last steps before machine code use."""

from __future__ import annotations

from loomir.op.memory import described_storage, described_tensor
from loomir.relax.node import StructInfo
from loomir.relax.op_context import OpContext
from loomir.relax.op_def import Mistake, define_op
from loomir.relax.op_params import expr, integer, kind_dtype, prim, shape, text
from loomir.relax.struct_info import UNIT

__all__ = ["alloc_storage", "alloc_tensor", "kill_object"]

_FAMILY = "vm/vm"

alloc_storage = define_op(
    "vm.alloc_storage",
    shape("size"),
    integer("runtime_device_index", 0),
    kind_dtype("dtype", "uint8"),
    text("storage_scope", "global"),
    infer=described_storage,
    doc="Allocate bytes for tensors to lie in, as ``R.memory.alloc_storage`` does.\n\n"
    "Errors: OPS0027.",
    family=_FAMILY,
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)

alloc_tensor = define_op(
    "vm.alloc_tensor",
    expr("storage"),
    prim("offset"),
    shape("shape"),
    kind_dtype("dtype"),
    infer=described_tensor,
    doc="Give a tensor that lies in a storage, as ``R.memory.alloc_tensor`` does.",
    family=_FAMILY,
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)


def _nothing(c: OpContext) -> StructInfo:
    del c
    return UNIT


kill_object = define_op(
    "vm.kill_object",
    expr("obj"),
    infer=_nothing,
    doc="Promise that a value is not used any more.",
    family=_FAMILY,
    mistakes=(Mistake((), {}, "OPS0001"),),
)
