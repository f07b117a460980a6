"""Wrap compiled graph functions for Python, and validate functions that are passed to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loomir.codegen.llvm.module import Generated
from loomir.codegen.llvm.native import Native
from loomir.codegen.llvm.relax.program import Graph
from loomir.codegen.llvm.relax.unit import FunctionInfo
from loomir.codegen.llvm.support.objects import door_address, object_symbols
from loomir.ir.visit import Step, trampoline
from loomir.relax import faults
from loomir.relax.info.relations import Match, is_subtype, substitute_shape_vars
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import FuncStructInfo, PrimStructInfo, TupleStructInfo
from loomir.runtime.graph.fast_call import connect_fast_call
from loomir.runtime.graph.function import GraphFunction, GraphProgram, Signature
from loomir.runtime.graph.objects import connect
from loomir.runtime.graph.values import Wanted
from loomir.support.diagnostics import InternalError
from loomir.tir.expr import FloatImm, IntImm, PrimExpr
from loomir.tir.expr import Var as ShapeVar

__all__ = ["graph_functions"]


def graph_functions(
    generated: Generated,
    native: Native,
    explain: Callable[[FunctionInfo, tuple[object, ...]], None],
    kind: type[GraphFunction] = GraphFunction,
) -> dict[str, GraphFunction]:
    """Return the public graph functions of compiled code, by name.

    ``explain`` raises all that is wrong with arguments of a function.
    """
    graph = generated.graph
    if graph is None:
        return {}
    connect(object_symbols())
    connect_fast_call(door_address)
    program = GraphProgram(
        native,
        generated.faults,
        graph.values,
        [_signature(info) for info in graph.infos],
        lambda number, sizes: _describe(graph, number, sizes),
        lambda check, given, sizes: _compare(graph, check, given, sizes),
        {site: name for name in graph.numbers for site in graph.sites[graph.numbers[name]]},
        lambda name, args: explain(graph.infos[graph.numbers[name]], args),
        never_calls_python=not graph.packed,
    )
    return {
        name: program.function(number, graph.numbers[name], kind)
        for number, name in enumerate(graph.entries)
    }


def _signature(known: FunctionInfo) -> Signature:
    params = known.info.params or ()
    names = known.names or tuple(f"argument {i + 1}" for i in range(len(params)))
    wanted = tuple([trampoline(_find_wanted(p)) for p in params])
    sizes = tuple(place for _, place in known.captured)
    return Signature(known.name, names, wanted, sizes)


def _find_wanted(info: StructInfo) -> Step[Wanted]:
    if isinstance(info, PrimStructInfo):
        return info.dtype
    if not isinstance(info, TupleStructInfo):
        return None
    fields: list[Wanted] = []
    for field in info.fields:
        fields.append((yield _find_wanted(field)))
    return tuple(fields) if any(f is not None for f in fields) else None


def _describe(graph: Graph, number: int, sizes: Sequence[Any]) -> FuncStructInfo:
    known = graph.infos[number]
    return _concrete(known.info, [var for var, _ in known.captured], sizes)


def _concrete(
    info: FuncStructInfo, variables: Sequence[ShapeVar], sizes: Sequence[Any]
) -> FuncStructInfo:
    """Put numbers for shape variables."""
    numbers: dict[ShapeVar, PrimExpr] = {}
    for var, size in zip(variables, sizes, strict=True):
        imm = FloatImm if var.dtype.is_float else IntImm
        numbers[var] = imm(size.item(), var.dtype)
    return substitute_shape_vars(info, numbers) if numbers else info


def _compare(graph: Graph, check: int, given: object, sizes: Sequence[Any]) -> None:
    """Raise where a function does not fit a place of the program. Errors: RUN0407."""
    place = graph.checks[check]
    info = getattr(given, "info", None)
    if not isinstance(info, FuncStructInfo):
        raise InternalError(f"nothing is known of {given!r}")
    wanted = _concrete(place.info, place.variables, sizes)
    if is_subtype(info, wanted) is Match.NO:
        fault = faults.wrong_function(place.span, place.where, str(wanted), str(info))
        if place.claim is not None:
            fault = faults.not_a_claim(fault, place.span, place.claim)
        raise fault.error()
