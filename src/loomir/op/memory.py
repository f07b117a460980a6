"""Memory as values: storage, tensors in it, and views of tensors.

Memory plans are written with these operators; models rarely are.
"""

from __future__ import annotations

from functools import reduce
from operator import mul

from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, define_op
from loomir.relax.operator.params import expr, integer, kind_dtype, prim, shape, tensor, text
from loomir.relax.shape import as_dim
from loomir.relax.struct_info import OBJECT, UNIT, TensorStructInfo
from loomir.support.dtype import DataType

__all__ = [
    "alloc_storage",
    "alloc_tensor",
    "ensure_zero_offset",
    "kill_storage",
    "kill_tensor",
    "view",
]

_FAMILY = "memory/memory"


def _infer_allocated(c: OpContext, at: int) -> StructInfo:
    """Describe a tensor of a shape that is an argument, and a dtype that is an option."""
    given = c.shape(at)
    return c.make(given.values, c["dtype"], ndim=given.ndim)


def describe_storage(c: OpContext) -> StructInfo:
    """Infer a storage of a number of bytes. Errors: OPS0027."""
    size = c.shape(0)
    if size.ndim not in (-1, 1):
        c.refuse(
            "OPS0027",
            f"the size is a shape of {size.ndim} extents",
            help="give only the number of bytes: R.shape([1024])",
            arg=0,
        )
    return OBJECT


alloc_storage = define_op(
    "memory.alloc_storage",
    shape("size"),
    integer("virtual_device_index", 0),
    text("storage_scope", "global"),
    kind_dtype("dtype", "uint8"),
    infer=describe_storage,
    doc="Allocate storage for tensors, with undefined contents.\n\nErrors: OPS0027.",
    family=_FAMILY,
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)


def describe_tensor(c: OpContext) -> StructInfo:
    """Infer a tensor in a storage, of a shape and dtype that are given. Errors: OPS0004."""
    offset = c.prim(1)
    if offset is None or offset.dtype is not DataType("int64"):
        given = "an object" if offset is None else f"a scalar of {offset.dtype}"
        c.refuse(
            "OPS0004",
            f"argument 2 is {given}, not a scalar of int64",
            help='give the offset in bytes: R.prim_value(0), or a value of R.Prim("int64")',
            arg=1,
        )
    return _infer_allocated(c, 2)


alloc_tensor = define_op(
    "memory.alloc_tensor",
    expr("storage"),
    prim("offset"),
    shape("shape"),
    kind_dtype("dtype"),
    integer("runtime_device_ind", 0),
    infer=describe_tensor,
    doc="Return a tensor in a storage, ``offset`` bytes from its start.",
    family=_FAMILY,
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)


def _nothing(c: OpContext) -> StructInfo:
    del c
    return UNIT


kill_storage = define_op(
    "memory.kill_storage",
    expr("storage"),
    infer=_nothing,
    doc="Mark a storage as no longer used.",
    family=_FAMILY,
    mistakes=(Mistake((), {}, "OPS0001"),),
)
kill_tensor = define_op(
    "memory.kill_tensor",
    tensor("tensor"),
    infer=_nothing,
    doc="Mark a tensor as no longer used.",
    family=_FAMILY,
    mistakes=(Mistake((), {}, "OPS0001"),),
)


def _view(c: OpContext) -> StructInfo:
    given = c.tensor(0)
    dtype = c["dtype"] or given.dtype
    if not c.has(1):
        same = dtype is given.dtype and not c["relative_byte_offset"]
        if not same:
            c.refuse(
                "OPS0028",
                "a view of another dtype or offset has no shape",
                help="give the shape of the view",
                arg=0,
            )
        return given
    wanted, offset = c.shape(1), c["relative_byte_offset"]
    if offset < 0 or (not dtype.is_void and offset % dtype.itemsize):
        where = "starts before" if offset < 0 else f"reads {dtype} at odd bytes of"
        c.refuse(
            "OPS0028",
            f"the view {where} the tensor",
            help=f"give an offset that is a multiple of {max(1, dtype.itemsize)}, from 0 on",
            arg=3,
        )
    if given.dims is not None and wanted.values is not None and not given.dtype.is_void:
        one = as_dim(1)
        have = reduce(mul, given.dims, one) * given.dtype.itemsize
        need = reduce(mul, wanted.values, one) * dtype.itemsize + offset
        if c.is_never_equal(have, need) and c.analyzer.can_prove(need > have):
            c.refuse(
                "OPS0028",
                "the view is larger than the tensor",
                help="give a shape, dtype and offset within the tensor's bytes",
                arg=1,
            )
    return TensorStructInfo(
        None if wanted.values is None else c.make(wanted.values, dtype).shape,
        dtype,
        given.vdevice,
        wanted.ndim,
    )


view = define_op(
    "memory.view",
    tensor("data"),
    shape("shape", None),
    kind_dtype("dtype", None),
    integer("relative_byte_offset", 0),
    infer=_view,
    doc=(
        "Return a view: the same memory with another shape and dtype.\n\n"
        "Errors: OPS0028 for a view that is certain to leave the tensor's bytes."
    ),
    family="memory/view",
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)
ensure_zero_offset = define_op(
    "memory.ensure_zero_offset",
    tensor("x"),
    infer=lambda c: c.tensor(0),
    doc="Return the tensor; every tensor starts at the beginning of its memory.",
    family="memory/view",
    mistakes=(Mistake((None,), {}, "OPS0003"),),
)
