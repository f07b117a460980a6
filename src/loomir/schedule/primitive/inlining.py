"""Primitives that inline a block into its consumers or into its producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loomir.arith.fold import to_int
from loomir.ir.node import Node
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import pre_order, rebuild, rewrite
from loomir.loops.ranges import analyzer_for, domains
from loomir.schedule.blocks import complete_mistake
from loomir.schedule.moving import (
    cannot_cover,
    cannot_feed,
    inner_buffer,
    part_with,
    parts_of,
    plain_indices,
    refresh_regions,
    remove_block,
    users,
)
from loomir.schedule.nests import sizes_of
from loomir.schedule.refusal import Refusal, refuse
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Sblock, primitive
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Call, Let, PrimExpr, Var
from loomir.tir.stmt import Block, BlockRealize, BufferStore, SeqStmt, Stmt

__all__ = [
    "cannot_inline",
    "cannot_reverse_inline",
    "compute_inline",
    "is_whole",
    "part_in",
    "remove_from_scope",
    "reverse_compute_inline",
]


def _kind(ref: Ref, why: str) -> Refusal:
    return Refusal(
        "SCH0007",
        "block {!r} cannot be inlined: {}",
        (ref.block.name_hint, why),
        "inline a block that stores one value, of its own iterators, to each element",
        ref.stmt,
    )


def _cannot_be_value(ref: Ref) -> Refusal | None:
    """Say why a block is not one value for each point of its iterators."""
    block = ref.block
    if why := complete_mistake(block):
        return _kind(ref, why)
    store = block.body
    if not isinstance(store, BufferStore) or block.alloc_buffers or block.init is not None:
        return _kind(ref, "its body is no single store")
    if plain_indices(block, store.indices) is None:
        return _kind(ref, "what it writes is not indexed by its iterators")
    own: set[Node] = {it.var for it in block.iter_vars}
    inside: set[Node] = {r.loop.loop_var for r in ref.loops()}
    for name in free_definitions(store.value):
        if name in inside and name not in own:
            return _kind(ref, "its value uses a variable of an outer loop")
    if any(isinstance(n, Let) for n in pre_order(store.value)):
        return _kind(ref, "its value binds a variable")
    return cannot_cover(ref)


def is_whole(ref: Ref, indices: tuple[PrimExpr, ...], buffer: Buffer) -> bool:
    """Tell whether indices that are iterators run over all of a buffer."""
    analyzer = analyzer_for(sizes_of(ref))
    ranges = domains(ref.block)
    for index, extent in zip(indices, buffer.shape):
        if isinstance(index, Var):
            dom = ranges[index]
            full = dom.extent is not None and analyzer.can_prove_equal(dom.extent, extent)
            if not full or not analyzer.can_prove_equal(dom.min, 0):
                return False
        elif not analyzer.can_prove_equal(extent, 1):
            return False
    return True


def cannot_inline(ref: Ref) -> Refusal | None:
    """Say why a block cannot be computed where its result is taken."""
    buffer = inner_buffer(ref)
    if isinstance(buffer, Refusal):
        return buffer
    if why := _cannot_be_value(ref):
        return why
    store = ref.block.body
    assert isinstance(store, BufferStore)
    if not is_whole(ref, store.indices, buffer):
        return _kind(ref, f"it does not write all of {buffer.name!r}")
    writers, readers, other = users(ref.scope, buffer)
    if other or len(writers) > 1:
        return _kind(ref, other or f"other blocks write {buffer.name!r} too")
    for reader in readers:
        for node in pre_order(reader.block):
            if (
                isinstance(node, BufferLoad)
                and node.buffer is buffer
                and any(i.dtype.lanes != 1 for i in node.indices)
            ):
                return _kind(ref, "vectors of what it writes are read")
            if isinstance(node, Call) and any(a is buffer.data for a in node.args):
                return _kind(ref, "its pointer is used")
    last = max((part_in(ref, r) for r in readers), default=0)
    return cannot_feed(ref, ref.scope, part_in(ref, ref), last)


def part_in(ref: Ref, inner: Ref) -> int:
    """Return the number of the part of a block's scope in which another one stands."""
    return part_with(parts_of(ref.scope), ref.scope, inner)


def remove_from_scope(scope: Ref, leaf: Ref, buffer: Buffer) -> BlockRealize:
    """Return the scope without a block and the buffer that it writes."""
    assert leaf.stmt is not None
    old = scope.block
    body = remove_block(old.body, leaf.stmt)
    kept = tuple(b for b in old.alloc_buffers if b is not buffer)
    fields: dict[str, object] = {
        "body": SeqStmt(()) if body is None else body,
        "alloc_buffers": kept,
    }
    return rebuild(scope.realize, {"block": rebuild(old, fields)})


@primitive
def compute_inline(context: Context, block: Sblock) -> None:
    """Inline a block into its consumers, and remove it.

    for i in range(8): B[i] = A[i] + 1
    for i in range(8): C[i] = B[i] * 2
    -->
    for i in range(8): C[i] = (A[i] + 1) * 2

    Errors: SCH0006 where its operands change in between, SCH0007 for a block that is not a value
    for each element of an intermediate result.
    """
    if why := cannot_inline(block):
        refuse(why)
    store = block.block.body
    assert isinstance(store, BufferStore)
    buffer, scope = store.buffer, block.scope

    def value(load: BufferLoad) -> PrimExpr:
        if load.buffer is not buffer:
            return load
        given = {
            own: to_int(index, own.dtype)
            for own, index in zip(store.indices, load.indices)
            if isinstance(own, Var)
        }
        for it in block.block.iter_vars:
            if it.var not in given and it.dom is not None:
                given[it.var] = it.dom.min
        return substitute(store.value, given)

    _replace_scope(scope, remove_from_scope(scope, block, buffer), {BufferLoad: value})


