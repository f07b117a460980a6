"""Bind constant arguments of a program: of a graph, or of a single PrimFunc."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loomir.ir.module import IRModule
from loomir.relax.expr import Call, Function, Var
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.normal.derive import func_struct_info
from loomir.relax.normal.normalize import normalize
from loomir.relax.operator.definition import find_op
from loomir.support.diagnostics import InternalError
from loomir.tir.analysis.written_buffers import written_buffers
from loomir.tir.function import PrimFunc
from loomir.tir.rules import refuse
from loomir.transform.relax.constants.bind_params import BindParamsOptions, bind_params

__all__ = ["bind_constants"]


def bind_constants(mod: IRModule, constants: Mapping[str, Any]) -> IRModule:
    """Bind parameters of ``main``, or of the only public function, to arrays.

    A loop-level function is then called by a graph that takes the other parameters, writes the same
    arrays, and returns nothing.
    Errors: RLX0330 for names and arrays that do not fit, for arrays that are written, and for a
    module with several functions and no graph ``main``.
    """
    public = [v.name_hint for v, f in mod.functions.items() if "global_symbol" in f.attrs]
    name = "main" if "main" in mod else public[0] if len(public) == 1 else ""
    func = mod[name] if name else None
    if isinstance(func, PrimFunc) and len(mod.functions) == 1:
        mod = _as_graph(name, func, constants)
    elif not isinstance(func, Function):
        refuse(
            "RLX0330",
            "constants are bound to parameters of a graph or of a single function, and this module "
            "is neither",
            help="pass the function itself, or name the graph 'main'",
        )
    return bind_params(normalize(mod), BindParamsOptions(name, constants))


def _as_graph(name: str, func: PrimFunc, constants: Mapping[str, Any]) -> IRModule:
    """Make a graph with the same parameters that calls a function."""
    for buffer in written_buffers(func):
        if buffer.name in constants:
            refuse(
                "RLX0330",
                f"{buffer.name!r} is written, and cannot be constant",
                help="bind only parameters that the function does not write",
                span=buffer.span or func.span,
            )
    attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol"}
    private = PrimFunc(
        func.params, func.body, func.ret_type, func.buffer_map, attrs, span=func.span
    )
    builder = BlockBuilder()
    kernel = builder.add_func(private, f"{name}_loops")
    buffers = func.buffer_map
    params = [
        Var(buffers[p].name if p in buffers else p.name_hint, info, span=p.span)
        for p, info in zip(func.params, func_struct_info(func).params or (), strict=True)
    ]
    nothing = find_op("relax.null_value")
    if nothing is None:
        raise InternalError("there is no operator null_value")
    with builder.function(name, params, {"global_symbol": name}, pure=False):
        builder.emit(Call(kernel, tuple(params)))
        builder.emit_func_output(builder.emit(nothing.call()))
    return builder.get()
