"""Primitives that move a block into the loop nest of its consumers or of its producers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from loomir.arith.fold import add, imm, sub, to_int
from loomir.ir.equality import are_equal
from loomir.ir.visit import pre_order, rebuild
from loomir.loops.accesses import Access, nest_of
from loomir.loops.bounds import Ends, find_ends, find_extreme, is_known_outside
from loomir.loops.dependence import explain_dependence, find_unsafe_loop
from loomir.loops.nests import nest_over
from loomir.loops.ranges import analyzer_for, domains, loop_range
from loomir.schedule.blocks import cannot_start, complete_mistake
from loomir.schedule.moving import (
    cannot_cover,
    cannot_feed,
    common_place,
    inner_buffer,
    part_with,
    parts_of,
    plain_indices,
    remove_block,
    repeatable,
    users,
)
from loomir.schedule.nests import ranges_with_sizes, sizes_of
from loomir.schedule.refusal import Refusal, RefusalError, refuse, replace_part
from loomir.schedule.staging import is_plain, store_of
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Int, Loop, Sample, Sblock, primitive, query
from loomir.tir.analysis.copy_statement import definitions_in
from loomir.tir.buffer import Buffer, BufferLoad, IterVarType, Range
from loomir.tir.expr import GE, LT, And, Max, Min, PrimExpr, Var
from loomir.tir.stmt import (
    TRUE,
    BlockRealize,
    BufferStore,
    For,
    SeqStmt,
    Stmt,
    seq,
)

__all__ = [
    "cannot_compute_at",
    "cannot_reverse_compute_at",
    "compute_at",
    "reverse_compute_at",
    "sample_compute_location",
]


class _Box(NamedTuple):
    """The part of an axis that one iteration needs or produces: first element and extent."""

    low: PrimExpr
    extent: PrimExpr


def _refusal(code: str, ref: Ref, why: str, advice: str) -> Refusal:
    return Refusal(
        code, "block {!r} cannot be moved there: {}", (ref.block.name_hint, why), advice, ref.stmt
    )


def _cannot_place(ref: Ref, loop: Ref) -> Refusal | None:
    """Say why a loop is no place for a block, whatever is computed."""
    if loop.scope is not ref.scope:
        return _refusal(
            "SCH0004", ref, "the loop is of another block", "choose a loop of the same block"
        )
    if any(r is loop for r in ref.list_around()):
        return _refusal("SCH0004", ref, "it is in that loop already", "choose another loop")
    return None


def _ranges_in(loop: Ref) -> dict[Var, Range]:
    """Return the ranges of what is bound where a loop's body stands."""
    return {**ranges_with_sizes(loop), loop.loop.loop_var: loop_range(loop.loop)}


def _boxes(accesses: Sequence[Access], inner: Mapping[Var, Range], loop: Ref) -> list[_Box]:
    """Return what boxes cover accesses in one iteration of a loop."""
    analyzer = analyzer_for(_ranges_in(loop))
    hidden = {id(n) for n in definitions_in(loop.loop.body)}
    buffer = accesses[0].buffer
    found: list[_Box] = []
    for axis, shape in enumerate(buffer.shape):
        lows: list[PrimExpr] = []
        highs: list[PrimExpr] = []
        for access in accesses:
            ends = find_ends(access.region[axis], inner, analyzer)
            if ends is None or not is_known_outside(ends, hidden):
                ends = Ends(imm(0, shape.dtype), sub(shape, imm(1, shape.dtype)))
            lows.append(to_int(ends.low, shape.dtype))
            highs.append(to_int(ends.high, shape.dtype))
        first = find_extreme(Min, lows, analyzer, prefer_last=True)
        top = find_extreme(Max, highs, analyzer, prefer_last=True)
        count = analyzer.simplify(add(sub(top, first), imm(1, shape.dtype)))
        found.append(_Box(analyzer.simplify(first), count))
    return found


