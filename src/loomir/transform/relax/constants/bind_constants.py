"""Bind constant arguments of a program: of a graph, or of a single PrimFunc."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loomir.ir.module import IRModule
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import pre_order
from loomir.relax.expr import Call, Function, Var
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.normal.derive import func_struct_info
from loomir.relax.normal.normalize import normalize
from loomir.relax.operator.definition import find_op
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import VOID
from loomir.tir.analysis.written_buffers import written_buffers
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Var as TirVar
from loomir.tir.function import PrimFunc
from loomir.tir.rules import refuse
from loomir.tir.stmt import DeclBuffer, Stmt
from loomir.tir.types import dtype_of_type
from loomir.transform.relax.constants.bind_params import BindParamsOptions, bind_params

__all__ = ["bind_constants", "list_strided_parameters"]


def list_strided_parameters(mod: IRModule) -> dict[str, tuple[str, ...]]:
    """List the parameters that declare strides of a program that is a single PrimFunc.

    With constants bound, a graph calls it, and graphs take arrays in row-major order: whoever calls
    the graph copies arrays of these parameters.
    """
    (var, func), *others = mod.functions.items()
    if others or not isinstance(func, PrimFunc):
        return {}
    names = tuple(b.name for b in func.buffer_map.values() if b.strides)
    return {var.name_hint: names} if names else {}


def bind_constants(mod: IRModule, constants: Mapping[str, Any]) -> IRModule:
    """Bind parameters of ``main``, or of the only public function, to arrays.

    A loop-level function is then called by a graph that takes the other parameters, writes the same
    arrays, and returns nothing. Its buffers are row-major then, also those that declare strides.
    Errors: RLX0330 for names and arrays that do not fit, for arrays that are written, for loops
    that return a value or use declared strides as numbers, and for a module with several functions
    and no graph ``main``.
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
    if dtype_of_type(func.ret_type) is not VOID:
        refuse(
            "RLX0330",
            f"{name!r} returns a value, and takes no constants",
            help="store the value in an array that is a parameter",
            span=func.span,
        )
    attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol"}
    buffers, body = _make_row_major(func)
    private = PrimFunc(func.params, body, func.ret_type, buffers, attrs, span=func.span)
    builder = BlockBuilder()
    kernel = builder.add_func(private, f"{name}_loops")
    params = [
        Var(buffers[p].name if p in buffers else p.name_hint, info, span=p.span)
        for p, info in zip(func.params, func_struct_info(private).params or (), strict=True)
    ]
    nothing = find_op("relax.null_value")
    if nothing is None:
        raise InternalError("there is no operator null_value")
    with builder.function(name, params, {"global_symbol": name}, pure=False):
        builder.emit(Call(kernel, tuple(params)))
        builder.emit_func_output(builder.emit(nothing.call()))
    return builder.get()


def _make_row_major(func: PrimFunc) -> tuple[Mapping[TirVar, Buffer], Stmt]:
    """Return the buffers of the parameters, without strides, and the body for them."""
    strided = [buffer for buffer in func.buffer_map.values() if buffer.strides]
    if not strided:
        return func.buffer_map, func.body
    made = {
        # The pointer is another one, so that a use of the old one is seen.
        b: replace(b, data=replace(b.data), strides=())
        for b in strided
    }
    body = substitute(func.body, made)
    left: set[int] = set()
    for node in pre_order(body):
        left.add(id(node.buffer.data if isinstance(node, DeclBuffer) else node))
    given = {id(param) for param in func.params}
    for buffer in func.buffer_map.values():
        given.update(id(node) for extent in buffer.shape for node in free_definitions(extent))
    for buffer in strided:
        strides = [node for stride in buffer.strides for node in free_definitions(stride)]
        for name in (buffer.data, *strides):
            if isinstance(name, TirVar) and id(name) in left - given:
                what = "its pointer" if name is buffer.data else f"its stride {name.name_hint!r}"
                refuse(
                    "RLX0330",
                    f"{buffer.name!r} declares strides, and the loops use {what} by itself",
                    help="bind no constants to this function, or declare the array without strides",
                    span=buffer.span or func.span,
                )
    buffers = {param: made.get(buffer, buffer) for param, buffer in func.buffer_map.items()}
    return buffers, body
