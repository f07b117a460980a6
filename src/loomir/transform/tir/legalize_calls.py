"""Lower arrays that functions pass to each other to descriptors (``DLTensor``)."""

from __future__ import annotations

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir.array_argument import describe
from loomir.tir.buffer import Buffer
from loomir.tir.builtins.calls import PACKED
from loomir.tir.builtins.table import STACK_MAKE_ARRAY
from loomir.tir.expr import Call, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.transform.tir.views import Layout

__all__ = ["legalize_calls"]


def _array(buffer: Buffer, layout: Layout) -> PrimExpr:
    """Make the array descriptor of a buffer."""
    view = layout.view(buffer)
    dense = id(buffer) not in layout.matches and not buffer.strides
    return describe(buffer, view.data, () if dense else view.strides, view.offset)


@register("tir.LegalizeCalls", requires={"well_formed"}, establishes={"calls_lowered"})
def legalize_calls(mod: IRModule) -> IRModule:
    """Replace buffers that are passed to functions by array descriptors.

    Errors: TIR0501 if an array is expected and something else is passed.
    """
    callees = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
    functions = dict(mod.functions)
    for var, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            functions[var] = _legalize(func, callees)
    if all(functions[var] is func for var, func in mod.functions.items()):
        return mod
    return mod.with_functions(functions)


def _legalize(func: PrimFunc, callees: dict[str, PrimFunc]) -> PrimFunc:
    layouts: list[Layout] = []

    def lower(call: Call) -> Call:
        callee = callees.get(call.op.name_hint) if isinstance(call.op, GlobalVar) else None
        if callee is None and call.op not in PACKED:
            return call
        if not layouts:
            layouts.append(Layout(func))
        args = list(call.args)
        if callee is None:
            args = [_describe_array(arg, layouts[0]) for arg in args]
        else:
            for i, (param, arg) in enumerate(zip(callee.params, args)):
                if param in callee.buffer_map:
                    args[i] = _argument(call, callee.buffer_map[param], arg, layouts[0])
        if all(new is old for new, old in zip(args, call.args)):
            return call
        return Call(call.dtype, call.op, tuple(args), span=call.span)

    return rewrite(func, {Call: lower})


def _describe_array(arg: PrimExpr, layout: Layout) -> PrimExpr:
    """Make the descriptor of the buffer whose data is passed to a packed function."""
    buffer = layout.by_data.get(id(arg)) if isinstance(arg, Var) else None
    return arg if buffer is None else _array(buffer, layout)


def _argument(call: Call, wanted: Buffer, arg: PrimExpr, layout: Layout) -> PrimExpr:
    if isinstance(arg, Call) and arg.op is STACK_MAKE_ARRAY:
        return arg
    buffer = layout.by_data.get(id(arg)) if isinstance(arg, Var) else None
    if buffer is not None:
        return _array(buffer, layout)
    raise CompileError(
        Diagnostic(
            "TIR0501",
            f"the call passes no buffer for the array {wanted.name!r}",
            call.span,
            help="pass a buffer of this function, or its data",
        )
    )
