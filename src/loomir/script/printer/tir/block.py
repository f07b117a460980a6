"""Print blocks."""

from __future__ import annotations

from loomir.ir.visit import Step, nodes_in, pre_order
from loomir.script.printer.doc import (
    AssignDoc,
    ExprDoc,
    ExprStmtDoc,
    ListDoc,
    ScopeDoc,
    TupleDoc,
)
from loomir.script.printer.docsifier import Docsifier, stmt_handler
from loomir.script.printer.tir.buffer import bind_buffer, list_allocation_arguments, numbers_of
from loomir.script.printer.tir.expr import condition, domain
from loomir.script.printer.values import T, dict_doc, text
from loomir.tir.buffer import Buffer, BufferRegion, IterVar, IterVarType, MatchBufferRegion
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.stmt import TRUE, Block, BlockRealize

__all__ = ["emit_allocations"]

_AXES = {
    IterVarType.DATA_PAR: ("spatial", "S"),
    IterVarType.COMM_REDUCE: ("reduce", "R"),
    IterVarType.ORDERED: ("scan", ""),
    IterVarType.OPAQUE: ("opaque", ""),
}


@stmt_handler("tir", BlockRealize)
def _realize(d: Docsifier, node: BlockRealize, tail: bool) -> Step[None]:
    if _has_form(node.block):
        yield _scope(d, node.block, node.values, node.predicate)
    else:
        yield d.fallback_stmt(node)


@stmt_handler("tir", Block)
def _block(d: Docsifier, node: Block, tail: bool) -> Step[None]:
    """Write a block without its realization: its iterators have no values."""
    if _has_form(node):
        yield _scope(d, node, None, TRUE)
    else:
        yield d.fallback_stmt(node)


def _has_form(block: Block) -> bool:
    return all(
        it.iter_type in _AXES and it.dom is not None and not it.thread_tag for it in block.iter_vars
    )


def _scope(
    d: Docsifier, block: Block, values: tuple[PrimExpr, ...] | None, predicate: PrimExpr
) -> Step[None]:
    with d.frame("block") as frame:
        # The predicate is evaluated outside of the iterators' scope.
        where = yield condition(d, predicate)
        yield _axes(d, block.iter_vars, values)
        if not (isinstance(predicate, IntImm) and predicate.value == 1):
            d.emit(ExprStmtDoc(T.attr("where").call(where)))
        early = _mentions_own(d, block)
        if early:
            yield _buffers(d, block)
        yield _regions(d, "reads", block.reads)
        yield _regions(d, "writes", block.writes)
        if block.annotations:
            table = yield dict_doc(d, block.annotations)
            d.emit(ExprStmtDoc(T.attr("sblock_attr").call(table)))
        if not early:
            yield _buffers(d, block)
        if block.init is not None:
            init = yield d.body(block.init, "init")
            d.emit(ScopeDoc(T.attr("init").call(), init))
        yield d.stmt(block.body, True)
    d.emit(ScopeDoc(T.attr("sblock").call(text(block.name_hint)), frame.statements))


def _mentions_own(d: Docsifier, block: Block) -> bool:
    """Tell whether the block's heading mentions what its own buffers bring, so must follow them."""
    own: set[int] = set()
    for buffer in (*block.alloc_buffers, *(match.buffer for match in block.match_buffers)):
        own |= {id(buffer), id(buffer.data)}
        for number in numbers_of(buffer):
            fresh = (p for p in pre_order(number) if isinstance(p, Var) and d.find_known(p) is None)
            own |= {id(part) for part in fresh}
    heads = (*block.reads, *block.writes, *nodes_in(block.annotations))
    return any(
        id(part) in own or id(getattr(part, "buffer", None)) in own
        for head in heads
        for part in pre_order(head)
    )


# -- iterators -----------------------------------------------------------------------------------


