"""Lift a function to stages: read its parts one by one, and merge each fill with its reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.ir.stage import Combine, LiftedFunction, Stage
from loomir.autoschedule.lift.hoist_bounds_checks import hoist_checks
from loomir.autoschedule.lift.lift_loops import Reader, is_number
from loomir.autoschedule.lift.loop_distribution import distribute, strip_allocations
from loomir.autoschedule.lift.loop_kinds import as_serial
from loomir.autoschedule.lift.rename_updates import rename_updates, writes_same_elements
from loomir.autoschedule.lift.resolve_names import (
    ResolvedStatement,
    resolve_names,
    resolve_outer_names,
)
from loomir.autoschedule.lift.searches import split_searches
from loomir.autoschedule.lift.spatial_blocks import unwrap_spatial_block
from loomir.autoschedule.lift.zero_trip_init import merge_zero_trip_fill
from loomir.autoschedule.rewrite.def_use import reads_of, writes_of
from loomir.ir.substitution import substitute
from loomir.loops.nests import split_nest
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BlockRealize, BufferStore, Evaluate, IfThenElse, SeqStmt, Stmt

__all__ = ["lift_function"]


def lift_function(func: PrimFunc) -> LiftedFunction:
    """Return the parts of a function, in order."""
    between: tuple[Buffer, ...] = ()
    body = func.body
    if isinstance(body, BlockRealize) and _is_only_allocation(body):
        between, body = body.block.alloc_buffers, body.block.body
    body = _unwrap_single_iteration(body)
    named = resolve_outer_names(body)
    if named is not None:
        between, body = (*between, *named.buffers), named.stmt
    parts = body.seq if isinstance(body, SeqStmt) else (body,)
    reader = Reader(func)
    private = _private_to(parts, between)
    read: list[Stage | Stmt] = []
    for place, part in enumerate(parts):
        plain = as_serial(part)
        found, new = _read(reader, plain, private.get(place, {}))
        if len(found) == 1 and found[0] is plain:
            found = (part,)  # with the loop kinds that it asks for
        if len(found) == 1:
            found = (_merge_fill(reader, read, found[0]),)
        read += found
        between += new
    stages, new = rename_updates(_merge_initialization(read))
    return LiftedFunction(func, stages, (*between, *new))


def _unwrap_single_iteration(body: Stmt) -> Stmt:
    """Take away loops that run once around several statements; what is read of those is the same.

    Then memory that the iteration allocates need not be expanded.
    """
    loops, inner = split_nest(body)
    if isinstance(inner, (BufferStore, BlockRealize)) or any(number(s.extent) != 1 for s in loops):
        return body
    return substitute(inner, {loop.loop_var: loop.min for loop in reversed(loops)})


def _merge_fill(reader: Reader, before: list[Stage | Stmt], part: Stage | Stmt) -> Stage | Stmt:
    """Merge the fill of a buffer for an empty reduction axis into the reduction."""
    last = before[-1] if before else None
    if not isinstance(part, Stage) or not isinstance(last, IfThenElse):
        return part
    fill = reader.read(last.then_case)
    made = None if fill is None else merge_zero_trip_fill(last, fill, part)
    if made is None:
        return part
    before.pop()
    return made


def _private_to(parts: Sequence[Stmt], between: Sequence[Buffer]) -> dict[int, dict[int, Buffer]]:
    """Return the buffers that only one part uses, by its place and their pointers' identity."""
    inner = {id(b.data): b for b in between}
    users: dict[int, set[int]] = {}
    for place, part in enumerate(parts):
        for data in reads_of(part):
            users.setdefault(data, set()).add(place)
    found: dict[int, dict[int, Buffer]] = {}
    for data, buffer in inner.items():
        places = users.get(data, set())
        if len(places) == 1:
            found.setdefault(places.pop(), {})[data] = buffer
    return found


_Parts = tuple[tuple["Stage | Stmt", ...], tuple[Buffer, ...]]


def _read(reader: Reader, part: Stmt, private: Mapping[int, Buffer]) -> _Parts:
    """Lift a part, and return the buffers that live between its stages.

    Names of values and blocks around several statements are taken away first, where that helps.
    """
    resolved = resolve_names(part)
    if resolved is not None:
        found = _read_as_stages(reader, resolved, private)
        if found is not None:
            return found
    found = _read_as_stages(reader, ResolvedStatement(part, ()), private)
    if found is not None:
        return found
    named = resolved or ResolvedStatement(part, ())
    split = split_searches(named.stmt, named.buffers)
    if split is not None:
        whole = ResolvedStatement(split.stmt, (*named.buffers, *split.buffers))
        found = _read_as_stages(reader, whole, private) or _read_sequence(reader, whole)
        if found is not None:
            return found
    open_loops = unwrap_spatial_block(reader, part)
    if open_loops is not None:
        resolved = resolve_names(open_loops) or ResolvedStatement(open_loops, ())
        found = _read_as_stages(reader, resolved, private)
        if found is not None:
            return found
    return _read_behind_checks(reader, part), ()


