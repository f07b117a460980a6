"""Primitives that insert a stage between a buffer and the blocks that use it."""

from __future__ import annotations

from collections.abc import Mapping

from loomir.arith.fold import imm
from loomir.ir.equality import are_equal
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order, rebuild
from loomir.loops.ranges import domains
from loomir.schedule.blocks import complete_mistake, explain_sharing
from loomir.schedule.moving import (
    cannot_cover,
    part_with,
    parts_of,
    plain_indices,
    refresh_regions,
    users,
)
from loomir.schedule.refusal import Refusal, refuse, replace_part
from loomir.schedule.staging import (
    InsertionPoint,
    accesses_in,
    cannot_run_at_once,
    cannot_store_in,
    copy_nest,
    exactly,
    find_accessed_buffer,
    find_covering_box,
    insert_nest,
    is_parameter,
    is_plain,
    make_stage,
    pair_blocks,
    runs_always,
    store_of,
    writes_whole,
)
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Loop, Sblock, Sblocks, Value, primitive
from loomir.tir.buffer import Buffer, BufferLoad, Range
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.stmt import Block, BlockRealize, For, Stmt

__all__ = [
    "cache_inplace",
    "cache_read",
    "cache_write",
    "cannot_cache",
    "cannot_delay",
    "cannot_fill",
    "commit",
    "place_before",
    "place_behind",
    "read_at",
    "write_at",
]


def _refusal(code: str, ref: Ref, why: str, advice: str) -> Refusal:
    return Refusal(code, "block {!r}: {}", (ref.block.name_hint, why), advice, ref.stmt)


def cannot_cache(ref: Ref, buffer: Buffer, scope: str) -> Refusal | None:
    """Say why no stage can stand between a buffer and a block."""
    if why := cannot_store_in(ref, scope):
        return why
    if ref.scope is ref:
        return _refusal("SCH0004", ref, "it is the whole function", "choose a block inside of it")
    other = users(ref.scope, buffer)[2]
    if not other and buffer.axis_separators:
        other = f"the axes of {buffer.name!r} are separated"
    if not other:
        return None
    return _refusal("SCH0006", ref, other, "choose a buffer that only blocks read and write")


# -- a stage before blocks that read ---------------------------------------------------------------
def _readers(ref: Ref, buffer: Buffer, given: list[Ref] | None) -> list[Ref]:
    """Return the blocks that are to read the stage."""
    scope = ref.scope
    _, readers, _ = users(scope, buffer)
    if not given:
        if not any(r is ref for r in readers):
            refuse(
                _refusal(
                    "SCH0006",
                    ref,
                    f"it writes {buffer.name!r} as well",
                    "choose a block that only reads the buffer, or use cache_write",
                )
            )
        return _readers_of_version(scope, ref, readers, buffer)
    for block in given:
        if not any(r is block for r in readers):
            refuse(
                _refusal(
                    "SCH0003",
                    block,
                    f"it is not a block of this scope that only reads {buffer.name!r}",
                    "name consumers of the buffer, as get_consumers lists them",
                )
            )
    return given


def _readers_of_version(scope: Ref, ref: Ref, readers: list[Ref], buffer: Buffer) -> list[Ref]:
    """Leave out readers that are separated from the copy by a write of the buffer."""
    parts = parts_of(scope)
    at = part_with(parts, scope, ref)
    wrote = [n for n, (_, nest) in enumerate(parts) if _writes(nest.accesses, buffer)]
    first = max((n for n in wrote if n < at), default=-1)
    last = min((n for n in wrote if n > at), default=len(parts))
    if at in wrote:  # others have what the nest leaves, which may be more than it starts with
        return [r for r in readers if part_with(parts, scope, r) == at]
    return [r for r in readers if first < part_with(parts, scope, r) < last]


def _writes(accesses: tuple[object, ...], buffer: Buffer) -> bool:
    return any(a.is_write and a.buffer.data is buffer.data for a in accesses)  # type: ignore[attr-defined]


