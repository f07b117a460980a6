"""The primitive that fuses an addition after a sum into the sum, as its initial value."""

from __future__ import annotations

from typing import NamedTuple

from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import pre_order, rebuild, rewrite
from loomir.schedule.blocks import (
    Update,
    cannot_start,
    complete_mistake,
    reduction_mistake,
    update_of,
)
from loomir.schedule.moving import (
    cannot_cover,
    cannot_feed,
    inner_buffer,
    parts_of,
    plain_indices,
    refresh_regions,
    users,
)
from loomir.schedule.primitive.inlining import is_whole, part_in, remove_from_scope
from loomir.schedule.refusal import Refusal, refuse
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Sblock, primitive
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Add, FloatImm, IntImm, PrimExpr
from loomir.tir.stmt import Block, BufferStore

__all__ = ["fuse_reduction_epilogue"]


class _Plan(NamedTuple):
    """The sum, and the epilogue's store and what it adds, in terms of the sum's iterators."""

    update: Update
    indices: tuple[PrimExpr, ...]
    start: PrimExpr


def _kind(ref: Ref, why: str) -> Refusal:
    return Refusal(
        "SCH0007",
        "block {!r}: {}",
        (ref.block.name_hint, why),
        "fuse a sum with the one block that reads it and adds something to each element",
        ref.stmt,
    )


def _plan(ref: Ref, after: Ref) -> _Plan | Refusal:
    """Say what a sum with its epilogue is, or why they cannot be one."""
    if ref.scope is ref or after.scope is not ref.scope:
        return Refusal(
            "SCH0004",
            "block {!r} is not in the scope of block {!r}",
            (after.block.name_hint, ref.block.name_hint),
            "choose blocks of one scope",
            after.stmt,
        )
    if why := reduction_mistake(ref.block):
        return _kind(ref, why)
    update = update_of(ref.block)
    assert update is not None
    start = update.init.value
    if update.operator is not Add or not isinstance(start, (IntImm, FloatImm)) or start.value:
        return _kind(ref, "it is no sum from 0")
    buffer = inner_buffer(ref)
    if isinstance(buffer, Refusal):
        return buffer
    if why := complete_mistake(after.block):
        return _kind(after, why)
    store = after.block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, Add):
        return _kind(after, "it does not add something")
    load, rest = store.value.a, store.value.b
    if not (isinstance(load, BufferLoad) and load.buffer is buffer):
        load, rest = rest, load
    if not (isinstance(load, BufferLoad) and load.buffer is buffer):
        return _kind(after, f"it does not add to {buffer.name!r}")
    if any(isinstance(n, BufferLoad) and n.buffer is buffer for n in pre_order(rest)):
        return _kind(after, f"it takes {buffer.name!r} twice")
    axes = plain_indices(after.block, load.indices)
    if axes is None or not is_whole(after, load.indices, buffer):
        return _kind(after, f"it does not take each element of {buffer.name!r}")
    inside = {r.loop.loop_var for r in after.loops()}
    if any(n in inside for n in free_definitions(after.block)):
        return _kind(after, "it uses a variable of an outer loop")
    writers, readers, other = users(ref.scope, buffer)
    if other or len(writers) != 1 or len(readers) != 1 or readers[0] is not after:
        return _kind(ref, other or "other blocks use its result too")
    if why := cannot_cover(ref) or cannot_cover(after):
        return why
    given = {v: update.store.indices[axis] for v, axis in axes.items()}
    for it in after.block.iter_vars:
        if it.var not in given and it.dom is not None:
            given[it.var] = it.dom.min
    return _Plan(
        update, tuple(substitute(i, given) for i in store.indices), substitute(rest, given)
    )


def _cannot_come_first(ref: Ref, after: Ref) -> Refusal | None:
    """Say why what an epilogue adds, and where it stores, is not the same at the sum."""
    store = after.block.body
    assert isinstance(store, BufferStore)
    _, _, other = users(ref.scope, store.buffer)
    if other:
        return _kind(after, other)
    first, last = part_in(ref, ref), part_in(ref, after)
    if first >= last:
        return _kind(after, "it does not come after the nest of the sum")
    for number, (_, nest) in enumerate(parts_of(ref.scope)):
        for access in nest.accesses:
            own = number == last and access.is_write
            if access.buffer.data is store.buffer.data and first <= number <= last and not own:
                return _kind(after, f"{store.buffer.name!r} is used before it")
    update = update_of(ref.block)
    return cannot_feed(after, ref.scope, first, last, update and update.store.buffer)


@primitive
def fuse_reduction_epilogue(
    context: Context, reduction_block: Sblock, epilogue_block: Sblock
) -> None:
    """Fuse an addition after a sum into the sum, as its initial value.

    for i in range(8):
        for k in range(4): S[i] = (0 if k == 0 else S[i]) + A[i, k]
    for i in range(8): C[i] = S[i] + B[i]
    -->
    for i in range(8):
        for k in range(4): C[i] = (B[i] if k == 0 else C[i]) + A[i, k]

    Float results may differ in the last bits, since the addend now comes first.

    Errors: SCH0004, SCH0006 where operands change in between, SCH0007 for other blocks.
    """
    plan = _plan(reduction_block, epilogue_block)
    if isinstance(plan, Refusal):
        refuse(plan)
    if why := _cannot_come_first(reduction_block, epilogue_block):
        refuse(why)
    store = epilogue_block.block.body
    assert isinstance(store, BufferStore)
    old, scope, target = reduction_block.block, reduction_block.scope, store.buffer
    value = Add(BufferLoad(target, plan.indices), plan.update.value)
    new = refresh_regions(
        rebuild(
            old,
            {
                "body": BufferStore(target, value, plan.indices),
                "init": BufferStore(target, plan.start, plan.indices),
            },
        )
    )
    realize = remove_from_scope(scope, epilogue_block, plan.update.store.buffer)
    body = rewrite(realize.block.body, {Block: lambda b: new if b is old else b})
    owner = rebuild(realize.block, {"body": body})
    made = rebuild(realize, {"block": owner})
    if why := cannot_start(scope, made, "fuse before loops of the reduction are moved"):
        refuse(why)
    scope.home.replace(scope, made, {old: new, scope.block: owner})
