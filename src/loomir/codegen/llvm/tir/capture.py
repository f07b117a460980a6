"""Find the variables that statements capture from the enclosing function, to outline them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.text import Function, Param
from loomir.codegen.llvm.assembler.types import I32, PTR
from loomir.codegen.llvm.assembler.values import Value
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.codegen.llvm.tir.memory import memory_type
from loomir.ir.visit import of_classes, pre_order
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Let, Var
from loomir.tir.stmt import Allocate, BufferStore, DeclBuffer, For, LetStmt, Stmt

__all__ = ["Captures", "capture", "define_inner"]

_BINDERS: Final = (Allocate, For, Let, LetStmt)


class Captures(NamedTuple):
    """Outer variables and shifted buffers, in order of first use, and the values of both."""

    names: list[Var]
    views: list[Buffer]
    values: list[Value]


def capture(frame: FunctionFrame, body: Iterable[Stmt]) -> Captures:
    """Find what statements use of the function around them."""
    names: dict[Var, None] = {}
    own: set[Var] = set()
    views: dict[Buffer, None] = {}

    def use(buffer: Buffer) -> None:
        names[buffer.data] = None
        if buffer in frame.views:
            views[buffer] = None

    for stmt in body:
        for part in of_classes(stmt, Var, BufferLoad, BufferStore, DeclBuffer, *_BINDERS):
            if isinstance(part, Var):
                names[part] = None
            elif isinstance(part, For):
                own.add(part.loop_var)
            elif isinstance(part, Allocate):
                own.add(part.buffer_var)
            elif isinstance(part, (Let, LetStmt)):
                own.add(part.var)
            elif not isinstance(part, DeclBuffer):
                use(part.buffer)
            else:
                names[part.buffer.data] = None
                if part.buffer.elem_offset is not None:
                    names.update(
                        (e, None) for e in pre_order(part.buffer.elem_offset) if isinstance(e, Var)
                    )
    # A name that ``body`` binds itself may be bound outside, too: copies of an expression share
    # their variables.
    known = [n for n in names if n in frame.env and n not in own]
    values = [frame.env[n] for n in known] + [frame.offsets[v] for v in views]
    return Captures(known, list(views), values)


def define_inner(
    frame: FunctionFrame,
    symbol: str,
    captured: Captures,
    extra: Sequence[Param],
    attributes: Mapping[str, str | None] | None = None,
) -> tuple[Function, FunctionFrame]:
    """Define a function with the context, the captured values and ``extra`` as parameters.

    Pointers that do not overlap outside are marked so here, too.
    """
    unit, names = frame.unit, captured.names
    plain = unit.allow_alias or any(n in frame.derived for n in names)
    params: list[Param] = [("context", PTR, "noalias")]
    for i, value in enumerate(captured.values):
        is_data = i < len(names) and names[i] in frame.distinct
        name = names[i].name_hint if i < len(names) else "offset"
        params.append((name, value.type, "noalias" if is_data and not plain else ""))
    params += extra
    made = unit.module.define(symbol, I32, params, linkage="internal", attributes=attributes)
    inner = FunctionFrame(unit, made, made.params[0], None)
    inner.ranges = dict(frame.ranges)
    inner.owned, inner.volatile = set(frame.owned), set(frame.volatile)
    inner.distinct, inner.derived = set(frame.distinct), set(frame.derived)
    inner.env = dict(zip(names, made.params[1:], strict=False))
    offsets = made.params[1 + len(names) :]
    for buffer, offset in zip(captured.views, offsets, strict=False):
        inner.offsets[buffer] = offset
        element = memory_type(buffer.dtype.element)
        inner.views[buffer] = inner.b.gep(element, inner.lookup(buffer.data), offset)
    return made, inner
