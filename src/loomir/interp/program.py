"""Run a program by the definition of the language: loops, a graph, or both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from loomir.interp.relax.machine import Machine
from loomir.interp.relax.ops import operate
from loomir.interp.tir.calls import Interpreter
from loomir.interp.tir.missing_outputs import CompletedCall, OutputAllocator
from loomir.interp.values import Value
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.relax.expr import Function
from loomir.runtime.errors import RunKeyError, RunTypeError
from loomir.support.diagnostics import Diagnostic
from loomir.tir.function import PrimFunc

__all__ = ["interpret"]

Program: TypeAlias = IRModule | PrimFunc | Function


def interpret(
    program: Program,
    /,
    *args: object,
    allow_alias: bool = False,
    track: bool = False,
    **kwargs: object,
) -> Any:
    """Run a function of a program by the definition of the language.

    ``interpret(mod, "main", x, y)``; the name may be left out if there is only one function. The
    calling convention is that of compiled code. A loop-level function changes arrays in place, and
    returns the value of ``T.ret``; a graph returns its result: arrays, tuples, ``loomir.Shape``,
    NumPy scalars. ``track`` finds races and reads of uninitialised memory.

    Errors: RunError for the call and for what happens in it.
    """
    name, rest = _name(program, args)
    func: BaseFunc = program[name] if isinstance(program, IRModule) else program
    if not isinstance(func, Function):
        if isinstance(program, IRModule):
            program = loops_of(program)
        assert not isinstance(program, Function)
        if isinstance(func, PrimFunc) and len(rest) + len(kwargs) < len(func.params):
            allocator = OutputAllocator(func, program if isinstance(program, IRModule) else None)
            completed = allocator.complete(rest, kwargs)
            if isinstance(completed, CompletedCall):
                engine = Interpreter(program, allow_alias=allow_alias, track=track)
                engine.call(name, completed.args, {})
                return cast("Value", completed.result)
        return Interpreter(program, allow_alias=allow_alias, track=track).call(name, rest, kwargs)
    module = program if isinstance(program, IRModule) else IRModule({GlobalVar(name): func})
    if isinstance(program, IRModule) and "global_symbol" not in func.attrs:
        raise RunKeyError(
            Diagnostic(
                "RUN0121",
                f"{name!r} is private: only functions of its module can call it",
                span=func.span,
                help="give it the attribute global_symbol, or call a function that has one",
            )
        )
    machine = Machine(module, operate, track=track)
    return machine.call_from_python(machine.global_value(name), rest, kwargs)


def loops_of(program: IRModule) -> IRModule:
    """Return the loop-level part of a program; the program itself if it has no other part."""
    loops = {v: f for v, f in program.functions.items() if not isinstance(f, Function)}
    return program if len(loops) == len(program.functions) else program.with_functions(loops)


def _name(program: Program, args: Sequence[object]) -> tuple[str, Sequence[object]]:
    """Find the called function's name, and its arguments."""
    if isinstance(program, Function):  # its first argument may be a string
        return program.name, args
    if args and isinstance(args[0], str):
        if isinstance(program, PrimFunc) and args[0] != program.name:
            raise RunKeyError(
                Diagnostic(
                    "RUN0121",
                    f"the function is named {program.name!r}, not {args[0]!r}",
                    span=program.span,
                    help=f"leave the name out, or write {program.name!r}",
                )
            )
        return args[0], args[1:]
    if isinstance(program, PrimFunc):
        return program.name, args
    names = [
        v.name_hint
        for v, f in program.functions.items()
        if not isinstance(f, Function) or "global_symbol" in f.attrs
    ]
    graphs = [v.name_hint for v, f in program.functions.items() if isinstance(f, Function)]
    public = [name for name in graphs if name in names]
    if len(public) == 1:
        return public[0], args
    if len(names) == 1:
        return names[0], args
    raise RunTypeError(
        Diagnostic(
            "RUN0096",
            f"the module has {len(names)} functions, and none was named",
            notes=(f"they are {', '.join(names)}",) if names else (),
            help='name one, as in interpret(mod, "main", x)',
        )
    )