def _axes(
    d: Docsifier, iter_vars: tuple[IterVar, ...], values: tuple[PrimExpr, ...] | None
) -> Step[None]:
    at = 0
    while at < len(iter_vars):
        run = at
        while (
            values is not None and run < len(iter_vars) and _spans(d, iter_vars[run], values[run])
        ):
            run += 1
        if values is not None and run - at > 1:
            yield _remap(d, iter_vars[at:run], values[at:run])
            at = run
        else:
            yield _axis(d, iter_vars[at], None if values is None else values[at])
            at += 1


def _spans(d: Docsifier, it: IterVar, value: PrimExpr) -> bool:
    """Tell whether an iterator runs over what the loop of its value does, from 0."""
    loop = d.loops.get(id(value))
    dom = it.dom
    if loop is None or dom is None or dom.extent is None or not _AXES[it.iter_type][1]:
        return False
    if not (_is_zero(loop.min) and _is_zero(dom.min)) or dom.min.dtype is not loop.min.dtype:
        return False
    a, b = dom.extent, loop.extent
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value and a.dtype is b.dtype
    # Other extents are compared by identity of variables only: expressions may be large.
    return isinstance(a, Var) and a is b


def _is_zero(expr: PrimExpr) -> bool:
    return isinstance(expr, IntImm) and expr.value == 0


def _remap(
    d: Docsifier, iter_vars: tuple[IterVar, ...], values: tuple[PrimExpr, ...]
) -> Step[None]:
    kinds = "".join(_AXES[it.iter_type][1] for it in iter_vars)
    docs: list[ExprDoc] = []
    for value in values:
        docs.append((yield d.expr(value)))
    names = tuple(d.define(it.var, it.var.name_hint) for it in iter_vars)
    call = T.attr("axis").attr("remap").call(text(kinds), ListDoc(tuple(docs)))
    d.emit(AssignDoc(TupleDoc(names, bare=True), call))


def _axis(d: Docsifier, it: IterVar, value: PrimExpr | None) -> Step[None]:
    args: list[ExprDoc] = []
    if it.dom is not None:
        args.append((yield domain(d, it.dom)))
    if value is not None:
        args.append((yield d.expr(value)))
    name = d.define(it.var, it.var.name_hint)
    call = T.attr("axis").attr(_AXES[it.iter_type][0]).call(*args)
    d.emit(AssignDoc(name, call))


# -- regions and buffers -------------------------------------------------------------------------


def _regions(d: Docsifier, word: str, regions: tuple[BufferRegion, ...]) -> Step[None]:
    docs: list[ExprDoc] = []
    for region in regions:
        docs.append((yield d.expr(region)))
    d.emit(ExprStmtDoc(T.attr(word).call(*docs)))


def _buffers(d: Docsifier, block: Block) -> Step[None]:
    yield emit_allocations(d, block.alloc_buffers)
    for match in block.match_buffers:
        yield _match(d, match)


def emit_allocations(d: Docsifier, buffers: tuple[Buffer, ...]) -> Step[None]:
    """Emit ``B = T.alloc_buffer(…)`` for each buffer."""
    for buffer in buffers:
        args, keywords = yield list_allocation_arguments(d, buffer)
        name = bind_buffer(d, buffer, d.declare(buffer, buffer.name))
        d.emit(AssignDoc(name, T.attr("alloc_buffer").call(*args, **keywords)))


def _match(d: Docsifier, match: MatchBufferRegion) -> Step[None]:
    source = yield d.expr(match.source)
    args, keywords = yield list_allocation_arguments(d, match.buffer)
    name = bind_buffer(d, match.buffer, d.declare(match.buffer, match.buffer.name))
    d.emit(AssignDoc(name, T.attr("match_buffer").call(source, *args, **keywords)))


@stmt_handler("tir", MatchBufferRegion)
def _match_statement(d: Docsifier, node: MatchBufferRegion, tail: bool) -> Step[None]:
    yield _match(d, node)