def _read_as_stages(
    reader: Reader, part: ResolvedStatement, private: Mapping[int, Buffer]
) -> _Parts | None:
    """Lift a part to one or several stages; None if a statement in it cannot be lifted."""
    stage = None if part.buffers else reader.read(part.stmt)
    if stage is not None:
        return (stage,), ()
    bare, local = strip_allocations(part.stmt)
    local += part.buffers
    split = distribute(bare, {**private, **{id(b.data): b for b in local}}, reader.trip_count)
    if split is None:
        return None
    stages = [reader.read(one) for one in split.parts]
    known = [stage for stage in stages if stage is not None]
    used = frozenset[int]().union(*(s.reads() | writes_of(s) for s in known))
    if len(known) == len(stages) and _interleaves(known):
        return None
    if len(known) == len(stages) and not any(id(b.data) in used for b in local):
        return tuple(known), split.buffers
    return None


def _read_sequence(reader: Reader, part: ResolvedStatement) -> _Parts | None:
    """Lift statements that are in no loop, each to a stage; None if one cannot be lifted."""
    if not isinstance(part.stmt, SeqStmt):
        return None
    stages = [stage for one in part.stmt.seq if (stage := reader.read(one)) is not None]
    return (tuple(stages), part.buffers) if len(stages) == len(part.stmt.seq) else None


def _interleaves(stages: Sequence[Stage]) -> bool:
    """Whether a nest stores the elements of short rows one by one, as of complex numbers.

    LLVM stores whole rows of such a nest as vectors. After distribution, each nest would store one
    element of every row: products of complex numbers took 4 times as long (CPU not recorded).
    """
    if len(stages) < 2 or any(stage.combine is not Combine.NONE for stage in stages):
        return False
    buffer = stages[0].buffer
    return all(
        stage.buffer is buffer and bool(stage.axes) and isinstance(stage.indices[-1], IntImm)
        for stage in stages
        if stage.indices
    ) and bool(stages[0].indices)


def _read_behind_checks(reader: Reader, part: Stmt) -> tuple[Stage | Stmt, ...]:
    hoisted = hoist_checks(part)
    stage = None if hoisted is None else reader.read(hoisted.nest)
    return (part,) if hoisted is None or stage is None else (hoisted.checks, stage)


def _is_only_allocation(realize: BlockRealize) -> bool:
    block = realize.block
    plain = not block.iter_vars and not block.match_buffers and block.init is None
    return plain and not block.annotations and is_number(realize.predicate, 1)


def _merge_initialization(parts: list[Stage | Stmt]) -> tuple[Stage | Stmt, ...]:
    """Merge a nest that fills a buffer with the next nest that uses it, if that combines terms."""
    made: list[Stage | Stmt | None] = []
    used: dict[int, int] = {}  # the last part that uses some memory
    written: dict[int, int] = {}  # the last one that writes it
    for part in parts:
        if isinstance(part, Evaluate) and isinstance(part.value, IntImm):
            continue
        place = used.get(id(part.buffer.data)) if isinstance(part, Stage) else None
        last = None if place is None else made[place]
        merged = part
        if isinstance(part, Stage) and isinstance(last, Stage) and _initializes(last, part):
            assert place is not None
            if all(written.get(data, -1) <= place for data in last.reads()):
                table = {a.var: b.var for a, b in zip(last.axes, part.axes)}
                merged = _with_init(part, substitute(last.value, table))
                made[place] = None
        writes = writes_of(merged)
        used.update(dict.fromkeys(reads_of(merged) | writes, len(made)))
        written.update(dict.fromkeys(writes, len(made)))
        made.append(merged)
    return tuple([part for part in made if part is not None])


def _initializes(fill: Stage, part: Stage) -> bool:
    """Whether a stage fills exactly the elements into which another one combines terms."""
    return (
        part.buffer is fill.buffer
        and part.combine is not Combine.NONE
        and part.init is None
        and fill.combine is Combine.NONE
        and not fill.in_place
        and writes_same_elements(fill, part)
    )


def _with_init(stage: Stage, init: PrimExpr) -> Stage:
    return Stage(
        stage.name,
        stage.axes,
        stage.reduced,
        stage.buffer,
        stage.indices,
        stage.value,
        stage.combine,
        init,
        stage.free_order,
        stage.in_place,
        stage.block,
    )
