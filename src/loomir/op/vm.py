"""Memory operators of the last lowering steps before machine code."""

from __future__ import annotations

from typing import Any

from loomir.op.memory import describe_storage, describe_tensor
from loomir.op.rules.kernel_rules import Arguments, arguments_of, kernel_of, literal_arguments
from loomir.relax.expr import Call, PrimValue, Tuple
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, define_op
from loomir.relax.operator.params import (
    arguments,
    expr,
    function,
    integer,
    kind_dtype,
    prim,
    shape,
    text,
)
from loomir.relax.shape import INT64
from loomir.relax.struct_info import UNIT, ShapeStructInfo
from loomir.support.diagnostics import with_count
from loomir.tir.expr import Var as ShapeVar

__all__ = ["alloc_storage", "alloc_tensor", "call_tir_dyn", "kill_object"]

_FAMILY = "vm/vm"

alloc_storage = define_op(
    "vm.alloc_storage",
    shape("size"),
    integer("runtime_device_index", 0),
    kind_dtype("dtype", "uint8"),
    text("storage_scope", "global"),
    infer=describe_storage,
    doc="Allocate storage for tensors, as ``R.memory.alloc_storage`` does.\n\nErrors: OPS0027.",
    family=_FAMILY,
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)

alloc_tensor = define_op(
    "vm.alloc_tensor",
    expr("storage"),
    prim("offset"),
    shape("shape"),
    kind_dtype("dtype"),
    integer("runtime_device_ind", 0),
    infer=describe_tensor,
    doc="Return a tensor in a storage, as ``R.memory.alloc_tensor`` does.",
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
    doc="Mark a value as no longer used.",
    family=_FAMILY,
    mistakes=(Mistake((), {}, "OPS0001"),),
)


# -- kernels of sizes that are known when they run -----------------------------------------------
def _sizes(args: Arguments) -> int:
    """Count the numbers that the last argument gives, where it is a shape."""
    last = args.infos[-1] if args.infos else None
    return last.ndim if isinstance(last, ShapeStructInfo) else 0


def _infer_dyn(c: OpContext) -> StructInfo:
    func, args = kernel_of(c), arguments_of(c)
    if args is None or func is None or func.params is None:
        return UNIT
    sizes = _sizes(args)
    if sizes < 0:
        c.refuse(
            "RLX0234",
            "how many numbers the shape gives is not known",
            help="give a shape of known rank, as in R.shape([n])",
            arg=1,
        )
    tensors = [i for i in args.infos if not isinstance(i, ShapeStructInfo)]
    if len(tensors) + sizes != len(func.params):
        c.refuse(
            "RLX0233",
            f"the kernel takes {with_count(len(func.params), 'parameter')}, but the call gives it "
            f"{with_count(len(tensors), 'tensor')} and {with_count(sizes, 'integer')}",
            help="the parameters of a kernel are tensors, then the integers of one shape",
            arg=1,
        )
    return UNIT


def _direct(builder: Any, call: Call) -> Call:
    """Write the call as one of the kernel itself."""
    given = call.args[1]
    assert isinstance(given, Tuple), "the arguments are no tuple"
    args: list[RelaxExpr] = []
    for field in given.fields:
        known = builder.struct_info_of(field)
        if not isinstance(known, ShapeStructInfo):
            args.append(field)
            continue
        if known.values is None:
            sizes = tuple([ShapeVar(f"n{i}", INT64) for i in range(known.ndim)])
            known = ShapeStructInfo(sizes)
            builder.match_cast(field, known)
        args += [PrimValue(size) for size in known.values or ()]
    return Call(call.args[0], tuple(args), span=call.span)


call_tir_dyn = define_op(
    "vm.call_tir_dyn",
    function("func"),
    arguments("args"),
    infer=_infer_dyn,
    legalize=_direct,
    normalize=literal_arguments,
    doc="Call a kernel on tensors that it reads and writes, and on the extents of a shape.\n\n"
    "``args`` are the tensors, then a shape, whose extents are the kernel's last parameters; it "
    "may be left out. Errors: RLX0230, RLX0231, RLX0233, RLX0234.",
    family=_FAMILY,
    pure=False,
    mistakes=(Mistake((), {}, "OPS0001"),),
)
