"""Resolve calls by name: of functions of the same module, and of LLVM's intrinsics."""

from __future__ import annotations

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import pre_order, rewrite
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir.builtins.calls import EXTERN, name_of
from loomir.tir.builtins.device import DEVICE, mistake_of_device
from loomir.tir.builtins.llvm_intrinsics import LLVM, expand_llvm, mistake_of_machine_intrinsic
from loomir.tir.expr import Call, PrimExpr
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Evaluate
from loomir.tir.types import dtype_of_type

__all__ = ["link_calls"]


def link_calls(module: IRModule) -> IRModule:
    """Replace calls by name: of the module's functions by their symbol, of LLVM's intrinsics.

    Errors: TIR0512 for instructions of GPUs, or of one machine.
    """
    own: dict[str, tuple[GlobalVar, PrimFunc]] = {}
    for var, func in module.functions.items():
        if isinstance(func, PrimFunc) and "global_symbol" in func.attrs:
            own[str(func.attrs["global_symbol"])] = (var, func)

    def find_callee(call: Call) -> tuple[GlobalVar, PrimFunc] | None:
        return own.get(name_of(call)) if call.op in EXTERN else None

    def is_by_name(call: Call) -> bool:
        return call.op in LLVM or find_callee(call) is not None

    def link(call: Call) -> PrimExpr:
        if call.op in LLVM:
            return expand_llvm(call)
        found = find_callee(call)
        if found is None:
            return call
        return Call(call.dtype, found[0], call.args[1:], span=call.span)

    def relink(stmt: Evaluate) -> Evaluate:
        # The value is dropped, so that its dtype does not matter.
        value = stmt.value
        if not isinstance(value, Call) or not isinstance(value.op, GlobalVar):
            return stmt
        func = module.functions.get(value.op)
        if not isinstance(func, PrimFunc) or dtype_of_type(func.ret_type) is value.dtype:
            return stmt
        dtype = dtype_of_type(func.ret_type)
        return Evaluate(Call(dtype, value.op, value.args, span=value.span), span=stmt.span)

    functions = dict(module.functions)
    refused: list[Diagnostic] = []
    for var, func in module.functions.items():
        if not isinstance(func, PrimFunc):
            continue
        calls = [part for part in pre_order(func.body) if isinstance(part, Call)]
        refused += [mistake_of_device(call) for call in calls if call.op in DEVICE]
        refused += filter(None, map(mistake_of_machine_intrinsic, calls))
        if any(map(is_by_name, calls)):
            functions[var] = rewrite(func, {Call: link, Evaluate: relink})
    if refused:
        raise CompileError.of(tuple(refused))
    if all(functions[var] is func for var, func in module.functions.items()):
        return module
    return module.with_functions(functions)
