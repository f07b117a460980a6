"""Calls by name that have a meaning within the program: own functions, intrinsics of LLVM."""

from __future__ import annotations

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import pre_order, rewrite
from loomir.tir.expr import Call, PrimExpr
from loomir.tir.function import PrimFunc
from loomir.tir.llvm_intrinsics import LLVM, expand_llvm
from loomir.tir.op_calls import EXTERN, name_of
from loomir.tir.stmt import Evaluate
from loomir.tir.types import dtype_of_type

__all__ = ["link_calls"]


def link_calls(module: IRModule) -> IRModule:
    """Replace calls by name: of the module's functions by their symbol, of LLVM's intrinsics."""
    own: dict[str, tuple[GlobalVar, PrimFunc]] = {}
    for var, func in module.functions.items():
        if isinstance(func, PrimFunc) and "global_symbol" in func.attrs:
            own[str(func.attrs["global_symbol"])] = (var, func)

    def meant(call: Call) -> tuple[GlobalVar, PrimFunc] | None:
        return own.get(name_of(call)) if call.op in EXTERN else None

    def by_name(part: object) -> bool:
        return isinstance(part, Call) and (part.op in LLVM or meant(part) is not None)

    def link(call: Call) -> PrimExpr:
        if call.op in LLVM:
            return expand_llvm(call)
        found = meant(call)
        if found is None:
            return call
        return Call(call.dtype, found[0], call.args[1:], span=call.span)

    def run(stmt: Evaluate) -> Evaluate:
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
    for var, func in module.functions.items():
        if isinstance(func, PrimFunc) and any(map(by_name, pre_order(func.body))):
            functions[var] = rewrite(func, {Call: link, Evaluate: run})
    if all(functions[var] is func for var, func in module.functions.items()):
        return module
    return module.with_functions(functions)
