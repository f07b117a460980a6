"""Generate all graph functions of a module, and the entry through which the runtime calls them.

Two functions are exported: ``loomir_enter`` calls any function on objects, and ``loomir_function``
returns the public functions of the module by number.
"""

from __future__ import annotations

from collections.abc import Mapping

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, array, struct
from loomir.codegen.llvm.assembler.values import Value, aggregate, const
from loomir.codegen.llvm.generated_module import ENTER, FUNCTION, FunctionInfo, Graph
from loomir.codegen.llvm.known_functions import call_signature
from loomir.codegen.llvm.relax.bindings import PIECE, take
from loomir.codegen.llvm.relax.boxes import unbox
from loomir.codegen.llvm.relax.checks import CheckedValue, Phase, match
from loomir.codegen.llvm.relax.closures import open_function
from loomir.codegen.llvm.relax.frame import GraphFrame, Location, LocationKind, Slot
from loomir.codegen.llvm.relax.invoke import define_packed_code
from loomir.codegen.llvm.relax.kernel_adapters import adapt_kernel, layout_of
from loomir.codegen.llvm.relax.kernels import define_adapter
from loomir.codegen.llvm.relax.leaves import facts
from loomir.codegen.llvm.relax.liveness import find_dying, local_tensors
from loomir.codegen.llvm.relax.unit import (
    CODE,
    CallableFunction,
    GraphUnit,
    PendingFunction,
)
from loomir.codegen.llvm.support.ir.faults import FAULTED, FINE, open_context
from loomir.codegen.llvm.support.ir.objects import place
from loomir.codegen.llvm.tir.entry.tvm_ffi_entry import ONCE
from loomir.codegen.llvm.tir.frame import Unit
from loomir.codegen.llvm.tir.stack import has_stack, no_stack
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import Step, by_class, pre_order, trampoline
from loomir.relax import expr as relax
from loomir.relax import faults
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.signature import func_struct_info
from loomir.relax.struct_info import OBJECT
from loomir.runtime.graph import object_layout as at
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.function import PrimFunc

__all__ = ["generate_graph", "list_called_kernels"]


def list_called_kernels(mod: IRModule) -> set[str]:
    """List the loop-level functions that graphs of the module refer to."""
    kernels = {v.name_hint for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
    symbols = {
        str(f.attrs["global_symbol"]): v.name_hint
        for v, f in mod.functions.items()
        if isinstance(f, PrimFunc) and "global_symbol" in f.attrs
    }
    found: set[str] = set()
    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            for part in pre_order(func):
                if isinstance(part, GlobalVar):
                    found.add(part.name_hint)
                elif isinstance(part, relax.Call) and isinstance(part.op, GlobalVar):
                    found.add(part.op.name_hint)
                elif isinstance(part, relax.ExternFunc):
                    found.add(symbols.get(part.global_symbol, ""))
    return found & kernels


def generate_graph(unit: Unit, mod: IRModule, bodies: Mapping[str, Callee]) -> Graph:
    """Write all graph functions of a module.

    ``bodies`` are the declared bodies of the kernels that they call.
    """
    prim_funcs = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
    symbols = {
        str(f.attrs["global_symbol"]): name
        for name, f in prim_funcs.items()
        if "global_symbol" in f.attrs and name in bodies
    }
    functions = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, relax.Function)}
    graph = GraphUnit(unit, bodies, prim_funcs, symbols)
    for name in bodies:
        graph.signatures[name] = func_struct_info(prim_funcs[name])
    graph.adapt = lambda name: _adapter(graph, name)
    numbers: dict[str, int] = {}
    for name, func in functions.items():
        code = open_function(graph, graph.fresh(name))
        info = func_struct_info(func)
        graph.signatures[name] = info
        numbers[name] = len(graph.infos)
        described = graph.info(
            FunctionInfo(info, (), graph.names_of(func), name, tuple(p.span for p in func.params))
        )
        value = graph.closure(("function", name), code, described)
        graph.functions[name] = CallableFunction(code, value, len(func.params))
        graph.pending.append(PendingFunction(code, func, name, (), None, numbers[name]))
    while graph.pending:
        trampoline(_define(graph, graph.pending.pop()))
    entries = tuple(n for n, f in functions.items() if "global_symbol" in f.attrs)
    define_packed_code(graph)
    _define_enter(graph)
    _define_function(graph, [graph.functions[name].value for name in entries])
    return Graph(
        entries,
        numbers,
        graph.entries,
        tuple(graph.infos),
        tuple(graph.checks),
        graph.data,
        unit.faults.values,
        tuple([call_signature(info) for info in graph.infos]),
        graph.packed_names,
    )


# -- kernels -----------------------------------------------------------------------------------
def _adapter(graph: GraphUnit, name: str) -> CallableFunction:
    """Wrap a kernel in a function on objects."""
    linked = graph.unit.functions[name]
    code = open_function(graph, f"{linked.symbol}.object")
    info = graph.signatures[name]
    names = tuple(p.name for p in linked.signature.parameters)
    described = graph.info(FunctionInfo(info, (), names, name))
    value = graph.closure(("function", name), code, described)
    define_adapter(graph, linked, adapt_kernel(graph, name), code)
    return CallableFunction(code, value, len(names))