def _nest_over(
    ref: Ref, boxes: dict[Var, _Box], place: Ref, preserve_unit_loops: bool
) -> tuple[Stmt, BlockRealize]:
    """Make loops around a block that run over boxes of its iterators, within their domains."""
    block = ref.block
    analyzer = analyzer_for(_ranges_in(place))
    loops: list[Var] = []
    extents: list[PrimExpr] = []
    values: list[PrimExpr] = []
    predicate: PrimExpr = TRUE
    for it in block.iter_vars:
        assert it.dom is not None
        assert it.dom.extent is not None
        dtype = it.var.dtype
        box = boxes.get(it.var, _Box(it.dom.min, it.dom.extent))
        extent = to_int(box.extent, dtype)
        value: PrimExpr = to_int(box.low, dtype)
        if preserve_unit_loops or not analyzer.can_prove_equal(extent, 1):
            var = Var(f"ax{len(loops)}", dtype)
            loops.append(var)
            extents.append(extent)
            analyzer.bind(var, Range(imm(0, dtype), extent))
            value = add(value, var)
        values.append(value)
        if it.var in boxes:
            end = add(it.dom.min, it.dom.extent)
            for condition in (GE(value, it.dom.min), LT(value, end)):
                if not analyzer.can_prove(condition):
                    predicate = condition if predicate is TRUE else And(predicate, condition)
    made = BlockRealize(tuple(values), predicate, block, span=ref.realize.span)
    return nest_over(loops, extents, made), made


def _move(ref: Ref, loop: Ref, nest: Stmt, at: int) -> tuple[Ref, Stmt]:
    """Return the scope in which a block is taken away, and put as a part of a loop's body."""
    scope = ref.scope
    body = loop.loop.body
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    new_loop = rebuild(loop.loop, {"body": seq([*parts[:at], nest, *parts[at:]])})
    assert loop.stmt is not None
    assert ref.stmt is not None
    placed = replace_part(scope.realize, loop.stmt, new_loop)
    assert placed is not None
    leaf = ref.stmt
    made = remove_block(placed, leaf)
    assert made is not None
    return scope, made


def _cannot_run_at_once(ref: Ref, made: Stmt, nest: Stmt) -> Refusal | None:
    """Say which loop around the new place runs its iterations at once and may not any more."""
    outer = {**ranges_with_sizes(ref.scope), **domains(ref.scope.block)}
    loops = [node for node in _path_to(made, nest) if isinstance(node, For)]
    unsafe = find_unsafe_loop(loops, outer)
    if unsafe is None:
        return None
    return _refusal("SCH0006", ref, unsafe[1], "mark loops after blocks are in their places")


def _path_to(root: Stmt, leaf: Stmt) -> list[Stmt]:
    """List the statements from a root to one inside of it."""
    stack: list[tuple[Stmt, tuple[Stmt, ...]]] = [(root, ())]
    while stack:
        node, above = stack.pop()
        if node is leaf:
            return [*above, node]
        inner = (*above, node)
        stack.extend((s, inner) for s in _statements(node))
    return []


def _statements(node: Stmt) -> list[Stmt]:
    if isinstance(node, BlockRealize):
        return [node.block.body]
    if isinstance(node, For):
        return [node.body]
    if isinstance(node, SeqStmt):
        return list(node.seq)
    return [n for n in pre_order(node) if isinstance(n, (For, BlockRealize)) and n is not node]


# -- a producer into its consumers' nest -----------------------------------------------------------
def cannot_compute_at(ref: Ref, loop: Ref) -> Refusal | None:
    """Say why a block cannot be computed in a loop, as far as its surroundings tell."""
    if why := _cannot_place(ref, loop):
        return why
    buffer = inner_buffer(ref)
    if isinstance(buffer, Refusal):
        return buffer
    if why := repeatable(ref):
        return _refusal(
            "SCH0007", ref, why, "choose a block whose instances may run more than once"
        )
    store = ref.block.body
    if not isinstance(store, BufferStore) or plain_indices(ref.block, store.indices) is None:
        return _refusal(
            "SCH0007",
            ref,
            "what it writes is not indexed by its iterators",
            "choose a block that stores one element for each point of its iterators",
        )
    if _mentions_loops(ref):
        return _refusal("SCH0007", ref, "it uses an outer loop variable", "choose another block")
    if why := _cannot_sum_whole(ref, loop):
        return why
    if why := cannot_cover(ref):
        return why
    writers, readers, other = users(ref.scope, buffer)
    if other or len(writers) > 1:
        return _refusal(
            "SCH0006", ref, other or "other blocks write its buffer too", "choose another block"
        )
    outside = [r for r in readers if not any(a is loop for a in r.list_around())]
    if outside or not readers:
        name = outside[0].block.name_hint if outside else "nothing"
        return _refusal(
            "SCH0006",
            ref,
            f"{name!r} uses its result outside of that loop",
            "choose a loop around all blocks that use its result",
        )
    place = common_place(ref, loop)
    parts = parts_of(place)
    own, there = part_with(parts, place, ref), part_with(parts, place, loop)
    return cannot_feed(ref, place, min(own, there), max(own, there))


