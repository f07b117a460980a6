"""Pages of schedules and traces: the loop nest, and the primitives that produced it."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Final, NamedTuple

from loomir.display.page import MAX_ROWS, badge, code, cut, escape, fold, note, page, plain
from loomir.display.tables import shape_of
from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.visit import children
from loomir.schedule.schedule import Schedule
from loomir.schedule.trace import Trace
from loomir.support.printing import to_text
from loomir.tir.buffer import Buffer, IterVarType
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Allocate,
    BlockRealize,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
)

__all__ = ["schedule_page", "trace_page"]

_KINDS: Final = {
    ForKind.SERIAL: ("", "var(--loomir-line)"),
    ForKind.PARALLEL: ("parallel", "var(--loomir-green)"),
    ForKind.VECTORIZED: ("vectorized", "var(--loomir-blue)"),
    ForKind.UNROLLED: ("unrolled", "var(--loomir-violet)"),
    ForKind.THREAD_BINDING: ("bound to threads", "var(--loomir-orange)"),
}
_MAX_DEPTH: Final = 40
_WIDTH: Final = 160


class _Step(NamedTuple):
    """A statement that is still to be rendered, below so many loops and blocks."""

    depth: int
    stmt: Stmt
    lead: str = ""


def schedule_page(schedule: Schedule) -> str:
    """Render a schedule: the nests of its functions, and the applied primitives."""
    functions = _functions(schedule.mod)
    parts: list[str] = []
    for name, func in functions:
        if len(functions) > 1:
            mark = badge("worked on") if name == schedule.func_working_on else ""
            parts.append(f'<div class="loomir-title"><b>{escape(name)}</b> {mark}</div>')
        parts.append(_nest(func.body))
    done = len(schedule.trace.insts)
    name = functions[0][0] if len(functions) == 1 else f"{len(functions)} functions"
    count = badge(f"{done} primitive{'s' * (done != 1)} applied")
    trace = code(str(schedule.trace), "print(schedule.trace)")
    parts += [fold("trace", trace), fold("program", _program(schedule.mod))]
    return page(f"<b>schedule</b> of <b>{escape(name)}</b> {count}", *parts)


def trace_page(trace: Trace) -> str:
    """Render a trace as the Python that applies it."""
    done = len(trace.insts)
    title = f"<b>trace</b> {badge(f'{done} primitive' + 's' * (done != 1))}"
    return page(title, code(str(trace), "print(trace)"))


def _program(module: IRModule) -> str:
    return code(to_text(module, constants="stored"), "print(schedule.mod.script())")


def _functions(module: IRModule) -> list[tuple[str, PrimFunc]]:
    return [(v.name_hint, f) for v, f in module.functions.items() if isinstance(f, PrimFunc)]


def _nest(body: Stmt) -> str:
    """Render the loops and blocks of a function, one row each."""
    rows: list[str] = []
    for depth, row in _rows(body):
        if len(rows) == MAX_ROWS:
            rows.append(note("and more: print(schedule.mod.script()) writes them all"))
            break
        guides = '<span class="loomir-guide"></span>' * min(depth, _MAX_DEPTH)
        rows.append(f'<div class="loomir-row">{guides}{row}</div>')
    return f'<div class="loomir-scroll">{"".join(rows)}</div>'


def _rows(body: Stmt) -> Iterator[tuple[int, str]]:
    stack = [_Step(0, body)]
    while stack:
        depth, stmt, lead = stack.pop()
        if isinstance(stmt, SeqStmt):
            stack += [_Step(depth, s, lead) for s in reversed(stmt.seq)]
        elif isinstance(stmt, For):
            yield depth, _loop(stmt)
            stack.append(_Step(depth + 1, stmt.body))
        elif isinstance(stmt, BlockRealize):
            block = stmt.block
            inner = depth
            if block.iter_vars or block.name_hint != "root":
                yield depth, _block(stmt)
                inner += 1
            yield from ((inner, _memory(b)) for b in block.alloc_buffers)
            stack.append(_Step(inner, block.body))
            if block.init is not None:
                stack.append(_Step(inner, block.init, "init"))
        elif isinstance(stmt, IfThenElse):
            yield depth, f"<code>if {_expr(stmt.condition)}</code>"
            if stmt.else_case is not None:
                stack.append(_Step(depth + 1, stmt.else_case, "else"))
            stack.append(_Step(depth + 1, stmt.then_case))
        else:
            inside = [c for c in children(stmt) if isinstance(c, Stmt)]
            if isinstance(stmt, DeclBuffer):
                yield depth, _memory(stmt.buffer)
            elif isinstance(stmt, Allocate):
                name = escape(stmt.buffer_var.name_hint)
                yield depth, f"<code>{name}: {escape(stmt.dtype)}</code> {badge('memory')}"
            elif isinstance(stmt, While):
                yield depth, f"<code>while {_expr(stmt.condition)}</code>"
            else:
                yield depth, _leaf(stmt, lead) if not inside else f"<code>{_kind(stmt)}</code>"
            deeper = depth + isinstance(stmt, While)
            stack += [_Step(deeper, c) for c in reversed(inside)]


def _loop(loop: For) -> str:
    word, color = _KINDS[loop.kind]
    start = "" if isinstance(loop.min, IntImm) and loop.min.value == 0 else f"{_expr(loop.min)} + "
    thread = loop.thread_binding
    tag = escape(thread.thread_tag) if thread is not None else word
    return (
        f'<span class="loomir-loop" style="border-color:{color}">'
        f"<code><b>{escape(loop.loop_var.name_hint)}</b> {start}{_expr(loop.extent)}</code>"
        f"{badge(tag, color) if tag else ''}</span>"
    )


def _block(realize: BlockRealize) -> str:
    block = realize.block
    bound = "".join(
        f"<code>{escape(v.var.name_hint)} = {_expr(value)}</code>"
        + (f"{badge('reduced')} " if v.iter_type is IterVarType.COMM_REDUCE else "")
        for v, value in zip(block.iter_vars, realize.values, strict=True)
    )
    where = realize.predicate
    limit = "" if isinstance(where, IntImm) else f"<code>where {_expr(where)}</code>"
    marks = "".join(badge(key) for key in list(block.annotations)[:4])
    name = escape(block.name_hint)
    return f'<span class="loomir-block"><code><b>{name}</b></code>{bound}{limit}{marks}</span>'


def _memory(buffer: Buffer) -> str:
    shape = f"{buffer.name}: {shape_of(buffer)} {buffer.dtype}"
    scope = buffer.data.type_annotation
    place = getattr(scope, "storage_scope", "")
    where = f" in {place}" if place and place != "global" else ""
    return f"<code>{escape(shape + where)}</code>{badge('memory')}"


def _leaf(stmt: Stmt, lead: str) -> str:
    text = html.escape(cut(_read_first_line(stmt), _WIDTH))
    before = f"{badge(lead)} " if lead else ""
    return f'{before}<code class="loomir-quiet">{text}</code>'


def _kind(stmt: Stmt) -> str:
    return escape(type(stmt).__name__)


def _expr(value: PrimExpr) -> str:
    return escape(plain(_read_first_line(value)))


def _read_first_line(part: Node) -> str:
    return to_text(part).partition("\n")[0]
