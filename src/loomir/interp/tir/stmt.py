"""Semantics of statements: a table of node classes, each of which adds instructions.

A function becomes one flat list of instructions with jumps, so nesting has no limit. Parallel loops
run in order here, which is one of the orders that they allow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.interp.exact_memory import store as store_exactly
from loomir.interp.machine import (
    FINISHED,
    RESULT,
    Code,
    CompiledFunction,
    Environment,
)
from loomir.interp.memory import Tracker, View, finder
from loomir.interp.scope import Scope, refuse
from loomir.interp.tir.block import write_block, write_block_realize
from loomir.interp.tir.expr import compile_expr, compile_outside, find_view
from loomir.interp.tir.storage import write_allocate, write_buffer_realize, write_decl_buffer
from loomir.interp.tir.writer import Label, Writer
from loomir.interp.values import Value, encoder
from loomir.runtime.fault import Fault
from loomir.support.diagnostics import with_article
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.buffer import IterVar
from loomir.tir.builtins.calls import OUTSIDE
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP, RET
from loomir.tir.expr import Call, IntImm, PrimExpr, StringImm, Var
from loomir.tir.faults import fault
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from loomir.tir.types import PrimType

__all__ = ["compile_body"]


def compile_body(func: PrimFunc, scope: Scope) -> CompiledFunction:
    """Compile a function; ``scope`` has its parameters.

    Errors: TIR0401 for a name that is not bound where it is used.
    """
    writer = Writer(scope, _WRITERS)
    writer.write(func.body)
    missing: Fault | None = None
    if isinstance(func.ret_type, PrimType):
        missing = fault(
            "missing_return", func.span, function=func.name, dtype=with_article(func.ret_type.dtype)
        )

    def end(env: Environment) -> int:
        if missing is not None:
            raise missing.error()
        env[RESULT] = None
        return FINISHED

    writer.add((), lambda after: end)
    return CompiledFunction(func.name, writer.finish(), scope.size)


# -- plain statements --------------------------------------------------------------------------
def _seq(node: SeqStmt, w: Writer) -> None:
    w.schedule(*node.seq)


def _let(node: LetStmt, w: Writer) -> None:
    value = w.expr(node.value)
    w.set(w.scope.bind(node.var), value)
    w.schedule(node.body, w.unbind(node.var))


def _evaluate(node: Evaluate, w: Writer) -> None:
    value = node.value
    if isinstance(value, Call) and value.op is RET:

        def leave(env: Environment, v: Value) -> int:
            env[RESULT] = v
            return FINISHED

        w.add((w.expr(value.args[0]),), lambda after: leave)
    elif isinstance(value, Call) and value.op in (BREAK_LOOP, CONTINUE_LOOP):
        if not w.loops:
            refuse("break or continue is outside of a loop", "put it into a loop", value.span)
        w.jump(w.loops[-1][0 if value.op is BREAK_LOOP else 1])
    else:
        code = _compile_unused(value, w)

        def ignore(after: int) -> Callable[..., int]:
            def go_on(env: Environment, v: Value) -> int:
                return after

            return go_on

        w.add((code,), ignore)


def _compile_unused(value: PrimExpr, w: Writer) -> Code:
    """Compile an expression whose value is not used."""
    if isinstance(value, Call) and value.op in OUTSIDE:
        parts = [w.expr(arg) for arg in value.args]
        return compile_outside(value, parts, w.scope, None)
    return w.expr(value)


def _if(node: IfThenElse, w: Writer) -> None:
    otherwise, end = Label(), Label()
    w.branch(w.expr(node.condition), otherwise)
    if node.else_case is None:
        w.schedule(node.then_case, w.place(otherwise))
        return
    w.schedule(
        node.then_case,
        lambda: w.jump(end),
        w.place(otherwise),
        node.else_case,
        w.place(end),
    )


def _assert(node: AssertStmt, w: Writer) -> None:
    message, span = node.message, node.span

    def fail(text: str) -> Exception:
        return fault("assertion", span, text=text).error()

    def with_text(after: int) -> Callable[..., int]:
        def check(env: Environment, holds: bool) -> int:
            if not holds:
                raise fail(message.value if isinstance(message, StringImm) else "")
            return after

        return check

    def with_number(after: int) -> Callable[..., int]:
        def check(env: Environment, text: int) -> int:
            raise fail(str(text))

        return check

    if isinstance(message, StringImm):
        w.add((w.expr(node.condition),), with_text)
        w.schedule(node.body)
        return
    failed, end = Label(), Label()
    w.branch(w.expr(node.condition), failed)
    number = w.expr(message)
    w.schedule(
        node.body,
        lambda: w.jump(end),
        w.place(failed),
        lambda: w.add((number,), with_number),
        w.place(end),
    )


def _store(node: BufferStore, w: Writer) -> None:
    view_in, span = find_view(node.buffer, w.scope, node.span), node.span
    operands = [w.expr(node.value), *w.exprs(node.indices)]
    dtype, many = node.buffer.dtype, bool(node.indices) and node.indices[-1].dtype.is_vector
    if w.scope.numbers.exact:
        rank = len(node.indices)
        w.add(operands, lambda after: store_exactly(view_in, span, dtype, rank, after, lanes=many))
        return
    if many:
        w.add(operands, lambda after: _store_lanes(view_in, span, dtype, after))
        return
    encode, find = encoder(dtype), finder(len(node.indices))

    def make_store(after: int) -> Callable[..., int]:
        def store(env: Environment, value: Value, i: int) -> int:
            view = view_in(env)
            if view.direct:
                low, high, stride = view.bounds
                if low <= i < high:
                    view.cells[view.start + i * stride] = encode(value) if encode else value
                    return after
            view.write((i,), value, span)
            return after

        return store

    def two(after: int) -> Callable[..., int]:
        def store(env: Environment, value: Value, i: int, j: int) -> int:
            view = view_in(env)
            if view.direct:
                low, high, stride, floor, top, step = view.bounds
                if low <= i < high and floor <= j < top:
                    at = view.start + i * stride + j * step
                    view.cells[at] = encode(value) if encode else value
                    return after
            view.write((i, j), value, span)
            return after

        return store

    def any_rank(after: int) -> Callable[..., int]:
        def store(env: Environment, value: Value, *indices: int) -> int:
            view = view_in(env)
            if view.direct:
                at = find(view, *indices)
                if at >= 0:
                    view.cells[at] = encode(value) if encode else value
                    return after
            view.write(indices, value, span)
            return after

        return store

    w.add(operands, {1: make_store, 2: two}.get(len(node.indices), any_rank))


def _store_lanes(
    view_in: Callable[[Environment], View], span: Span | None, dtype: DataType, after: int
) -> Callable[..., int]:
    encode = encoder(dtype)

    def store(env: Environment, value: Value, *indices: Any) -> int:
        view = view_in(env)
        places = view.places(indices) if view.direct else None
        if places is not None:
            cells = view.cells
            for at, part in zip(places, value, strict=True):
                cells[at] = encode(part) if encode else part
            return after
        width = view.dtype.lanes
        for last in indices[-1]:
            view.locate((*indices[:-1], last), span)
        for lane, last in enumerate(indices[-1]):
            part = value[lane * width : (lane + 1) * width] if width > 1 else value[lane]
            view.write((*indices[:-1], last), part, span)
        return after

    return store


# -- loops -------------------------------------------------------------------------------------
_UNORDERED: Final = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)


def _for(node: For, w: Writer) -> None:
    bounds = w.exprs((node.min, node.extent))
    _loop(node.loop_var, bounds, node.kind in _UNORDERED, node.body, node.span, w)


def _loop(
    var: Var, bounds: list[Code], unordered: bool, body: Stmt, span: Span | None, w: Writer
) -> None:
    """Write a loop over ``[min, min + extent)``."""
    slot, end = w.scope.bind(var), w.scope.fresh()
    leave, again, done = Label(), Label(), Label()
    trackers = w.scope.trackers if unordered else None
    too_long = fault("loop", span, variable=var.name_hint, dtype=var.dtype)

    def start(after: int) -> Callable[..., int]:
        def begin(env: Environment, least: int, extent: int) -> int:
            if extent <= 0:
                return done.number
            if least + extent - 1 > var.dtype.max_value or extent >= 1 << 63:
                raise too_long.error((least, extent))
            env[slot] = least
            env[end] = least + extent
            if trackers is not None:
                trackers.append(Tracker(least))
            return after

        return begin

    def advance(after: int) -> Callable[..., int]:
        first = begun[0]

        def follow(env: Environment) -> int:
            index = env[slot] + 1
            if index >= env[end]:
                return after
            env[slot] = index
            if trackers is not None:
                trackers[-1].iteration = index
            return first

        return follow

    def close(after: int) -> Callable[..., int]:
        def stop(env: Environment) -> int:
            if trackers is not None:
                trackers.pop()
            return after

        return stop

    begun: list[int] = []
    top = Label()
    w.add(bounds, start)
    w.loops.append((leave, again))
    w.schedule(
        w.place(top),
        body,
        w.place(again),
        lambda: begun.append(top.number),
        lambda: w.add((), advance),
        w.place(leave),
        lambda: w.add((), close) if trackers is not None else None,
        w.place(done),
        w.loops.pop,
        w.unbind(var),
    )


def _while(node: While, w: Writer) -> None:
    top, leave = Label(), Label()
    w.place(top)()
    w.branch(w.expr(node.condition), leave)
    w.loops.append((leave, top))
    w.schedule(node.body, lambda: w.jump(top), w.place(leave), w.loops.pop)


def _attr(node: AttrStmt, w: Writer) -> None:
    if node.attr_key not in ("thread_extent", "virtual_thread"):
        w.schedule(node.body)
        return
    var = node.node.var if isinstance(node.node, IterVar) else node.node
    if not isinstance(var, Var):
        refuse(
            f"the node of attribute {node.attr_key!r} is not a variable",
            "give the variable that counts the threads",
            node.span,
        )
    zero = compile_expr(IntImm(0, var.dtype), w.scope)
    _loop(var, [zero, w.expr(node.value)], True, node.body, node.span, w)


_WRITERS: Final[dict[type, Callable[[Any, Writer], None]]] = {
    SeqStmt: _seq,
    LetStmt: _let,
    Evaluate: _evaluate,
    IfThenElse: _if,
    AssertStmt: _assert,
    BufferStore: _store,
    For: _for,
    While: _while,
    AttrStmt: _attr,
    Allocate: write_allocate,
    DeclBuffer: write_decl_buffer,
    BufferRealize: write_buffer_realize,
    BlockRealize: write_block_realize,
    Block: write_block,
}