def place_before(
    ref: Ref, readers: list[Ref], buffer: Buffer, start: Ref | None = None
) -> InsertionPoint | Refusal:
    """Find where a stage has what all readers would read, from a loop or the scope inwards."""
    place = ref.scope if start is None else start
    while True:
        parts = parts_of(place)
        numbers = [part_with(parts, place, r) for r in readers]
        first, last = min(numbers), max(numbers)
        wrote = [n for n, (_, nest) in enumerate(parts) if _writes(nest.accesses, buffer)]
        between = [n for n in wrote if first <= n <= last]
        if not between:
            return InsertionPoint(place, max((n + 1 for n in wrote if n < first), default=0))
        inner = parts[first][0] if first < len(parts) else None
        if first != last or not isinstance(inner, For):
            return _refusal(
                "SCH0006",
                ref,
                f"{buffer.name!r} is written between or in the blocks that read it",
                "give consumer_blocks between which nothing writes it",
            )
        place = ref.home.ref(inner)


def _is_written_whole(ref: Ref, place: InsertionPoint, buffer: Buffer) -> bool:
    """Tell whether all elements of a buffer are certainly written before a place."""
    if is_parameter(ref, buffer):
        return True
    scope = ref.scope
    parts = parts_of(scope)
    at = place.at if place.ref is scope else part_with(parts, scope, place.ref)
    return any(
        part_with(parts, scope, writer) < at and writes_whole(writer, buffer)
        for writer in users(scope, buffer)[0]
    )


def cannot_fill(
    ref: Ref, place: InsertionPoint, readers: list[Ref], buffer: Buffer
) -> Refusal | None:
    """Say why a copy might read elements that nothing wrote, which the readers do not."""
    if _is_written_whole(ref, place, buffer):
        return None
    boxes: list[list[Range]] = []
    for reader in readers:
        for access in accesses_in(reader, buffer, writes=False):
            point = access.point
            box = None
            if point is not None and is_plain(reader.block):
                box = exactly(place.ref, reader, point)
            boxes += [box] if box is not None else []
            if box is None or not are_equal(box, boxes[0]):
                return _refusal(
                    "SCH0006",
                    reader,
                    f"a box of {buffer.name!r} may contain elements that are not written yet",
                    "cache a buffer that one block has completely written before",
                )
    return None


@primitive
def cache_read(
    context: Context,
    block: Sblock,
    read_buffer_index: Value,
    storage_scope: str,
    consumer_blocks: Sblocks | None = None,
) -> Ref:
    """Copy what blocks read of a buffer to a new buffer, from which they then read.

    for i in range(8): B[i] = A[i] * 2
    -->
    for ax0 in range(8): A_global[ax0] = A[ax0]
    for i in range(8): B[i] = A_global[i] * 2

    The buffer is given by its index among the block's reads, or by its name. The copy comes after
    the blocks that write the buffer. ``consumer_blocks`` read the copy; by default these are all
    blocks of the scope that read the same values.

    Errors: SCH0003, SCH0004, SCH0006 where the buffer is written between its readers or may not be
    all written, SCH0008 for memory that CPUs lack.
    """
    buffer = find_accessed_buffer(block, read_buffer_index, "read")
    if why := cannot_cache(block, buffer, storage_scope):
        refuse(why)
    readers = _readers(block, buffer, consumer_blocks)
    place = place_before(block, readers, buffer)
    if isinstance(place, Refusal):
        refuse(place)
    if why := cannot_fill(block, place, readers, buffer):
        refuse(why)
    stage = make_stage(block, buffer, f"{buffer.name}_{storage_scope}", storage_scope)
    region = find_covering_box(place.ref, readers, buffer)
    at_top = place.ref is block.scope
    nest, realize = copy_nest(buffer, stage, region, stage.name, of_region=at_top)
    commit(block, place, nest, stage, _redirect_users(readers, buffer, stage))
    return block.home.ref(realize)