def _mentions_loops(ref: Ref) -> bool:
    inside = {r.loop.loop_var for r in ref.loops()}
    return any(n in inside for n in pre_order(ref.block) if isinstance(n, Var))


def _cannot_sum_whole(ref: Ref, loop: Ref) -> Refusal | None:
    """Say which loop around both places a block reduces over.

    Each of its iterations takes what is summed until then, and may bring what the next ones sum:
    it cannot be given all of the sum.
    """
    assert isinstance(ref.stmt, BlockRealize)
    pairs = zip(ref.block.iter_vars, ref.stmt.iter_values, strict=True)
    over = [value for axis, value in pairs if axis.iter_type is IterVarType.COMM_REDUCE]
    used = {node for value in over for node in pre_order(value)}
    around = list(loop.list_around())
    for shared in ref.loops():
        if shared.loop.loop_var in used and any(a is shared for a in around):
            return _refusal(
                "SCH0006",
                ref,
                f"it reduces over the loop {shared.loop.loop_var.name_hint!r} around both places",
                "choose a loop outside of those that it reduces over",
            )
    return None


@primitive
def compute_at(
    context: Context,
    block: Sblock,
    loop: Loop,
    preserve_unit_loops: bool = False,
    index: Int = -1,
) -> None:
    """Move a block into a loop, to compute in each iteration the elements that it consumes.

    for i in range(8): B[i] = A[i] + 1
    for i in range(8): C[i] = B[i] * 2
    -->                                        # at loop i of C
    for i in range(8):
        B[i] = A[i] + 1
        C[i] = B[i] * 2

    ``index`` is the position in the loop's body: -1 is the last legal one, -2 the first.

    If iterations share no element of the buffer, it is allocated for one iteration only.

    Errors: SCH0003, SCH0004, SCH0006 where others take the result or operands change in between,
    SCH0007 for a block whose instances cannot be run again.
    """
    _commit(*_plan(block, loop, preserve_unit_loops, index))


def _plan(
    block: Ref, loop: Ref, preserve_unit_loops: bool, index: int
) -> tuple[Ref, Ref, Stmt, int]:
    """Say which nest goes where among the parts of a loop, or stop with the reason."""
    if why := cannot_compute_at(block, loop):
        refuse(why)
    store = block.block.body
    assert isinstance(store, BufferStore)
    axes = plain_indices(block.block, store.indices)
    assert axes is not None
    inside = nest_of(loop.loop.body)
    taken = [a for a in inside.accesses if a.buffer is store.buffer]
    first_use = next(
        number
        for number, (_, nest) in enumerate(parts_of(loop))
        if any(a.buffer is store.buffer for a in nest.accesses)
    )
    at = _place_among(block, index, 0, first_use)
    boxes = _boxes(taken, inside.loops, loop)
    nest, _ = _nest_over(
        block, {var: boxes[axis] for var, axis in axes.items()}, loop, preserve_unit_loops
    )
    return block, loop, nest, at


def _place_among(ref: Ref, index: int, first: int, last: int) -> int:
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        refuse(
            Refusal(
                "SCH0003",
                "index {} is not among {} to {}",
                (index, first, last),
                "use -1 for the last place that is possible, -2 for the first",
                ref.stmt,
            )
        )
    return index


def _commit(ref: Ref, loop: Ref, nest: Stmt, at: int) -> None:
    scope, made = _check_scope(ref, loop, nest, at)
    scope.home.replace(scope, made)


def _check_scope(ref: Ref, loop: Ref, nest: Stmt, at: int) -> tuple[Ref, Stmt]:
    """Make the scope with a block in another place, or stop with the reason why not."""
    scope, made = _move(ref, loop, nest, at)
    if why := _cannot_run_at_once(ref, made, nest):
        refuse(why)
    if why := cannot_start(scope, made, "choose a loop that does not reduce"):
        refuse(why)
    return scope, made