# -- functions ---------------------------------------------------------------------------------
def _define(graph: GraphUnit, what: PendingFunction) -> Step[None]:
    """Write one function."""
    func = what.func
    frame = GraphFrame(graph, what.made, what.name, in_pieces=_length(func) > PIECE)
    frame.local = local_tensors(func.body, lambda name: graph.find_linked(name) is not None)
    _open_captured(frame, what)
    places: list[tuple[Value, StructInfo, CheckedValue]] = []
    for index, param in enumerate(func.params):
        value = frame.b.load(PTR, frame.b.gep(PTR, frame.args, const(I64, index)))
        frame.values[param] = Location(LocationKind.ARGUMENT, index)
        info = param.struct_info_annotation or OBJECT
        places.append((value, info, CheckedValue(faults.argument(param.name_hint), param.span)))
        laid = layout_of(info)
        if laid is not None:
            # The arguments are checked against it below, before anything uses it.
            frame.laid[param] = laid
    bound: set[tuple[str, int]] = set()
    first = len(graph.unit.faults.rows)
    for phase in (Phase.BIND, Phase.COMPARE):
        for value, info, where in places:
            yield match(frame, value, info, where, OBJECT, phase, bound)
    graph.entries[what.number] = range(first, len(graph.unit.faults.rows))
    slot: Slot = yield take(frame, func.body, find_dying(func.body))
    wanted = func.ret_struct_info
    if wanted is not None:
        span = getattr(wanted, "span", None) or func.span
        where = CheckedValue(faults.result_of(what.name), span)
        yield match(frame, frame.read(slot), wanted, where, _facts_of_result(func.body))
    assert frame.result is not None
    frame.b.store(frame.move(slot), frame.result)
    frame.finish()


def _length(func: relax.Function) -> int:
    """Count the bindings of a function; a long one is split into pieces."""
    found = by_class(func.body)
    return len(found.get(relax.VarBinding, ())) + len(found.get(relax.MatchCast, ()))


def _facts_of_result(body: RelaxExpr) -> StructInfo:
    """Return the structural information of a body's result."""
    while isinstance(body, relax.SeqExpr):
        body = body.body
    return facts(body)


def _open_captured(frame: GraphFrame, what: PendingFunction) -> None:
    """Read captured values; the closure, which lives during the call, still owns them."""
    if what.itself is not None:
        frame.values[what.itself] = Location(LocationKind.ITSELF, 0)
    for i, item in enumerate(what.captured):
        if isinstance(item, ShapeVar):
            value = frame.word(frame.itself, at.CAPTURED + 8 * i, PTR)
            frame.bind_size(item, unbox(frame, value, item.dtype))
        else:
            frame.values[item] = Location(LocationKind.CAPTURED, i)


# -- the entry ---------------------------------------------------------------------------------
def _define_enter(graph: GraphUnit) -> None:
    """Define the entry: ``i32 (function, args, count, result, report, token)``.

    A fault is written to the report: ``{ i32 site, i32 status, i64 root, i64 values… }``.
    """
    params = [
        ("function", PTR),
        ("args", PTR),
        ("count", I64),
        ("result", PTR),
        ("report", PTR),
        ("token", I64),
    ]
    made = graph.module.define(ENTER, I32, params, attributes=ONCE)
    b = Builder(made)
    function, args, count, result, report, token = made.params
    t = graph.context
    context = b.alloca(t, hint="context")
    root = open_context(b, context)
    b.store(token, b.field(t, context, len(t.fields) - 1))
    code = b.load(PTR, place(b, function, at.CODE))
    fine, bad = b.append("fine"), b.append("bad")
    call, none = b.append("call"), b.append("none")
    b.condbr(has_stack(b, context, graph.unit.faults), call, none)
    b.position_at_end(none)
    graph.unit.faults.record(b, context, graph.unit.faults.add(no_stack("a graph")), ())
    b.br(bad)
    b.position_at_end(call)
    passed = [context, function, args, count, result]
    ended = b.call_pointer(code, CODE, passed, looked=True)
    b.condbr(b.icmp("eq", ended, FINE), fine, bad)
    b.position_at_end(bad)
    failed = b.phi(I32)
    failed.add(ended, call)
    failed.add(FAULTED, none)
    values = graph.unit.faults.values
    shape = struct([I32, I32, I64, *[I64] * values])
    b.store(b.load(I32, b.field(t, context, 0)), b.field(shape, report, 0))
    b.store(failed, b.field(shape, report, 1))
    b.store(root, b.field(shape, report, 2))
    for i in range(values):
        b.store(b.load(I64, b.field(t, context, 2 + i)), b.field(shape, report, 3 + i))
    b.ret(failed)
    b.position_at_end(fine)
    b.ret(FINE)


def _define_function(graph: GraphUnit, values: list[Value]) -> None:
    """Define ``ptr loomir_function(i64 number)``."""
    made = graph.module.define(FUNCTION, PTR, [("number", I64)], attributes=ONCE)
    b = Builder(made)
    t = array(PTR, max(1, len(values)))
    listed = values or [graph.null()]
    table = graph.module.define_global(
        ".functions", aggregate(t, listed), constant=True, linkage="private", align=8
    )
    b.ret(b.load(PTR, b.gep(PTR, table, made.params[0])))