def _replace_scope(
    scope: Ref, realize: BlockRealize, table: dict[type, Callable[[Any], Node]]
) -> None:
    """Rewrite the blocks of a scope, and declare anew what those that change read and write."""
    untouched = {id(n) for n in pre_order(realize.block.body) if isinstance(n, Block)}

    def redeclare(block: Block) -> Block:
        return block if id(block) in untouched else refresh_regions(block)

    body = rewrite(realize.block.body, {**table, Block: redeclare})
    made = rebuild(realize, {"block": rebuild(realize.block, {"body": body})})
    scope.home.replace(scope, made)


def cannot_reverse_inline(ref: Ref) -> Refusal | None:
    """Say why a block cannot be computed where what it takes is made."""
    if why := _cannot_be_value(ref):
        return why
    found = _producer(ref)
    if isinstance(found, Refusal):
        return found
    producer, buffer = found
    store, made = ref.block.body, producer.block.body
    assert isinstance(store, BufferStore)
    if why := complete_mistake(producer.block):
        return _kind(ref, f"block {producer.block.name_hint!r}, which it takes from: {why}")
    if not isinstance(made, BufferStore) or producer.block.alloc_buffers:
        return _kind(ref, f"block {producer.block.name_hint!r} is no single store")
    if why := cannot_cover(producer):
        return why
    if plain_indices(producer.block, made.indices) is None or not is_whole(
        producer, made.indices, buffer
    ):
        return _kind(ref, f"block {producer.block.name_hint!r} does not write all of its buffer")
    first, last = part_in(ref, producer), part_in(ref, ref)
    for number, (_, nest) in enumerate(parts_of(ref.scope)):
        for access in nest.accesses:
            before = number < last or (number == last and not access.is_write)
            if access.buffer.data is store.buffer.data and before and first <= number:
                return _kind(ref, f"{store.buffer.name!r} is used before it")
    _, _, other = users(ref.scope, store.buffer)
    if other:
        return _kind(ref, other)
    return (
        cannot_feed(ref, ref.scope, first, last, buffer)
        if first < last
        else _kind(ref, "it is in the nest of what it takes")
    )


def _producer(ref: Ref) -> tuple[Ref, Buffer] | Refusal:
    """Find the one producer whose result only this block consumes, at its own iterators."""
    found: list[tuple[Ref, Buffer]] = []
    for buffer in ref.scope.block.alloc_buffers:
        writers, readers, other = users(ref.scope, buffer)
        if any(r is ref for r in readers) and len(readers) == 1 and len(writers) == 1 and not other:
            loads = [
                n for n in pre_order(ref.block) if isinstance(n, BufferLoad) and n.buffer is buffer
            ]
            plain = loads and plain_indices(ref.block, loads[0].indices)
            same = all(
                all(a is b for a, b in zip(load.indices, loads[0].indices)) for load in loads
            )
            if plain is not None and same and is_whole(ref, loads[0].indices, buffer):
                found.append((writers[0], buffer))
    if len(found) != 1:
        return _kind(ref, "it does not take the whole result of one block, each element once")
    return found[0]


@primitive
def reverse_compute_inline(context: Context, block: Sblock) -> None:
    """Inline a block into its producer, and remove it.

    for i in range(8): B[i] = A[i] + 1
    for i in range(8): C[i] = B[i] * 2
    -->
    for i in range(8): C[i] = (A[i] + 1) * 2

    Unlike ``compute_inline`` of the first block, this keeps the first block's loops.

    Errors: SCH0006 where its operands change in between, SCH0007 for a block that does not take the
    result of one other block, each element once.
    """
    if why := cannot_reverse_inline(block):
        refuse(why)
    found = _producer(block)
    assert not isinstance(found, Refusal)
    producer, buffer = found
    store, made, scope = block.block.body, producer.block.body, block.scope
    assert isinstance(store, BufferStore)
    assert isinstance(made, BufferStore)
    load = next(n for n in pre_order(store) if isinstance(n, BufferLoad) and n.buffer is buffer)
    given: dict[Var, PrimExpr] = {
        it.var: it.dom.min for it in block.block.iter_vars if it.dom is not None
    }
    for own, index in zip(load.indices, made.indices):
        if isinstance(own, Var):
            given[own] = to_int(index, own.dtype)
    value = rewrite(store.value, {BufferLoad: lambda n: made.value if n.buffer is buffer else n})
    new_store: Stmt = substitute(rebuild(store, {"value": value}), given)
    old = producer.block
    new_block = refresh_regions(rebuild(old, {"body": new_store}))
    realize = remove_from_scope(scope, block, buffer)
    body = rewrite(realize.block.body, {Block: lambda b: new_block if b is old else b})
    changed = rebuild(realize, {"block": rebuild(realize.block, {"body": body})})
    scope.home.replace(scope, changed)
