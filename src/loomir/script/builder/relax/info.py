"""Annotations of values: ``R.Tensor``, ``R.Shape``, ``R.Prim``, ``R.Tuple``, ``R.Callable``.

A string among extents names a shape variable: in a function under construction the one of that
name, elsewhere a new one. ``R.Tensor`` without a call stands for ``R.Tensor()``.
"""

from __future__ import annotations

from collections.abc import Callable as AnyCallable
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from loomir.ir.module import VDevice
from loomir.relax.expr import Var as RelaxVar
from loomir.relax.node import Expr, StructInfo
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    EMPTY_DERIVE,
    OBJECT,
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.script.builder.arguments import as_dtype, as_expr, as_int, as_text, describe
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.dtypes import DTypeFunction, DTypeLike
from loomir.script.builder.frame import IRBuilder
from loomir.script.builder.function import IRModuleFrame
from loomir.script.builder.mistakes import wrong_argument
from loomir.script.builder.relax.frames import FunctionFrame
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, PrimExpr, Var

__all__ = [
    "Extent",
    "StructInfoLike",
    "any_value",
    "as_extent",
    "as_extents",
    "as_struct_info",
    "as_struct_infos",
    "as_vdevice",
    "cpu",
    "cuda",
    "device",
    "function_info",
    "prim",
    "set_extent_reader",
    "shape",
    "tensor",
    "tuple_info",
]

Extent: TypeAlias = int | str | PrimExpr | Expr
StructInfoLike: TypeAlias = StructInfo | AnyCallable[..., StructInfo]
_Reader: TypeAlias = AnyCallable[[str, Mapping[str, Var]], PrimExpr]
_reader: list[_Reader] = []


def set_extent_reader(reader: _Reader) -> None:
    """Make ``reader`` what reads extents that are written as strings, such as ``"n + 1"``."""
    _reader[:] = [reader]


# -- extents -------------------------------------------------------------------------------------
def as_extent(value: object) -> PrimExpr | int:
    """Read an extent: a number, an expression, a scalar of the program, a name.

    Errors: SCR0025.
    """
    if isinstance(value, str):
        return _find_named(value)
    if isinstance(value, RelaxVar):
        info = value.struct_info_annotation
        if isinstance(info, PrimStructInfo) and info.value is not None:
            return info.value
        raise wrong_argument(
            value,
            f"the value of {value.name_hint!r} is not known in a shape",
            code="SCR0025",
            help="bind it to a shape variable with R.match_cast(…, R.Prim(value=n))",
        )
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return as_expr(value, "an extent")


def _find_named(text: str) -> PrimExpr:
    names: dict[str, Var] = {}
    builder = IRBuilder.active()
    frame = None if builder is None else builder.find(FunctionFrame)
    if frame is not None:
        names = frame.shape_names
    if text.isidentifier():
        return names.setdefault(text, Var(text, DataType("int64")))
    return _reader[0](text, names)


def as_extents(values: object, what: str = "the shape") -> list[PrimExpr | int]:
    """Read a tuple or list of extents. Errors: SCR0005, SCR0025."""
    if isinstance(values, ShapeExpr):
        return list(values.values)
    if not isinstance(values, (tuple, list)):
        raise wrong_argument(
            values,
            f"{what} must be a tuple of extents, not {describe(values)}",
            help=f"write ({values},)"
            if isinstance(values, (int, PrimExpr))
            else "write (2, n), or (n,) for one extent",
        )
    return [as_extent(item) for item in cast("Sequence[object]", values)]


# -- kinds of values -----------------------------------------------------------------------------
def tensor(
    shape: Sequence[Extent] | Expr | str | None = None,
    dtype: DTypeLike | None = None,
    vdevice: VDevice | str | None = None,
    ndim: int = -1,
) -> TensorStructInfo:
    """Describe a tensor: its shape, dtype and device, or only its rank."""
    if isinstance(shape, (str, DataType, DTypeFunction)):
        if dtype is not None:
            raise wrong_argument(
                shape,
                f"the shape of a tensor must be a tuple of extents, not {describe(shape)}",
                help='write the dtype once, as in R.Tensor((2, n), "float32")',
            )
        shape, dtype = None, shape
    dims: object = shape
    if shape is not None and not (isinstance(shape, Expr) and not isinstance(shape, ShapeExpr)):
        dims = ShapeExpr(cast("Any", tuple(as_extents(shape))))
        for extent in dims.values:
            if isinstance(extent, IntImm) and extent.value < 0:
                raise wrong_argument(
                    shape,
                    f"an extent of a tensor is {extent.value}",
                    help='write a name for one that calls decide, as in ("n", 4)',
                )
    rank = as_int(ndim, "ndim")
    return TensorStructInfo(
        cast("Expr | None", dims),
        cast(
            "Any",
            None if dtype is None or (isinstance(dtype, str) and not dtype) else as_dtype(dtype),
        ),
        None if vdevice is None else as_vdevice(vdevice),
        cast("Any", None if rank == -1 else rank),
    )


def shape(values: Sequence[Extent] | None = None, ndim: int = -1) -> ShapeStructInfo:
    """Describe a shape: its extents, or only its rank."""
    dims = None if values is None else tuple(as_extents(values))
    rank = as_int(ndim, "ndim")
    return ShapeStructInfo(cast("Any", dims), cast("Any", None if rank == -1 else rank))


