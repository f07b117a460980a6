"""Emit closures: the code of functions that are values, and the variables that they capture."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Function
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, array
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.generated_module import FunctionInfo
from loomir.codegen.llvm.relax.boxes import box
from loomir.codegen.llvm.relax.frame import GraphFrame, Slot
from loomir.codegen.llvm.relax.invoke import RECURSION_LIMIT, builtin, is_near
from loomir.codegen.llvm.relax.unit import CODE, CapturedVar, GraphUnit, PendingFunction
from loomir.codegen.llvm.support.ir.faults import FAULTED
from loomir.codegen.llvm.support.ir.objects import place
from loomir.codegen.llvm.tir.stack import has_stack, no_stack
from loomir.ir.visit import Step, pre_order
from loomir.relax.expr import Function as GraphFunction
from loomir.relax.expr import Var
from loomir.relax.faults import recursion
from loomir.relax.node import StructInfo
from loomir.relax.normal.signature import func_struct_info
from loomir.relax.struct_info import FuncStructInfo
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.span import Span
from loomir.tir.expr import Var as ShapeVar

__all__ = ["PARAMS", "make_closure", "make_partial", "open_function"]

PARAMS = tuple(zip(("context", "self", "args", "count", "result"), CODE.fields, strict=True))


def open_function(graph: GraphUnit, symbol: str) -> Function:
    """Start a function on objects."""
    return graph.module.define(symbol, I32, list(PARAMS), linkage="internal")


def make_closure(frame: GraphFrame, func: GraphFunction, var: Var | None) -> Step[Slot]:
    """Return a function as a value; it may call itself through the variable that it is bound to."""
    graph = frame.graph
    captured = _list_captured(frame, func, var)
    name = var.name_hint if var is not None else func.name
    code = open_function(graph, graph.fresh(f"{frame.name}.{name}"))
    sizes = tuple((v, i) for i, v in enumerate(captured) if isinstance(v, ShapeVar))
    info = graph.info(FunctionInfo(func_struct_info(func), sizes, graph.names_of(func), name))
    graph.pending.append(PendingFunction(code, func, name, captured, var))
    if not captured:
        return frame.take_reference(graph.closure(code.name, code, info))
    values: list[Value] = []
    for item in captured:
        if isinstance(item, ShapeVar):
            values.append(box(frame, frame.lookup(item), item.dtype, func.span))
        else:
            values.append(frame.read_var(item))
    return frame.take_reference(_closure_of(frame, code, info, values, func.span))
    yield


def _closure_of(
    frame: GraphFrame, code: Callee, info: Value, values: Sequence[Value], span: Span | None
) -> Value:
    made = frame.new(at.CAPTURED + 8 * len(values), at.CLOSURE, span, "a function")
    frame.set_word(const(I64, len(values)), made, at.LENGTH)
    frame.set_word(code, made, at.CODE)
    frame.set_word(info, made, at.INFO)
    for i, value in enumerate(values):
        frame.retain(value)
        frame.set_word(value, made, at.CAPTURED + 8 * i)
    return made


def _list_captured(
    frame: GraphFrame, func: GraphFunction, itself: Var | None
) -> tuple[CapturedVar, ...]:
    """List the captured variables: every variable is bound once, so those bound outside that occur.

    A function refers to itself by its own value, not by a captured one.
    """
    found: dict[CapturedVar, None] = {}
    stack = [func]
    for part in pre_order(func):
        if isinstance(part, GraphFunction):
            stack.append(part)
        _note(frame, part, itself, found)
    for inner in stack:
        for param in inner.params:
            info = param.struct_info_annotation
            for part in pre_order(info) if info is not None else ():
                _note(frame, part, itself, found)
    return tuple(found)


def _note(
    frame: GraphFrame, part: object, itself: Var | None, found: dict[CapturedVar, None]
) -> None:
    if isinstance(part, ShapeVar):
        if part in frame.env:
            found[part] = None
    elif isinstance(part, Var) and part in frame.values and part is not itself:
        found[part] = None


# -- partial application -----------------------------------------------------------------------
def make_partial(
    frame: GraphFrame,
    function: Value,
    known: StructInfo,
    bound: Sequence[Value],
    span: Span | None,
) -> Value:
    """Return a function that calls another with additional, captured arguments."""
    if not isinstance(known, FuncStructInfo) or known.params is None:
        made = builtin(frame, "partial", [function, *bound], span)
        return frame.keep(frame.move(made))
    rest = len(known.params) - len(bound)
    if rest < 0:
        raise InternalError("R.make_closure gives a function more arguments than it takes")
    info = FuncStructInfo(known.params[:rest], known.ret, known.purity)
    code = _partial_code(frame.graph, rest, len(bound))
    described = frame.graph.info(FunctionInfo(info))
    return _closure_of(frame, code, described, [function, *bound], span)


def _partial_code(graph: GraphUnit, rest: int, bound: int) -> Callee:
    """Define the code that appends ``bound`` captured arguments to ``rest`` passed ones."""
    symbol = f"loomir.partial.{rest}.{bound}"
    found = graph.module.find(symbol)
    if found is not None:
        return found
    made = open_function(graph, symbol)
    b = Builder(made)
    context, itself, args, _, result = made.params
    near, fine, deep, none = (b.append(n) for n in ("near", "fine", "deep", "none"))
    faults = graph.unit.faults
    b.condbr(is_near(b, context), near, deep, meta=faults.rare())
    b.position_at_end(deep)
    faults.record(b, context, faults.add(recursion(None, "a function", RECURSION_LIMIT)), ())
    b.ret(FAULTED)
    b.position_at_end(near)
    b.condbr(has_stack(b, context, faults), fine, none, meta=faults.rare())
    b.position_at_end(none)
    faults.record(b, context, faults.add(no_stack("a function")), ())
    b.ret(FAULTED)
    b.position_at_end(fine)
    listed = b.alloca(array(I64, max(1, rest + bound)), hint="args")
    for i in range(rest + bound):
        if i < rest:
            value = b.load(PTR, b.gep(PTR, args, const(I64, i)))
        else:
            value = b.load(PTR, place(b, itself, at.CAPTURED + 8 * (1 + i - rest)))
        b.store(value, b.gep(PTR, listed, const(I64, i)))
    function = b.load(PTR, place(b, itself, at.CAPTURED))
    code = b.load(PTR, place(b, function, at.CODE))
    count = const(I64, rest + bound)
    passed = [context, function, listed, count, result]
    b.ret(b.call_pointer(code, CODE, passed, looked=True))
    return made
