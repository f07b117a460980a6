"""What is known of functions of graphs: how they are called, and whether one fits a place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomir.codegen.llvm.generated_module import FunctionCheck, FunctionInfo
from loomir.ir.visit import Step, trampoline
from loomir.relax import faults
from loomir.relax.info.relations import Match, is_subtype, substitute_shape_vars
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import FuncStructInfo, PrimStructInfo, TupleStructInfo
from loomir.runtime.graph.function import Signature
from loomir.runtime.graph.values import ExpectedDTypes
from loomir.support.diagnostics import InternalError
from loomir.tir.expr import FloatImm, IntImm, PrimExpr
from loomir.tir.expr import Var as ShapeVar

__all__ = ["call_signature", "compare", "concrete"]


def call_signature(known: FunctionInfo) -> Signature:
    """Return what a call from Python needs to know of a function."""
    params = known.info.params or ()
    names = known.names or tuple(f"argument {i + 1}" for i in range(len(params)))
    wanted = tuple([trampoline(_find_wanted(p)) for p in params])
    sizes = tuple(place for _, place in known.captured)
    return Signature(known.name, names, wanted, sizes)


def _find_wanted(info: StructInfo) -> Step[ExpectedDTypes]:
    if isinstance(info, PrimStructInfo):
        return info.dtype
    if not isinstance(info, TupleStructInfo):
        return None
    fields: list[ExpectedDTypes] = []
    for field in info.fields:
        fields.append((yield _find_wanted(field)))
    return tuple(fields) if any(f is not None for f in fields) else None


def concrete(
    info: FuncStructInfo, variables: Sequence[ShapeVar], sizes: Sequence[Any]
) -> FuncStructInfo:
    """Replace shape variables by numbers."""
    numbers: dict[ShapeVar, PrimExpr] = {}
    for var, size in zip(variables, sizes, strict=True):
        imm = FloatImm if var.dtype.is_float else IntImm
        numbers[var] = imm(size.item(), var.dtype)
    return substitute_shape_vars(info, numbers) if numbers else info


def compare(place: FunctionCheck, given: object, sizes: Sequence[Any]) -> None:
    """Raise if a function value does not have the signature that is required. Errors: RUN0407."""
    info = getattr(given, "info", None)
    if not isinstance(info, FuncStructInfo):
        raise InternalError(f"nothing is known of {given!r}")
    wanted = concrete(place.info, place.variables, sizes)
    if is_subtype(info, wanted) is Match.NO:
        fault = faults.wrong_function(place.span, place.where, str(wanted), str(info))
        if place.claim is not None:
            fault = faults.not_a_claim(fault, place.span, place.claim)
        raise fault.error()