def prim(dtype: DTypeLike | None = None, value: Extent | float | None = None) -> PrimStructInfo:
    """Describe a scalar: its dtype, or its value, which is an expression of shape variables."""
    wanted = None if dtype is None else as_dtype(dtype)
    if value is None:
        if wanted is None:
            raise wrong_argument(
                None, "R.Prim needs a dtype or a value", help='write R.Prim("int64")'
            )
        return PrimStructInfo(wanted)
    made = as_expr(as_extent(value) if not isinstance(value, (bool, float)) else value)
    if isinstance(value, int) and not isinstance(value, bool):
        made = as_expr(made).astype(wanted or DataType("int64"))
    return PrimStructInfo(wanted or made.dtype, made)


def any_value() -> StructInfo:
    """Describe any value."""
    return OBJECT


def tuple_info(*fields: StructInfoLike | Sequence[StructInfoLike]) -> TupleStructInfo:
    """Describe a tuple by its fields, given one by one or as one list."""
    items: Sequence[object] = fields
    if len(fields) == 1 and isinstance(fields[0], (tuple, list)):
        items = cast("Sequence[object]", fields[0])
    return TupleStructInfo(tuple([as_struct_info(item) for item in items]))


def function_info(
    params: Sequence[StructInfoLike] | StructInfoLike | None = None,
    ret: StructInfoLike | None = None,
    purity: bool | None = None,
    derive_func: str | AnyCallable[..., Any] | None = None,
) -> FuncStructInfo:
    """Describe a function: parameters, result, purity; without parameters, any function.

    ``derive_func`` names how the result of a packed function follows from the call.
    """
    result = OBJECT if ret is None else as_struct_info(ret)
    if params is None:
        pure = False if purity is None else _read_flag(purity)
        return FuncStructInfo(None, result, pure, derive_func or EMPTY_DERIVE)
    given = as_struct_infos(params)
    return FuncStructInfo(
        given, result, True if purity is None else _read_flag(purity), derive_func
    )


def _read_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise wrong_argument(value, f"purity is {describe(value)}", help="write True or False")


_BARE: Final[dict[int, AnyCallable[[], StructInfo]]] = {
    id(tensor): tensor,
    id(shape): shape,
    id(any_value): any_value,
    id(function_info): function_info,
    id(tuple_info): tuple_info,
}


def as_struct_info(value: object) -> StructInfo:
    """Read what is said of a value.

    Errors: SCR0033 for what says nothing of values.
    """
    if isinstance(value, StructInfo):
        return value
    bare = _BARE.get(id(value))
    if bare is not None:
        return bare()
    if isinstance(value, DTypeFunction) and value.dtype.lanes == 1 and not value.dtype.is_void:
        return PrimStructInfo(value.dtype)  # T.int64, as others write R.Prim("int64")
    raise wrong_argument(
        value,
        f"{describe(value)} does not describe a value of Relax",
        code="SCR0033",
        help="a function of buffers is a kernel: write it under @T.prim_func"
        if isinstance(value, (Buffer, BufferSpec))
        else 'write R.Tensor((2, n), "float32"), R.Shape, R.Prim, R.Tuple, R.Callable or R.Object',
    )


def as_struct_infos(value: object) -> tuple[StructInfo, ...]:
    """Read one description or several. Errors: SCR0033."""
    if isinstance(value, (tuple, list)):
        return tuple([as_struct_info(item) for item in cast("Sequence[object]", value)])
    return (as_struct_info(value),)


# -- devices -------------------------------------------------------------------------------------
def as_vdevice(value: object) -> VDevice:
    """Read a device: one made with ``I.vdevice``, or ``"llvm:0"``.

    The string names a device of the module by its target and its number among those of that
    target. Without a list of devices in the module it is device ``dev_id`` of the target.

    Errors: SCR0034 for a device that the module lacks.
    """
    if isinstance(value, VDevice):
        return value
    text = as_text(value, "vdevice")
    target, _, rest = text.partition(":")
    index, _, scope = rest.partition(":")
    if not target or (index and not index.isdecimal()):
        raise wrong_argument(
            value, f"vdevice {text!r} names no device", help='write "llvm:0"', code="SCR0034"
        )
    number = int(index or "0")
    builder = IRBuilder.active()
    module = None if builder is None else builder.find(IRModuleFrame)
    known = () if module is None else module.global_info.get("vdevice", ())
    if not known and module is None:
        return VDevice(target, number, scope or "global")
    same = [d for d in known if _kind(d) == target and (not scope or d.mem_scope == scope)]
    if number >= len(same):
        raise wrong_argument(
            value,
            f"the module has no device {text!r}",
            code="SCR0034",
            help='list it: I.module_global_infos({"vdevice": [I.vdevice("llvm")]})',
        )
    return same[number]


def _kind(device: VDevice) -> str:
    target = device.target
    found = target.get("kind", "") if isinstance(target, Mapping) else target
    return str(found).split(" ")[0]


_DEVICES: Final = {1: "llvm", 2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm"}


def device(device_type: int, index: int = 0) -> VDevice:
    """Name a device by the number of its kind, as DLPack counts kinds, and its own number."""
    kind = as_int(device_type, "the kind of a device")
    if kind not in _DEVICES:
        names = ", ".join(f"{number} ({name})" for number, name in _DEVICES.items())
        raise wrong_argument(device_type, f"there is no device {kind}", help=f"use {names}")
    return VDevice(_DEVICES[kind], as_int(index, "the number of a device"))


def cpu(index: int = 0) -> VDevice:
    """Name a CPU."""
    return device(1, index)


def cuda(index: int = 0) -> VDevice:
    """Name a GPU."""
    return device(2, index)
