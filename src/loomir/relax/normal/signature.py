"""Derive the structural information of functions from their signatures."""

from __future__ import annotations

from functools import partial

from loomir.ir.visit import pre_order, rewrite
from loomir.relax.expr import Function
from loomir.relax.node import StructInfo
from loomir.relax.shape import INT64, ShapeExpr
from loomir.relax.struct_info import (
    OBJECT,
    UNIT,
    FuncStructInfo,
    PrimStructInfo,
    TensorStructInfo,
)
from loomir.tir.expr import BinaryOp, Cast, IntImm, PrimExpr, Var, cast
from loomir.tir.function import PrimFunc

__all__ = ["func_struct_info"]


def func_struct_info(func: Function | PrimFunc) -> FuncStructInfo:
    """Return what a function's signature says of it, without its body.

    A ``PrimFunc`` is impure and returns nothing: it writes its results. A shape variable of
    narrower integers in it becomes one of int64.
    Source: relax.md, derivation rules 15 and 16; decision R15.
    """
    if isinstance(func, PrimFunc):
        return _describe_prim_func(func)
    params = tuple([p.struct_info_annotation or OBJECT for p in func.params])
    return FuncStructInfo(params, func.ret_struct_info or OBJECT, func.is_pure)


def _describe_prim_func(func: PrimFunc) -> FuncStructInfo:
    wide: dict[Var, Var] = {}
    shapes = {
        var: tuple([_widen(extent, wide) for extent in buffer.shape])
        for var, buffer in func.buffer_map.items()
    }
    in_shapes = {v for dims in shapes.values() for dim in dims for v in pre_order(dim)}
    params: list[StructInfo] = []
    for var in func.params:
        if var in shapes:
            params.append(TensorStructInfo(ShapeExpr(shapes[var]), func.buffer_map[var].dtype))
        elif var.dtype.is_handle or var.dtype.lanes != 1:
            params.append(OBJECT)
        else:
            params.append(PrimStructInfo(var.dtype, var if var in in_shapes else None))
    return FuncStructInfo(tuple(params), UNIT, purity=False)


def _widen(extent: PrimExpr, wide: dict[Var, Var]) -> PrimExpr:
    """Return an integer extent in int64, with variables of int64; other extents stay."""
    parts = list(pre_order(extent))
    if not all(isinstance(part, (Var, IntImm, BinaryOp, Cast)) for part in parts):
        return extent
    if all(getattr(part, "dtype", None) is INT64 for part in parts):
        return extent
    return cast(
        rewrite(extent, {Var: partial(_wide_var, wide), IntImm: _wide_imm, Cast: _wide_cast}), INT64
    )


def _wide_var(wide: dict[Var, Var], var: Var) -> Var:
    if var.dtype is INT64 or not var.dtype.is_integer:
        return var
    if var not in wide:
        wide[var] = Var(var.name_hint, INT64)
    return wide[var]


def _wide_imm(number: IntImm) -> IntImm:
    return number if not number.dtype.is_integer else IntImm(number.value, INT64)


def _wide_cast(made: Cast) -> PrimExpr:
    return made.value if made.value.dtype is INT64 and made.dtype.is_integer else made