@primitive
def read_at(
    context: Context, loop: Loop, block: Sblock, read_buffer_index: Value, storage_scope: str
) -> Ref:
    """In each iteration of a loop, copy what it reads of a buffer to a new buffer.

    for i in range(8): B[i] = A[i] * 2
    -->                                        # at loop i
    for i in range(8):
        for ax0 in range(1): A_local[i + ax0] = A[i + ax0]
        B[i] = A_local[i] * 2

    All blocks in the loop that read the buffer then read the copy.

    Errors: SCH0003, SCH0004, SCH0006 where the loop writes the buffer between or may read what is
    not all written, SCH0008 for memory that CPUs lack.
    """
    buffer = find_accessed_buffer(block, read_buffer_index, "read")
    if why := cannot_cache(block, buffer, storage_scope) or _cannot_be_at(block, loop):
        refuse(why)
    writers, readers, _ = users(block.scope, buffer)
    readers = [r for r in readers if any(a is loop for a in r.list_around())]
    inside = [w for w in writers if any(a is loop for a in w.list_around())]
    if inside or not any(r is block for r in readers):
        why = f"{buffer.name!r} is written in that loop"
        refuse(_refusal("SCH0006", block, why, "use cache_read, which finds a place"))
    place = place_before(block, readers, buffer, loop)
    assert isinstance(place, InsertionPoint)
    if why := cannot_fill(block, place, readers, buffer):
        refuse(why)
    stage = make_stage(block, buffer, f"{buffer.name}_{storage_scope}", storage_scope)
    region = find_covering_box(loop, readers, buffer)
    nest, realize = copy_nest(buffer, stage, region, stage.name, of_region=False)
    commit(block, place, nest, stage, _redirect_users(readers, buffer, stage))
    return block.home.ref(realize)


def _cannot_be_at(ref: Ref, loop: Ref) -> Refusal | None:
    if any(r is loop for r in ref.loops()):
        return None
    name = loop.loop.loop_var.name_hint
    return _refusal(
        "SCH0004", ref, f"loop {name!r} is not around it", "choose a loop that get_loops returns"
    )


def commit(
    ref: Ref,
    place: InsertionPoint,
    nest: Stmt,
    stage: Buffer,
    changed: Mapping[Ref, BlockRealize],
    behind: Stmt | None = None,
) -> None:
    """Put a copy in its place, and blocks that use the stage in the place of others."""
    scope = ref.scope
    made: Stmt = insert_nest(scope, place, nest, [stage], behind)
    blocks: dict[Block, Block] = {}
    for user, new in changed.items():
        blocks.update(pair_blocks(user.realize, new))
        placed = replace_part(made, user.realize, new)
        assert placed is not None
        made = placed
    assert isinstance(made, BlockRealize)
    realize = made
    if scope.parent is not None:  # a box may be more than what is read
        realize = rebuild(made, {"block": refresh_regions(made.block)})
    if why := cannot_run_at_once(ref, place.ref, made):
        refuse(why)
    scope.home.replace(scope, realize, {**blocks, scope.block: realize.block})


def _redirect_users(users: list[Ref], buffer: Buffer, stage: Buffer) -> dict[Ref, BlockRealize]:
    """Return blocks that use a stage where they used a buffer."""
    return {user: substitute(user.realize, {buffer: stage}) for user in users}


# -- a stage behind a block that writes ------------------------------------------------------------
def cannot_delay(ref: Ref, buffer: Buffer, readers: list[Ref]) -> Refusal | None:
    """Say why what a block writes cannot be written later, from a stage."""
    block, scope = ref.block, ref.scope
    why = complete_mistake(block) if block.init is None else explain_sharing(block)
    if why:
        return _refusal(
            "SCH0007", ref, why, "choose a block that initialises each element it writes"
        )
    bound = (*ref.realize.values, ref.realize.predicate)
    if any(isinstance(n, BufferLoad) and n.buffer is buffer for e in bound for n in pre_order(e)):
        why = f"where it runs depends on {buffer.name!r}"
        return _refusal("SCH0007", ref, why, "choose another block")
    if store_of(block, buffer) is None:
        why = f"it does not store to {buffer.name!r} each time"
        return _refusal("SCH0007", ref, why, "choose a block that stores without conditions")
    writers, others, _ = users(scope, buffer)
    if len(writers) > 1:
        why = f"other blocks write {buffer.name!r} too"
        return _refusal("SCH0006", ref, why, "cache before the reduction is decomposed")
    whole = not is_parameter(ref, buffer) and any(b is buffer for b in scope.block.alloc_buffers)
    parts = parts_of(scope)
    for reader in readers:
        later = part_with(parts, scope, reader) > part_with(parts, scope, ref)
        if not any(r is reader for r in others):
            why = f"it is not a block of this scope that only reads {buffer.name!r}"
            return _refusal("SCH0003", reader, why, "name consumers of the buffer")
        if not whole and not (later and writes_whole(ref, buffer)):
            why = f"it may read elements of {buffer.name!r} that {block.name_hint!r} did not write"
            return _refusal("SCH0006", reader, why, "let it read the buffer")
    return None


