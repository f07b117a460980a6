"""Compile lowered TIR to a module of LLVM IR.

Each function of the program becomes a *body* (parameters: data pointers, bound names, scalars), a
*checked* function (arrays as ``DLTensor``) that other functions call, and, if it is public, an
*entry* for callers outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from loomir.codegen.llvm.assembler.split import split_module
from loomir.codegen.llvm.assembler.text import Callee, Function, Module, Param
from loomir.codegen.llvm.assembler.types import I32, PTR, function
from loomir.codegen.llvm.generated_module import GeneratedModule, Part, TimedKernel
from loomir.codegen.llvm.jit.engine import machine_of
from loomir.codegen.llvm.math.floats import register_type
from loomir.codegen.llvm.needs_loop_passes import is_shaped
from loomir.codegen.llvm.relax.program import generate_graph, list_called_kernels
from loomir.codegen.llvm.support.ir.faults import FAULTED, FEW, FINE, MANY, FaultTable
from loomir.codegen.llvm.timing import define_timed
from loomir.codegen.llvm.tir.entry.arguments import define_checked
from loomir.codegen.llvm.tir.entry.c_entry import define_c_entry
from loomir.codegen.llvm.tir.entry.tvm_ffi_entry import ONCE, define_entry
from loomir.codegen.llvm.tir.expressions import EXPRESSIONS
from loomir.codegen.llvm.tir.frame import FunctionFrame, LinkedFunction, Unit
from loomir.codegen.llvm.tir.outline import measure
from loomir.codegen.llvm.tir.parallel import STACK
from loomir.codegen.llvm.tir.polling import long_loops
from loomir.codegen.llvm.tir.stack import define_room
from loomir.codegen.llvm.tir.statements import STATEMENTS
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import by_class, trampoline
from loomir.support.diagnostics import InternalError, with_article
from loomir.support.dtype import VOID
from loomir.target import Target
from loomir.target.triples import system_name
from loomir.tir.builtins.calls import CALL_PURE_EXTERN, OUTSIDE
from loomir.tir.expr import Call
from loomir.tir.faults import fault
from loomir.tir.function import PrimFunc
from loomir.tir.signature import Signature
from loomir.tir.stmt import For
from loomir.tir.types import dtype_of_type

__all__ = ["Options", "generate"]

_ENTRY: Final = "__tvm_ffi_"
_C_ENTRY: Final = "loomir.c."
_DEEP_STACK: Final = 512
"""Bytes of stack for small allocations in recursive functions, which may be a thousand deep."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to generate code.

    ``allow_alias`` lets arrays overlap, for slower code; ``watched`` code runs the memory
    sanitizer; ``for_c`` makes entries for programs in C in place of those for Python. ``timed``
    code records when its public functions and the kernels of graphs ran.
    """

    allow_alias: bool = False
    watched: bool = False
    for_c: bool = False
    timed: bool = False


def generate(
    mod: IRModule,
    target: Target,
    options: Options = Options(),
    *,
    signatures: Mapping[str, Signature],
    program: IRModule | None = None,
) -> GeneratedModule:
    """Generate code for every PrimFunc of a lowered module, and for the graphs of ``program``.

    ``signatures`` are those of the functions before lowering, by name, with the variables that the
    lowered bodies use. ``program`` is legalised; its PrimFuncs are not lowered.
    Errors: InternalError for code that is not lowered.
    """
    machine = machine_of(target)
    attributes: dict[str, str | None] = {"nounwind": None}
    if target.vector_bits == 512:
        attributes["prefer-vector-width"] = "512"
    module = Module(
        "loomir",
        triple=machine.triple,
        data_layout=machine.data_layout,
        attributes=attributes,
        features=machine.abilities | target.extensions,
    )
    unit = Unit(
        module,
        FaultTable(module, MANY if options.watched else FEW),
        EXPRESSIONS,
        STATEMENTS,
        options.allow_alias,
        polls=not options.for_c and system_name(machine.triple) not in (None, "windows"),
    )
    functions = {
        var.name_hint: func for var, func in mod.functions.items() if isinstance(func, PrimFunc)
    }
    reach = _reach(functions)
    recursive = {name for name, found in reach.items() if name in found}
    # A function that calls code outside of the module may get its arrays back through it.
    open_ = {name for name, found in reach.items() if _OUT in found}
    called = frozenset[str]().union(*reach.values())
    named: set[str] = set() if program is None else list_called_kernels(program)
    parts: dict[str, tuple[Function, Function | None]] = {}
    for name, symbol in _symbols(functions).items():
        signature = _find_signature(signatures, name)
        parts[name] = _declare(
            unit,
            name,
            symbol,
            functions[name],
            signature,
            unit.allow_alias or name in open_,
            name in called,
            name in named and name not in called,
        )
    entries: dict[str, str] = {}
    ways: dict[str, Callee] = {name: body for name, (body, _) in parts.items()}
    clocked: list[TimedKernel] = []
    if options.timed:
        for name in sorted(
            named or {n for n, f in functions.items() if "global_symbol" in f.attrs}
        ):
            ways[name], row = define_timed(unit, len(clocked), unit.functions[name], parts[name][0])
            clocked.append(row)
    for name, (body, checked) in parts.items():
        linked = unit.functions[name]
        func = functions[name]
        if checked is not None:
            define_checked(unit, linked.signature, checked, ways[name])
        _define_body(unit, func, linked, body, name in recursive, name in open_)
        if "global_symbol" in func.attrs:
            if options.for_c:
                entries[name] = _C_ENTRY + linked.symbol
                define_c_entry(unit, entries[name], linked)
            else:
                entries[name] = _ENTRY + linked.symbol
                define_entry(unit, entries[name], linked)
    graph = None
    if program is not None:
        bodies = {name: ways[name] for name in sorted(named)}
        graph = generate_graph(unit, program, bodies)
    define_room(module)
    text = module.render()
    shaped = {name: is_shaped(func, target) for name, func in functions.items()}
    splits = graph is not None and not (options.watched or options.for_c or options.timed)
    return GeneratedModule(
        text,
        tuple(unit.faults.rows),
        MappingProxyType(entries),
        unit.needs_pool,
        unit.needs_callback,
        MappingProxyType(unit.externs),
        graph,
        tuple(clocked),
        all(shaped.values()),
        _parts(unit, shaped) if splits and len(text) >= _SPLIT else (),
    )


_SPLIT: Final = 1 << 17
"""Bytes of text from which a module is compiled in parts."""


def _parts(unit: Unit, shaped: Mapping[str, bool]) -> tuple[Part, ...]:
    """Split a module into several: one without kernels, and others with some kernels each.

    The split depends on the program only, so that equal programs compile to equal code.
    """
    sizes: dict[str, int] = dict.fromkeys(shaped, 0)
    names: dict[str, set[str]] = {name: set() for name in shaped}
    by_symbol = {unit.functions[name].symbol: name for name in shaped}
    for made in unit.module.functions:
        symbol, body, _ = made.name.partition(".body")
        if body and symbol in by_symbol:
            names[by_symbol[symbol]].add(made.name)
            sizes[by_symbol[symbol]] += made.lines
    groups: list[tuple[set[str], bool]] = []
    for is_one in (False, True):
        lines = _LINES
        for name in shaped:
            if shaped[name] is is_one:
                if lines >= _LINES:
                    groups.append((set(), is_one))
                    lines = 0
                groups[-1][0].update(names[name])
                lines += sizes[name]
    texts = split_module(unit.module, [functions for functions, _ in groups])
    if texts is None:
        return ()
    return tuple(map(Part, texts, [True, *[is_one for _, is_one in groups]]))


_LINES: Final = 2500
"""Lines of kernels in a part; when it has as many, the next kernel starts another one."""


def _find_signature(signatures: Mapping[str, Signature], name: str) -> Signature:
    found = signatures.get(name)
    if found is None:
        raise InternalError(f"no signature was given for function {name!r}")
    return found


# -- names -------------------------------------------------------------------------------------
def _symbols(functions: Mapping[str, PrimFunc]) -> dict[str, str]:
    """Choose a unique symbol of letters, digits and underscores for each function."""
    taken: set[str] = set()
    symbols: dict[str, str] = {}
    for name in sorted(functions, key=lambda n: (_plain(n) != n, n)):
        symbol, number = _plain(name), 1
        while symbol in taken:
            number += 1
            symbol = f"{_plain(name)}_{number}"
        taken.add(symbol)
        symbols[name] = symbol
    return {name: symbols[name] for name in functions}


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"


_OUT: Final = ""
"""The name for everything outside of the module."""


def _reach(functions: Mapping[str, PrimFunc]) -> dict[str, set[str]]:
    """List what each function may call, directly or indirectly."""
    calls: dict[str, set[str]] = {}
    for name, func in functions.items():
        calls[name] = set()
        for call in by_class(func.body).get(Call, ()):
            if isinstance(call.op, GlobalVar):
                calls[name].add(call.op.name_hint)
            elif call.op in OUTSIDE and call.op is not CALL_PURE_EXTERN:
                calls[name].add(_OUT)
    found: dict[str, set[str]] = {}
    for name in functions:
        seen: set[str] = set()
        stack = list(calls[name])
        while stack:
            callee = stack.pop()
            if callee not in seen:
                seen.add(callee)
                stack.extend(calls.get(callee, ()))
        found[name] = seen
    return found


# -- functions ---------------------------------------------------------------------------------
def _declare(
    unit: Unit,
    name: str,
    symbol: str,
    func: PrimFunc,
    signature: Signature,
    alias: bool,
    is_called: bool,
    is_kernel: bool,
) -> tuple[Function, Function | None]:
    """Declare a function's body and its checked entry, so that others can call them.

    The entry is None if neither loops nor callers from outside need it.
    """
    # Inlining loops into a graph gains nothing, and LLVM would optimise them again in each function
    # that they are inlined into: half of its time for a graph of ten operators.
    separate = is_kernel and For in by_class(func.body)
    distinct = "" if alias else "noalias"
    arrays: list[Param] = []
    scalars: list[Param] = []
    checked: list[Param] = [("context", PTR, "noalias")]
    for p in signature.parameters:
        if p.buffer is not None:
            arrays.append((p.buffer.data.name_hint, PTR, distinct))
            checked.append((p.name, PTR))
        else:
            scalars.append((p.name, register_type(p.dtype)))
            checked.append((p.name, register_type(p.dtype)))
    bound: list[Param] = [(b.var.name_hint, register_type(b.var.dtype)) for b in signature.bindings]
    result: Param = ("result", PTR, "noalias")
    params: list[Param] = [("context", PTR, "noalias"), *arrays, *bound, *scalars, result]
    body = unit.module.define(
        f"{symbol}.body",
        I32,
        params,
        linkage="internal",
        attributes={"noinline": None} if separate else {},
    )
    outer = None
    checked.append(result)
    way = Callee(f"{symbol}.checked", function(I32, [p[1] for p in checked]))
    if is_called or "global_symbol" in func.attrs:
        way = outer = unit.module.define(
            way.name,
            I32,
            checked,
            linkage="internal",
            # Other functions may call it often; a caller from outside calls it once for each run.
            attributes={} if is_called else ONCE,
        )
    returns = dtype_of_type(func.ret_type)
    unit.functions[name] = LinkedFunction(name, symbol, signature, returns, way)
    return body, outer


def _define_body(
    unit: Unit,
    func: PrimFunc,
    linked: LinkedFunction,
    body: Function,
    is_recursive: bool,
    is_open: bool,
) -> None:
    signature, returns = linked.signature, linked.returns
    frame = FunctionFrame(unit, body, body.params[0], body.params[-1])
    frame.stack_left = _DEEP_STACK if is_recursive else STACK
    names = [p.buffer.data for p in signature.parameters if p.buffer is not None]
    if not is_open:
        frame.distinct.update(names)
    names += [b.var for b in signature.bindings]
    names += [p.var for p in signature.parameters if p.buffer is None]
    frame.env.update(zip(names, body.params[1:-1], strict=True))
    unit.sizes = measure(func.body)
    unit.long_loops = (
        long_loops(func.body, {b.var for b in signature.bindings}) if unit.polls else {}
    )
    trampoline(frame.run(func.body))
    unit.sizes, unit.long_loops = {}, {}
    if returns is not VOID:
        frame.stop(
            fault("missing_return", func.span, function=func.name, dtype=with_article(returns))
        )
        frame.dead()
    frame.close(FAULTED, FINE)
