"""Requirements of operators on dtypes and devices, in one place for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from loomir.ir import structural_equal
from loomir.ir.module import VDevice
from loomir.relax.node import Expr
from loomir.relax.operator.broadcast import Extents
from loomir.relax.operator.context import OpContext
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from loomir.support.dtype import VOID, DataType
from loomir.tir.expr import FloatImm, IntImm

__all__ = [
    "Operand",
    "common_device",
    "common_dtype",
    "need",
    "operand",
    "shape_argument",
    "tensor_info",
]

Operand: TypeAlias = TensorStructInfo | PrimStructInfo


def operand(c: OpContext, index: int) -> Operand:
    """Return what is known of an argument that is a tensor or a scalar.

    Errors: OPS0004 for another kind of value.
    """
    info = c.args[index]
    return info if isinstance(info, PrimStructInfo) else c.tensor(index)


def shape_argument(c: OpContext, index: int) -> Extents:
    """Return what is known of an argument that is a shape; a variable may have unknown extents.

    Errors: OPS0004 for another kind of value.
    """
    info, arg = c.shape(index), c.call.args[index]
    if info.values is not None:
        return Extents(ShapeExpr(info.values), len(info.values))
    has_shape_info = isinstance(getattr(arg, "struct_info_annotation", None), ShapeStructInfo)
    return Extents(arg if has_shape_info and isinstance(arg, Expr) else None, info.ndim)


# -- dtypes ----------------------------------------------------------------------------------
_KINDS: Final[dict[str, Callable[[DataType], bool]]] = {
    "float": lambda d: d.is_float,
    "integer": lambda d: d.is_integer,
    "number": lambda d: d.is_float or d.is_integer,
    "bool": lambda d: d.is_bool,
    "bits": lambda d: d.is_integer or d.is_bool,
    "any": lambda _: True,
}
_NAMED: Final = {
    "float": ("floats", "float32"),
    "integer": ("integers", "int32"),
    "number": ("numbers", "int32"),
    "bool": ("truths", "bool"),
    "bits": ("integers or truths", "int32"),
}


def need(c: OpContext, kind: str, dtype: DataType, arg: int = 0) -> None:
    """Check that a dtype is of a kind; an unknown one is accepted.

    Kinds: float, integer, number (a float or integer), bool, bits (an integer or bool), any.
    Errors: OPS0007.
    """
    if dtype.is_void or _KINDS[kind](dtype):
        return
    named, other = _NAMED[kind]
    c.refuse(
        "OPS0007",
        f"argument {arg + 1} is a tensor of {dtype}, not of {named}",
        help=f'convert it: R.astype(x, "{other}")',
        arg=arg,
    )


def common_dtype(c: OpContext, indices: Sequence[int]) -> DataType:
    """Return the common dtype of arguments, ``void`` if that of one is unknown.

    A scalar that is written as a number takes the dtype of the tensors beside it; any other scalar
    has its own. At least one argument must be a tensor.
    Errors: OPS0006 for two dtypes, OPS0004.
    """
    infos = [(i, operand(c, i)) for i in indices]
    tensors = [(i, info) for i, info in infos if isinstance(info, TensorStructInfo)]
    if not tensors:
        c.refuse(
            "OPS0004",
            "all arguments are scalars, and none a tensor",
            help="give a tensor; R.const makes one of numbers",
            arg=indices[0],
        )
    known = [(i, info.dtype) for i, info in tensors if not info.dtype.is_void]
    if not known:
        return VOID
    first, dtype = known[0]
    for i, info in infos:
        if not info.dtype.is_void and info.dtype is not dtype and not _takes(info, dtype):
            c.refuse(
                "OPS0006",
                f"argument {i + 1} is {_kind(info)} of {info.dtype}, but argument {first + 1}"
                f" a tensor of {dtype}",
                help=_help(info, dtype),
                arg=i,
            )
    return dtype if len(known) == len(tensors) else VOID


def _kind(info: Operand) -> str:
    return "a tensor" if isinstance(info, TensorStructInfo) else "a scalar"


def _help(info: Operand, dtype: DataType) -> str:
    if isinstance(info, TensorStructInfo):
        return f'convert one of them: R.astype(x, "{dtype}")'
    return f'give a number of its dtype, as R.const(1, "{dtype}")'


def _takes(info: Operand, dtype: DataType) -> bool:
    """Tell whether a scalar is a literal that means the same as a number of ``dtype``."""
    value = info.value if isinstance(info, PrimStructInfo) else None
    if isinstance(value, IntImm) and not value.dtype.is_bool:
        if dtype.is_integer:
            return dtype.min_value <= value.value <= dtype.max_value
        return dtype.is_float
    if isinstance(value, FloatImm) and dtype.is_float:
        # A shorter float is not widened: the digits that it has lost do not come back.
        return dtype.bits <= value.dtype.bits or float(value.value).is_integer()
    return False


# -- devices ---------------------------------------------------------------------------------
def common_device(c: OpContext, indices: Sequence[int]) -> VDevice | None:
    """Return the common device of tensors, None if it is unknown for all of them.

    Errors: OPS0009 for two devices.
    """
    found: VDevice | None = None
    for i in indices:
        info = operand(c, i)
        device = info.vdevice if isinstance(info, TensorStructInfo) else None
        if device is None:
            continue
        if found is not None and not structural_equal(device, found):
            c.refuse(
                "OPS0009",
                f"argument {i + 1} is on another device than those before it",
                help="move it there first: R.to_vdevice(x, …)",
                arg=i,
            )
        found = device
    return found


def tensor_info(extents: Extents, dtype: DataType, device: VDevice | None) -> TensorStructInfo:
    """Describe a tensor from what is known of its shape."""
    if extents.shape is None:
        return TensorStructInfo(None, dtype, device, extents.ndim)
    return TensorStructInfo(extents.shape, dtype, device)