def place_behind(
    ref: Ref, buffer: Buffer, readers: list[Ref], start: Ref | None = None
) -> InsertionPoint | Refusal:
    """Find where a stage is done, and nothing has read the buffer yet."""
    place = ref.scope if start is None else start
    while True:
        parts = parts_of(place)
        at = part_with(parts, place, ref)
        part = parts[at][0]
        _, others, _ = users(ref.scope, buffer)
        inside = [
            r
            for r in others
            if not any(r is x for x in readers)
            and any(a is place for a in r.list_around())
            and part_with(parts, place, r) == at
        ]
        if not inside:
            return InsertionPoint(place, at + 1)
        if not isinstance(part, For):
            return _refusal(
                "SCH0006",
                ref,
                f"{buffer.name!r} is read where it is written",
                "choose a block whose result is read in other loops, or pass consumer_blocks",
            )
        place = ref.home.ref(part)


def _find_written_box(ref: Ref, place: InsertionPoint, buffer: Buffer) -> list[Range] | None:
    """Return the box of a buffer that a block writes below a place, each element of it."""
    block = ref.block
    store = store_of(block, buffer)
    assert store is not None
    plain = plain_indices(block, store.indices) is not None and runs_always(ref.scope, ref)
    if place.ref is ref.scope and plain and cannot_cover(ref) is None:
        own = domains(block)
        return [own[i] if isinstance(i, Var) else Range(i, imm(1, i.dtype)) for i in store.indices]
    bound: dict[Var, PrimExpr] = {it.var: v for it, v in zip(block.iter_vars, ref.realize.values)}
    return exactly(place.ref, ref, [substitute(i, bound) for i in store.indices])


@primitive
def cache_write(
    context: Context,
    block: Sblock,
    write_buffer_index: Value,
    storage_scope: str,
    consumer_blocks: Sblocks | None = None,
) -> Ref:
    """Let a block write to a new buffer, which is then copied to the original.

    for i in range(8): B[i] = A[i] * 2
    -->
    for i in range(8): B_global[i] = A[i] * 2
    for ax0 in range(8): B[ax0] = B_global[ax0]

    The buffer is given by its index among the block's writes, or by its name. Of the blocks that
    read it, ``consumer_blocks`` read the new buffer, the others the original.

    Errors: SCH0003, SCH0004, SCH0006 where others write the buffer or read it too early, SCH0007
    for a block that writes no whole box of elements of its own, SCH0008 for memory that CPUs lack.
    """
    buffer = find_accessed_buffer(block, write_buffer_index, "write")
    if why := cannot_cache(block, buffer, storage_scope):
        refuse(why)
    readers = consumer_blocks or []
    if why := cannot_delay(block, buffer, readers):
        refuse(why)
    place = place_behind(block, buffer, readers)
    if isinstance(place, Refusal):
        refuse(place)
    region = _find_written_box(block, place, buffer)
    if region is None:
        refuse(
            _refusal(
                "SCH0007",
                block,
                f"the elements of {buffer.name!r} that it writes are not known to be a box",
                "choose a block that stores an element indexed by its iterators, at each of their "
                "values",
            )
        )
    stage = make_stage(block, buffer, f"{buffer.name}_{storage_scope}", storage_scope)
    at_top = place.ref is block.scope
    nest, realize = copy_nest(stage, buffer, region, stage.name, of_region=at_top)
    commit(block, place, nest, stage, _redirect_users([block, *readers], buffer, stage))
    return block.home.ref(realize)


