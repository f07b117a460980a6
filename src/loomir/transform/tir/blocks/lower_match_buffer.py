"""Replace buffers that blocks match to regions by accesses of the source buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

from loomir.arith.fold import add, imm64, int64
from loomir.ir.passes import register
from loomir.ir.visit import pre_order, rewrite
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion, Range
from loomir.tir.builtins.table import CHECK
from loomir.tir.expr import Call, Eq, IntImm, PrimExpr, StringImm, Var, cast
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    LetStmt,
    Stmt,
    seq,
)
from loomir.transform.tir.views import Layout, View, list_bound

__all__ = ["lower_match_buffer"]


@register(
    "tir.LowerMatchBuffer",
    requires={"opaque_blocks", "calls_lowered"},
    establishes={"no_match_buffers"},
)
def lower_match_buffer(func: PrimFunc) -> PrimFunc:
    """Redirect each access of an alias to the source buffer; bind the names in its shape.

    A name in the alias's shape, strides or offset that nothing else binds gets the source's value;
    any other expression must equal it, which is checked at run time.
    Errors: TIR0502 for a pointer to an alias used as a value.
    """
    layout = Layout(func)
    if not layout.matches:
        return func
    bound = list_bound(func)
    declared: dict[int, Buffer] = {}

    def access(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, Any]:
        while id(buffer) in layout.matches:
            source = layout.matches[id(buffer)].source
            missing = len(source.region) - len(indices)
            starts = [r.min for r in source.region]
            indices = (
                *starts[:missing],
                *(add(int64(s), int64(i)) for s, i in zip(starts[missing:], indices)),
            )
            buffer = source.buffer
        return declared.get(id(buffer), buffer), indices

    def load(e: BufferLoad) -> BufferLoad:
        buffer, indices = access(e.buffer, e.indices)
        return e if buffer is e.buffer else BufferLoad(buffer, indices, span=e.span)

    def store(s: BufferStore) -> BufferStore:
        buffer, indices = access(s.buffer, s.indices)
        return s if buffer is s.buffer else BufferStore(buffer, s.value, indices, span=s.span)

    def cover(r: BufferRegion) -> BufferRegion:
        if id(r.buffer) not in layout.matches:
            return r
        buffer, starts = access(r.buffer, tuple(part.min for part in r.region))
        extents: list[PrimExpr | None] = [imm64(1)] * (len(starts) - len(r.region))
        extents += [part.extent for part in r.region]
        region = tuple(Range(start, extent) for start, extent in zip(starts, extents))
        return BufferRegion(buffer, region, span=r.span)

    for part in pre_order(func.body):
        if isinstance(part, DeclBuffer):
            made = _rebase(part.buffer, layout)
            if made is not part.buffer:
                declared[id(part.buffer)] = made
        elif isinstance(part, Var) and part.dtype.is_handle:
            alias = layout.by_data.get(id(part))
            if alias is not None and id(alias) in layout.matches:
                raise CompileError(
                    Diagnostic(
                        "TIR0502",
                        f"the data of match_buffer {alias.name!r} is used as a value",
                        help="use its source's data",
                    )
                )

    def declare(s: DeclBuffer) -> DeclBuffer:
        buffer = declared.get(id(s.buffer))
        return s if buffer is None else DeclBuffer(buffer, s.body, span=s.span)

    def drop(block: Block) -> Block:
        if not block.match_buffers:
            return block
        body = _bind(block, layout, bound)
        return Block(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            body,
            block.init,
            block.alloc_buffers,
            (),
            block.annotations,
            span=block.span,
        )

    return rewrite(
        func,
        {
            BufferLoad: load,
            BufferStore: store,
            BufferRegion: cover,
            DeclBuffer: declare,
            Block: drop,
        },
    )


def _rebase(buffer: Buffer, layout: Layout) -> Buffer:
    """Declare a buffer on the source's data instead of the alias's."""
    alias = layout.by_data.get(id(buffer.data))
    if alias is None or id(alias) not in layout.matches:
        return buffer
    view = layout.view(alias)
    own = imm64(0) if buffer.elem_offset is None else int64(buffer.elem_offset)
    return Buffer(
        view.data,
        buffer.dtype,
        buffer.shape,
        buffer.axis_separators,
        buffer.strides,
        add(view.offset, own),
        buffer.name,
        buffer.data_alignment,
        buffer.offset_factor,
        buffer.buffer_type,
        span=buffer.span,
    )


class _Field(NamedTuple):
    """A field that an alias declares, its value in the region, and the fault if they differ."""

    wanted: PrimExpr
    found: PrimExpr
    row: str
    what: str


def _bind(block: Block, layout: Layout, bound: set[int]) -> Stmt:
    """Bind or check the shapes, strides and offsets of the aliases, around the body."""
    steps: list[tuple[MatchBufferRegion, Var | None, _Field]] = []
    for match in block.match_buffers:
        steps += [(match, None, f) for f in _list_dropped(match)]
        fields = _fields(match, layout.view(match.buffer))
        for field in fields:  # names first, then expressions of them
            if isinstance(field.wanted, Var) and id(field.wanted) not in bound:
                bound.add(id(field.wanted))
                steps.append((match, field.wanted, field))
        steps += [(match, None, f) for f in fields]
    body = block.body
    for match, var, field in reversed(steps):
        if var is not None:
            body = LetStmt(var, cast(field.found, var.dtype), body, span=match.span)
        elif not _is_same(field.wanted, field.found):
            body = seq((_check(match, field), body))
    return body


def _check(match: MatchBufferRegion, field: _Field) -> Stmt:
    wanted, found = int64(field.wanted), int64(field.found)
    words = [StringImm(word) for word in (field.row, match.buffer.name, field.what)]
    values = (found,) if field.row == "match_axis" else (wanted, found)
    condition = Eq(wanted, found)
    return Evaluate(
        Call(condition.dtype, CHECK, (condition, *words, *values), span=match.span), span=match.span
    )


def _list_dropped(match: MatchBufferRegion) -> list[_Field]:
    """List the extents of the axes that an alias drops."""
    region = match.source.region
    found: list[_Field] = []
    for r in region[: len(region) - len(match.buffer.shape)]:
        if r.extent is not None:
            found.append(_Field(imm64(1), r.extent, "match_axis", ""))
    return found


def _fields(match: MatchBufferRegion, view: View) -> list[_Field]:
    buffer, region = match.buffer, match.source.region
    rows: list[_Field] = []
    kept = region[len(region) - len(buffer.shape) :]
    for axis, (extent, r) in enumerate(zip(buffer.shape, kept)):
        found = imm64(1) if r.extent is None else r.extent
        rows.append(_Field(extent, found, "match", f"the extent of axis {axis}"))
    for axis, (stride, actual) in enumerate(zip(buffer.strides, view.strides)):
        rows.append(_Field(stride, actual, "match", f"the stride of axis {axis}"))
    if buffer.elem_offset is not None and not isinstance(buffer.elem_offset, IntImm):
        rows.append(_Field(buffer.elem_offset, view.offset, "match", "the offset"))
    return rows


def _is_same(wanted: PrimExpr, found: PrimExpr) -> bool:
    if isinstance(wanted, IntImm) and isinstance(found, IntImm):
        return wanted.value == found.value
    return wanted is found
