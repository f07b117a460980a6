"""From a program to something that runs: check, lower, generate, and wrap for Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from loomir.codegen.llvm.graphs import graph_functions
from loomir.codegen.llvm.module import Generated, Options, generate
from loomir.codegen.llvm.native import Native
from loomir.interp.arguments import explain
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.visit import pre_order
from loomir.relax import expr as relax
from loomir.relax.verify import verify
from loomir.runtime.executable import Executable
from loomir.runtime.externs import find_extern
from loomir.runtime.function import Function
from loomir.runtime.graph_function import GraphFunction
from loomir.runtime.object_cache import ObjectCache
from loomir.runtime.parameter import Parameter
from loomir.support.compiling import set_compiler
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.target import Target
from loomir.tir.expr import Call
from loomir.tir.function import PrimFunc
from loomir.tir.linked import link_calls
from loomir.tir.op_calls import EXTERN, name_of, unknown_extern
from loomir.tir.signature import Signature, signature_of
from loomir.transform.pipelines import LowerOptions, lower, lower_relax

__all__ = ["Program", "as_module", "compile"]

Program: TypeAlias = IRModule | PrimFunc | relax.Function


def as_module(program: Program) -> IRModule:
    """Give the program as a module; a function alone becomes a module of one.

    Errors: TIR0005 for anything else.
    """
    if isinstance(program, relax.Function):
        graph = program
        if "global_symbol" not in program.attrs:
            attrs = {**program.attrs, "global_symbol": program.name}
            graph = relax.Function(
                program.params,
                program.body,
                program.ret_struct_info,
                program.is_pure,
                attrs,
                span=program.span,
            )
        return IRModule({GlobalVar(graph.name): graph}, span=program.span)
    if isinstance(program, PrimFunc):
        named = program
        if "global_symbol" not in program.attrs:
            attrs = {**program.attrs, "global_symbol": program.name}
            named = PrimFunc(
                program.params,
                program.body,
                program.ret_type,
                program.buffer_map,
                attrs,
                span=program.span,
            )
        functions: dict[GlobalVar, BaseFunc] = {GlobalVar(named.name): named}
        return IRModule(functions, span=program.span)
    if isinstance(program, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        return program
    raise CompileError(
        Diagnostic(
            "TIR0005",
            f"a {type(program).__name__} is not a program",
            help="give a function decorated with @T.prim_func or @R.function, or a module with "
            "@I.ir_module",
        )
    )


def compile(  # noqa: A001 - the name that users expect
    program: Program,
    target: str | Target = "native",
    *,
    checked: bool = False,
    check_bounds: bool = False,
    allow_alias: bool = False,
    opt_level: int = 2,
    cache: bool = True,
) -> Executable:
    """Compile a function or a module to native code.

    ``check_bounds`` makes an index out of bounds raise; ``checked`` also a read of what nothing
    wrote, and two iterations of a parallel loop in each other's way. ``allow_alias`` lets array
    arguments overlap. The object code is kept on disk unless ``cache`` is false.
    Errors: every mistake that ``loomir.verify`` finds, in one ``CompileError``.
    """
    module = link_calls(as_module(program))
    mistakes = verify(module)
    if mistakes:
        raise CompileError.of(mistakes)
    graph = None
    loops = module
    if any(isinstance(f, relax.Function) for f in module.functions.values()):
        graph = link_calls(lower_relax(module))
        loops = graph.with_functions(
            {v: f for v, f in graph.functions.items() if isinstance(f, PrimFunc)}
        )
    originals = {
        var.name_hint: func for var, func in loops.functions.items() if isinstance(func, PrimFunc)
    }
    signatures = {name: signature_of(func, loops) for name, func in originals.items()}
    machine = Target(target)
    if machine.triple == Target("native").triple:
        _check_externs(loops)
    lowered = lower(loops, LowerOptions(checked=checked or check_bounds, watched=checked))
    options = Options(allow_alias=allow_alias, watched=checked)
    generated = generate(
        lowered,
        machine,
        options,
        signatures=signatures | _added(lowered, signatures),
        program=graph,
    )
    store = ObjectCache(SETTINGS.cache_dir) if cache and SETTINGS.cache_dir is not None else None
    native = Native(generated, machine, level=opt_level, cache=store)
    functions: dict[str, Function | GraphFunction] = dict(graph_functions(generated, native))
    for name in generated.entries:
        functions[name] = _function(
            name, loops, originals[name], signatures[name], generated, native, allow_alias
        )
    return Executable(
        functions, script=module.script, llvm_ir=native.llvm_ir, assembly=native.assembly
    )


def _check_externs(module: IRModule) -> None:
    """Find every C function that is called, before it is too late to say where."""
    missing = [
        unknown_extern(name_of(part), part.span)
        for func in module.functions.values()
        if isinstance(func, PrimFunc)
        for part in pre_order(func.body)
        if isinstance(part, Call) and part.op in EXTERN and not find_extern(name_of(part))
    ]
    if missing:
        raise CompileError.of(missing)


def _added(lowered: IRModule, known: Mapping[str, Signature]) -> dict[str, Signature]:
    """Give the signatures of the functions that lowering made."""
    return {
        var.name_hint: signature_of(func, lowered)
        for var, func in lowered.functions.items()
        if isinstance(func, PrimFunc) and var.name_hint not in known
    }


def _function(
    name: str,
    module: IRModule,
    func: PrimFunc,
    signature: Signature,
    generated: Generated,
    native: Native,
    allow_alias: bool,
) -> Function:
    parameters = [
        Parameter(p.name, p.dtype, p.buffer is not None, p.written, p.span)
        for p in signature.parameters
    ]
    return Function(
        name,
        parameters,
        _address(native, name),
        generated.faults,
        _explain(func, allow_alias, module),
        keep_alive=native,
        returns=signature.returns,
    )


def _address(native: Native, name: str) -> Callable[[], int]:
    return lambda: native.address(name)


def _explain(
    func: PrimFunc, allow_alias: bool, module: IRModule
) -> Callable[[tuple[object, ...]], None]:
    return lambda args: explain(func, args, allow_alias, module)


set_compiler(compile)