@primitive
def write_at(
    context: Context, loop: Loop, block: Sblock, write_buffer_index: Value, storage_scope: str
) -> Ref:
    """Let a block write to a new buffer, which each iteration of a loop copies back.

    for i in range(8): B[i] = A[i] * 2
    -->                                        # at loop i
    for i in range(8):
        B_local[i] = A[i] * 2
        for ax0 in range(1): B[i + ax0] = B_local[i + ax0]

    The copy comes after the part of the loop that contains the block.

    Errors: SCH0003, SCH0004, SCH0006 where others write the buffer or read it too early, SCH0007
    for a block that writes no whole box of elements of its own, SCH0008 for memory that CPUs lack.
    """
    buffer = find_accessed_buffer(block, write_buffer_index, "write")
    if why := cannot_cache(block, buffer, storage_scope) or _cannot_be_at(block, loop):
        refuse(why)
    if why := cannot_delay(block, buffer, []):
        refuse(why)
    place = place_behind(block, buffer, [], loop)
    if isinstance(place, Refusal):
        refuse(place)
    region = _find_written_box(block, place, buffer) if place.ref is loop else None
    if region is None:
        refuse(
            _refusal(
                "SCH0007",
                block,
                f"what an iteration writes of {buffer.name!r} is not known to be a box, done there",
                "choose an outer loop, or use cache_write",
            )
        )
    stage = make_stage(block, buffer, f"{buffer.name}_{storage_scope}", storage_scope)
    nest, realize = copy_nest(stage, buffer, region, stage.name, of_region=False)
    commit(block, place, nest, stage, _redirect_users([block], buffer, stage))
    return block.home.ref(realize)


# -- a stage around a block that updates -----------------------------------------------------------
@primitive
def cache_inplace(
    context: Context, block: Sblock, read_buffer_index: Value, storage_scope: str
) -> list[Ref]:
    """Let a block update a copy of a buffer, which is then copied back.

    for i in range(8): A[i] = A[i] * 2
    -->
    for ax0 in range(8): A_local[ax0] = A[ax0]
    for i in range(8): A_local[i] = A_local[i] * 2
    for ax0 in range(8): A[ax0] = A_local[ax0]

    Returns the blocks of the two copies.

    Errors: SCH0003, SCH0004, SCH0006 where others use the buffer in the same nest or it may not be
    all written, SCH0007 for a block that does not update it, SCH0008 for memory that CPUs lack.
    """
    buffer = find_accessed_buffer(block, read_buffer_index, "read")
    if why := cannot_cache(block, buffer, storage_scope):
        refuse(why)
    scope = block.scope
    writers, readers, _ = users(scope, buffer)
    if not any(w is block for w in writers):
        why = f"it does not write {buffer.name!r}"
        refuse(_refusal("SCH0007", block, why, "use cache_read"))
    parts = parts_of(scope)
    at = part_with(parts, scope, block)
    for other in (*writers, *readers):
        if other is not block and part_with(parts, scope, other) == at:
            why = f"block {other.block.name_hint!r} uses {buffer.name!r} in the same nest"
            refuse(
                _refusal("SCH0006", block, why, "choose a block that has a loop nest of its own")
            )
    if not _is_written_whole(block, InsertionPoint(scope, at), buffer):
        why = f"elements of {buffer.name!r} may hold nothing before"
        refuse(
            _refusal(
                "SCH0006",
                block,
                why,
                "choose a buffer that is completely written before this block",
            )
        )
    stage = make_stage(block, buffer, f"{buffer.name}_{storage_scope}", storage_scope)
    region = find_covering_box(scope, [block], buffer, written=True)
    first, into = copy_nest(buffer, stage, region, stage.name, of_region=True)
    last, back = copy_nest(stage, buffer, region, f"{stage.name}_back", of_region=True)
    commit(
        block,
        InsertionPoint(scope, at),
        first,
        stage,
        _redirect_users([block], buffer, stage),
        last,
    )
    return [block.home.ref(into), block.home.ref(back)]