@query
def sample_compute_location(context: Context, block: Sblock, decision: Int | None = None) -> Sample:
    """Sample a loop for ``compute_at``; the decision is its index among the possible loops.

    The possible loops are those around its consumers, in program order.

    Errors: SCH0003, SCH0006 where there is no such loop.
    """
    loops: dict[int, Ref] = {}
    buffer = inner_buffer(block)
    readers = [] if isinstance(buffer, Refusal) else users(block.scope, buffer)[1]
    for reader in readers:
        loops.update((id(loop), loop) for loop in reader.loops())
    possible = [loop for loop in loops.values() if _is_possible(block, loop)]
    if not possible:
        refuse(
            _refusal("SCH0006", block, "no loop can compute what it needs", "leave it where it is")
        )
    if decision is None:
        decision = context.rng.randrange(len(possible))
    if not 0 <= decision < len(possible):
        refuse(
            Refusal(
                "SCH0003",
                "decision {} is not among the {} loops",
                (decision, len(possible)),
                "a decision is the index of a loop, from 0",
                block.stmt,
            )
        )
    return Sample(possible[decision], decision)


def _is_possible(block: Ref, loop: Ref) -> bool:
    try:
        _check_scope(*_plan(block, loop, False, -1))
    except RefusalError:
        return False
    return True


# -- a consumer into its producers' nest -----------------------------------------------------------
def cannot_reverse_compute_at(ref: Ref, loop: Ref) -> Refusal | None:
    """Say why a block cannot be computed in a loop that makes what it takes."""
    if why := _cannot_place(ref, loop):
        return why
    if why := complete_mistake(ref.block):
        return _refusal("SCH0007", ref, why, "choose a block without reducing iterators")
    if _mentions_loops(ref):
        return _refusal("SCH0007", ref, "it uses an outer loop variable", "choose another block")
    if why := cannot_cover(ref):
        return why
    made = _find_produced_operand(ref, loop)
    if isinstance(made, Refusal):
        return made
    place = common_place(ref, loop)
    parts = parts_of(place)
    own, there = part_with(parts, place, ref), part_with(parts, place, loop)
    if own < there:
        return _refusal("SCH0006", ref, "it is before that loop", "use compute_at")
    written = {id(r.buffer.data) for r in nest_of(ref.realize).accesses if r.is_write}
    for _, nest in parts[there:own]:
        if nest.obstacle or any(id(a.buffer.data) in written for a in nest.accesses):
            return _refusal(
                "SCH0006",
                ref,
                nest.obstacle or "what it writes is used before it",
                "choose a loop after the last use of the memory that it writes",
            )
    for access in nest_of(ref.realize).accesses:
        if access.is_write and (other := users(ref.scope, access.buffer)[2]):
            return _refusal("SCH0006", ref, other, "choose another block")
    return cannot_feed(ref, place, there, own, made.buffer)


def _find_produced_operand(ref: Ref, loop: Ref) -> Access | Refusal:
    """Find the one buffer of the scope that a loop makes and a block takes at its iterators."""
    inside = nest_of(loop.loop)
    if inside.obstacle:
        return _refusal("SCH0006", ref, inside.obstacle, "choose another loop")
    taken: list[tuple[Buffer, BufferLoad]] = []
    for node in pre_order(ref.block):
        if isinstance(node, BufferLoad) and any(
            a.is_write and a.buffer is node.buffer for a in inside.accesses
        ):
            taken.append((node.buffer, node))
    buffers = {id(b): b for b, _ in taken}
    if len(buffers) != 1:
        return _refusal(
            "SCH0006",
            ref,
            f"the loop makes {len(buffers)} of the buffers that it takes",
            "choose a loop that computes one of its operands",
        )
    (buffer,) = buffers.values()
    first = taken[0][1]
    plain = plain_indices_of(ref, first)
    same = all(are_equal(n.indices, first.indices) for _, n in taken)
    writers, _, other = users(ref.scope, buffer)
    if not plain or not same or other or len(writers) != 1:
        return _refusal(
            "SCH0006",
            ref,
            other or f"it does not take {buffer.name!r} at its own iterators from one block",
            "choose a loop that computes an operand of which the block reads each element once",
        )
    if why := cannot_cover(writers[0]):
        return why
    # What is taken of an array from outside need not be what the loop makes.
    own = is_plain(ref.block) and any(b is buffer for b in ref.scope.block.alloc_buffers)
    if not own and not _makes_all(writers[0], ref, first, plain):
        return _refusal(
            "SCH0006",
            ref,
            f"it may run where no element of {buffer.name!r} is made",
            "choose a block whose domain is within what the loop computes",
        )
    if not any(a is loop for a in writers[0].list_around()):
        return _refusal("SCH0006", ref, "its operand is computed elsewhere", "choose another loop")
    outer = ranges_with_sizes(ref.scope)
    for around in writers[0].loops():
        if why := _carries(around, buffer, outer):
            return _refusal("SCH0006", ref, why, "choose a loop outside of the reduction")
        outer[around.loop.loop_var] = loop_range(around.loop)
        if around is loop:
            break
    return next(a for a in inside.accesses if a.is_write and a.buffer is buffer)


