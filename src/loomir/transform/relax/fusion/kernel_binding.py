"""Bind the parameters of a kernel to the arguments of one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from loomir.arith.analyzer import Analyzer
from loomir.ir.node import Node
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order
from loomir.relax.expr import Call, Constant, PrimValue, Tuple, Var
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import PrimStructInfo, TensorStructInfo
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferType
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import Var as PrimVar
from loomir.tir.function import PrimFunc
from loomir.tir.types import VOID_TYPE
from loomir.transform.relax.fusion.loop_nests import parts_of

__all__ = ["BoundKernelCall", "ScalarOf", "bind_kernel", "is_known", "output_of", "scalar_argument"]

_INT64: Final = DataType("int64")

ScalarOf: TypeAlias = Callable[[Var], "PrimVar | None"]
"""Maps a scalar of a graph to the variable of loops for it, or None."""


class BoundKernelCall(NamedTuple):
    """A bound call of a kernel: its tensors by parameter, and values of scalars and extents."""

    tensors: tuple[tuple[Buffer, RelaxExpr], ...]
    output: Buffer
    values: dict[PrimVar, PrimExpr]


def output_of(func: PrimFunc) -> Buffer | None:
    """Return the single output of a kernel of tensors and scalars; None for other functions."""
    if func.ret_type != VOID_TYPE or not func.params or func.params[-1] not in func.buffer_map:
        return None
    if any(p not in func.buffer_map and p.dtype.is_handle for p in func.params):
        return None
    for buffer in (*func.buffer_map.values(), *parts_of(func)[0]):
        plain = not buffer.strides and buffer.buffer_type is BufferType.DEFAULT
        if not plain or buffer.elem_offset is not None or buffer.scope != "global":
            return None
        names = [p for e in buffer.shape for p in pre_order(e) if isinstance(p, PrimVar)]
        if any(name.dtype is not _INT64 for name in names):
            return None
    return func.buffer_map[func.params[-1]]


def scalar_argument(expr: RelaxExpr) -> PrimStructInfo | None:
    """Return the structural information of a scalar argument; None for other arguments."""
    if isinstance(expr, PrimValue):
        return PrimStructInfo(expr.value.dtype, expr.value)
    info = expr.struct_info_annotation if isinstance(expr, Var) else None
    return info if isinstance(info, PrimStructInfo) else None


def is_known(info: StructInfo | None) -> bool:
    """Tell whether the extents and the dtype of a tensor are known."""
    return isinstance(info, TensorStructInfo) and info.dims is not None and not info.dtype.is_void


def bind_kernel(
    func: PrimFunc, call: Call, scalar_of: ScalarOf, analyzer: Analyzer
) -> BoundKernelCall | None:
    """Bind the parameters of a kernel with one output, as a ``call_tir`` would.

    Return None if arguments and parameters do not match exactly, or if the kernel would have to
    check something at run time.
    """
    output = output_of(func)
    given, sizes = call.args[1], call.args[2] if len(call.args) > 2 else ShapeExpr(())
    if output is None or not isinstance(given, Tuple) or not isinstance(sizes, ShapeExpr):
        return None
    if len(func.params) != len(given.fields) + len(sizes.values) + 1 or len(call.sinfo_args) != 1:
        return None
    tensors: list[tuple[Buffer, RelaxExpr]] = []
    infos: list[tuple[Buffer, StructInfo | None]] = []
    values: dict[PrimVar, PrimExpr] = {}
    for param, arg in zip(func.params, (*given.fields, *sizes.values)):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            value = arg if isinstance(arg, PrimExpr) else _number(arg, scalar_of)
            if value is None or value.dtype is not param.dtype:
                return None
            values[param] = value
        elif isinstance(arg, (Var, Constant)):
            tensors.append((buffer, arg))
            infos.append((buffer, _info(arg)))
        else:
            return None
    infos.append((output, call.sinfo_args[0]))
    if not _fit(infos, values, analyzer):
        return None
    return BoundKernelCall(tuple(tensors), output, values)


def _number(arg: RelaxExpr, scalar_of: ScalarOf) -> PrimExpr | None:
    known = scalar_argument(arg)
    if known is None:
        return None
    if known.value is not None:
        return known.value
    return scalar_of(arg) if isinstance(arg, Var) else None


def _info(arg: Var | Constant) -> StructInfo | None:
    return arg.struct_info if isinstance(arg, Constant) else arg.struct_info_annotation


def _fit(
    infos: Sequence[tuple[Buffer, StructInfo | None]],
    values: dict[PrimVar, PrimExpr],
    analyzer: Analyzer,
) -> bool:
    """Tell whether tensors certainly fit their parameters; add the values that extents bind."""
    pairs: list[tuple[PrimExpr, PrimExpr]] = []
    for buffer, info in infos:
        if not isinstance(info, TensorStructInfo) or info.dims is None:
            return False
        if info.dtype is not buffer.dtype or len(info.dims) != len(buffer.shape):
            return False
        pairs += zip(buffer.shape, info.dims)
    for extent, actual in pairs:
        if isinstance(extent, PrimVar):
            values.setdefault(extent, actual)
    table: dict[Node, Node] = {**values}
    for extent, actual in pairs:
        wanted = substitute(extent, table)
        if wanted is not actual and not analyzer.can_prove_equal(wanted, actual):
            return False
    return True