def _makes_all(writer: Ref, ref: Ref, load: BufferLoad, axes: Mapping[Var, int]) -> bool:
    """Tell whether a block makes what another loads at each point of the other's domain."""
    store = store_of(writer.block, load.buffer)
    if store is None or plain_indices(writer.block, store.indices) is None:
        return False
    analyzer = analyzer_for(sizes_of(ref))
    made, taken = domains(writer.block), domains(ref.block)
    for var, axis in axes.items():
        index = store.indices[axis]
        there = made[index] if isinstance(index, Var) else Range(index, imm(1, index.dtype))
        own = taken[var]
        begin, end = to_int(own.min, there.min.dtype), to_int(_end(own), there.min.dtype)
        if not analyzer.can_prove(And(GE(begin, there.min), GE(_end(there), end))):
            return False
    return True


def _end(r: Range) -> PrimExpr:
    assert r.extent is not None
    return add(r.min, to_int(r.extent, r.min.dtype))


def _carries(around: Ref, buffer: Buffer, outer: dict[Var, Range]) -> str:
    """Say why an element may be written in more than one iteration of a loop."""
    nest = nest_of(around.loop)
    own = tuple(a for a in nest.accesses if a.is_write and a.buffer is buffer)
    return explain_dependence(around.loop, outer, nest._replace(accesses=own))


def plain_indices_of(ref: Ref, load: BufferLoad) -> dict[Var, int] | None:
    """Say which axis of an operand each iterator is the index of; None if there is none."""
    axes: dict[Var, int] = {}
    own = {it.var for it in ref.block.iter_vars if it.iter_type is IterVarType.DATA_PAR}
    for axis, index in enumerate(load.indices):
        if isinstance(index, Var) and index in own and index not in axes:
            axes[index] = axis
        elif isinstance(index, Var) or any(isinstance(n, Var) for n in pre_order(index)):
            return None
    return axes or None


@primitive
def reverse_compute_at(
    context: Context,
    block: Sblock,
    loop: Loop,
    preserve_unit_loops: bool = False,
    index: Int = -1,
) -> None:
    """Move a block into a loop of its producer; each iteration consumes what it produces.

    for i in range(8): B[i] = A[i] + 1
    for i in range(8): C[i] = B[i] * 2
    -->                                        # at loop i of B
    for i in range(8):
        B[i] = A[i] + 1
        C[i] = B[i] * 2

    ``index`` is the position in the loop's body: -1 is the last legal one, -2 the first.

    Errors: SCH0003, SCH0004, SCH0006 where its operand is not done in an iteration or is used in
    between, SCH0007 for a block that reduces.
    """
    if why := cannot_reverse_compute_at(block, loop):
        refuse(why)
    made = _find_produced_operand(block, loop)
    assert not isinstance(made, Refusal)
    load = next(
        n for n in pre_order(block.block) if isinstance(n, BufferLoad) and n.buffer is made.buffer
    )
    axes = plain_indices_of(block, load)
    assert axes is not None
    inside = nest_of(loop.loop.body)
    wrote = [a for a in inside.accesses if a.is_write and a.buffer is made.buffer]
    boxes = _boxes(wrote, inside.loops, loop)
    nest, _ = _nest_over(
        block, {var: boxes[axis] for var, axis in axes.items()}, loop, preserve_unit_loops
    )
    parts = parts_of(loop)
    last_made = max(
        number
        for number, (_, part) in enumerate(parts)
        if any(a.is_write and a.buffer is made.buffer for a in part.accesses)
    )
    at = _place_among(block, index, last_made + 1, len(parts))
    _commit(block, loop, nest, at)
