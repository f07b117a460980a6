"""Random sequences of schedule primitives, driven by a seed, and their invariants.

A move calls one primitive with arguments that need not make sense. It succeeds, or is refused with
a ``ScheduleError`` and changes nothing. At the end the program is well-formed and has the same
results, interpreted and compiled, and its trace, applied to the original program, does the same
again.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fuzz.choices import Choices, SeedChoices
from fuzz.schedule.meaning import same_meaning
from fuzz.schedule.programs import Program, program_of
from loomir.arith.iterators.index_map import IndexMap
from loomir.ir.equality import structural_equal
from loomir.ir.visit import pre_order
from loomir.schedule import BlockRV, LoopRV, Schedule, TensorIntrin, Trace
from loomir.script import from_source
from loomir.support.diagnostics import ScheduleError
from loomir.tir.expr import Ramp
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import For, ForKind

__all__ = ["MOVES", "VERSION", "Sequence", "Turn", "check", "sequence_of_seed", "turn_of"]

VERSION = 12
"""Changes where a seed gives another sequence."""

PAIR: Final = (
    """from loomir.script import tir as T
@T.prim_func
def desc(A: T.Buffer((2,), "DTYPE"), B: T.Buffer((2,), "DTYPE")):
    for i in range(2):
        with T.sblock("pair"):
            v = T.axis.spatial(2, i)
            B[v] = A[v] + T.cast(1, "DTYPE")
""",
    """from loomir.script import tir as T
@T.prim_func
def impl(A: T.Buffer((2,), "DTYPE"), B: T.Buffer((2,), "DTYPE")):
    B[T.ramp(0, 1, 2)] = A[T.ramp(0, 1, 2)] + T.broadcast(T.cast(1, "DTYPE"), 2)
""",
)
"""What an intrinsic of the moves does, and how."""

EARLY: Final = ("pad_einsum", "fuse_reduction_epilogue", "decompose_padding", "tensorize")
"""Moves that are drawn first more often."""

HARD_MOVES: Final = 0.8
"""How often a move is one that its program is hard for."""

Move = Callable[[Choices, Schedule], object]


@dataclass
class Sequence:
    """A program, what was done to it, and what went wrong."""

    program: Program
    sch: Schedule
    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    wrong: str = ""


# -- what moves take -----------------------------------------------------------------------------
def blocks(sch: Schedule) -> list[BlockRV]:
    """List the blocks of the function, but for its root."""
    root = sch.get_sblock("root") if _has_root(sch) else None
    if root is None:
        return []
    found: list[BlockRV] = []
    todo = [root]
    while todo:
        inner = sch.get_child_blocks(todo.pop())
        found += inner
        todo += inner
    return found


def _has_root(sch: Schedule) -> bool:
    name = sch.func_working_on
    function = None if name is None else sch.state.function(name)
    return function is not None and function.root.block.name_hint == "root"


def a_block(c: Choices, sch: Schedule) -> BlockRV:
    """Draw a block."""
    return c.pick(blocks(sch))


def a_loop(c: Choices, sch: Schedule) -> LoopRV:
    """Draw a loop around some block; refused where the block has none."""
    loops = sch.get_loops(a_block(c, sch))
    return c.pick(loops) if loops else sch.add_unit_loop(a_block(c, sch))


def a_place(c: Choices, sch: Schedule) -> BlockRV | LoopRV:
    """Draw a block or loop."""
    return a_block(c, sch) if c.chance(0.5) else a_loop(c, sch)


def some_loops(c: Choices, sch: Schedule) -> list[LoopRV]:
    """Draw loops around one block, mostly neighbours."""
    loops = sch.get_loops(a_block(c, sch)) or [a_loop(c, sch)]
    first = c.integer(0, len(loops) - 1)
    return loops[first : first + c.integer(2, 3)]


def factors(c: Choices) -> list[int | None]:
    """Draw factors, one of which may be left out."""
    made: list[int | None] = [c.pick([2, 3, 4, 1, 5, 8]) for _ in range(c.integer(1, 3))]
    if c.chance(0.85):
        made[c.integer(0, len(made) - 1)] = None
    return made


# -- moves ---------------------------------------------------------------------------------------
def _split(c: Choices, sch: Schedule) -> None:
    loop = a_loop(c, sch)
    if c.chance(0.2):
        sch.split(loop, sch.sample_perfect_tile(loop, 2))
    else:
        sch.split(loop, factors(c), preserve_unit_iters=c.chance(0.7))


def _reorder(c: Choices, sch: Schedule) -> None:
    loops = sch.get_loops(a_block(c, sch))
    if len(loops) > 1:
        chosen = [loop for loop in loops if c.chance(0.8)] or loops
        for place in range(len(chosen) - 1, 0, -1):
            other = c.integer(0, place)
            chosen[place], chosen[other] = chosen[other], chosen[place]
        sch.reorder(*chosen)


def _merge(c: Choices, sch: Schedule) -> None:
    tops = [loops[0] for b in blocks(sch) if (loops := sch.get_loops(b))]
    if tops:
        first = c.integer(0, len(tops) - 1)
        sch.merge(*tops[first : first + 2])


def _reorder_iters(c: Choices, sch: Schedule) -> None:
    block = a_block(c, sch)
    count = len(sch.get(block).iter_vars)
    order = list(range(count))
    if count > 1:
        order = order[1:] + order[:1]
    sch.reorder_block_iter_var(block, order)


def _annotate(c: Choices, sch: Schedule) -> None:
    place = a_place(c, sch)
    sch.annotate(place, "note", c.integer(0, 9))
    if c.chance(0.7):
        sch.unannotate(place, "note")


def _near(c: Choices, sch: Schedule, *, above: bool) -> tuple[BlockRV, LoopRV]:
    """Draw a block and a loop of one that takes or makes something of it."""
    block = a_block(c, sch)
    near = sch.get_consumers(block) if above else sch.get_producers(block)
    loops = sch.get_loops(c.pick(near)) if near else []
    return block, c.pick(loops) if loops and c.chance(0.9) else a_loop(c, sch)


def _compute_at(c: Choices, sch: Schedule) -> None:
    block, loop = _near(c, sch, above=True)
    if c.chance(0.4):
        loop = sch.sample_compute_location(block)
    sch.compute_at(block, loop, c.chance(0.3), c.pick([-1, -1, -2, 0]))


def _reverse_compute_at(c: Choices, sch: Schedule) -> None:
    block, loop = _near(c, sch, above=False)
    sch.reverse_compute_at(block, loop, c.chance(0.3), c.pick([-1, -1, -2, 1]))


def _decompose(c: Choices, sch: Schedule) -> None:
    block = a_block(c, sch)
    loops = sch.get_loops(block)
    sch.decompose_reduction(block, c.pick(loops) if loops else a_loop(c, sch))


def _consumers(c: Choices, sch: Schedule, block: BlockRV) -> list[BlockRV] | None:
    """Draw some of the blocks that take a result, or leave it open."""
    near = sch.get_consumers(block)
    return [b for b in near if c.chance(0.6)] if near and c.chance(0.3) else None


def _cache_read(c: Choices, sch: Schedule) -> None:
    block, index = a_block(c, sch), c.pick([0, 0, 1])
    found = [b for b in [block, *sch.get_producers(block)] if c.chance(0.5)]
    sch.cache_read(block, index, c.pick(["global", "local"]), found if c.chance(0.2) else None)


def _cache_write(c: Choices, sch: Schedule) -> None:
    block = a_block(c, sch)
    sch.cache_write(block, c.pick([0, 0, 0, 1]), "global", _consumers(c, sch, block))


def _blockize(c: Choices, sch: Schedule) -> None:
    sch.blockize(a_place(c, sch), preserve_unit_iters=c.chance(0.7))


def _tensorize(c: Choices, sch: Schedule) -> None:
    """Put a copy of two elements somewhere, which only fits what copies two; or try to."""
    if TensorIntrin.get("fuzz.pair", allow_missing=True) is None:
        for name, dtype in (("fuzz.pair", "float32"), ("fuzz.pair.int", "int32")):
            desc, impl = (from_source(text.replace("DTYPE", dtype)) for text in PAIR)
            assert isinstance(desc, PrimFunc)
            assert isinstance(impl, PrimFunc)
            TensorIntrin.register(name, desc, impl)
    block = a_block(c, sch)
    loops = sch.get_loops(block)
    written = [r.buffer.dtype for r in sch.get(block).writes]
    floats = not written or written[0].is_float if c.chance(0.9) else c.chance(0.5)
    name = "fuzz.pair" if floats else "fuzz.pair.int"
    if loops and c.chance(0.7):
        loop = sch.split(loops[-1], [None, 2])[1]
        sch.decompose_reduction(block, loop) if c.chance(0.5) else None
        sch.tensorize(loop, name)
    else:
        sch.tensorize(a_place(c, sch), name)


def _transform_block(c: Choices, sch: Schedule) -> None:
    block = a_block(c, sch)
    doms = [it.dom for it in sch.get(block).iter_vars]
    extents = [getattr(getattr(d, "extent", None), "value", 1) for d in doms]
    kind = c.integer(0, 3)

    def mapped(*indices: Any) -> Any:
        if kind == 0 or not indices:
            return indices[::-1]
        if kind == 1:
            return (*indices[:-1], indices[-1] // 2, indices[-1] % 2)
        if kind == 2 and len(indices) > 1:
            return (indices[0] * extents[1] + indices[1], *indices[2:])
        return indices[1:] + indices[:1]

    sch.transform_block_layout(block, IndexMap.from_func(mapped, ndim=len(doms)))


def _at_loop(c: Choices, sch: Schedule, *, reads: bool) -> None:
    block = a_block(c, sch)
    loops = sch.get_loops(block)
    loop = c.pick(loops) if loops and c.chance(0.9) else a_loop(c, sch)
    (sch.read_at if reads else sch.write_at)(loop, block, c.pick([0, 0, 1]), "local")


def _reindex_cache(c: Choices, sch: Schedule, *, reads: bool) -> None:
    by, turn = c.pick([1, 2, 3]), c.chance(0.5)

    def mapped(*at: Any) -> Any:
        parts = [part for i in at for part in ((i // by, i % by) if by > 1 else (i,))]
        return parts[::-1] if turn else parts

    do = sch.reindex_cache_read if reads else sch.reindex_cache_write
    do(a_block(c, sch), 0, "global", mapped)


def _a_map(c: Choices, sch: Schedule, block: BlockRV) -> tuple[tuple[str, int], Callable[..., Any]]:
    """Draw a buffer that a block writes, and another layout of it."""
    writes = sch.get(block).writes
    shape = list(writes[0].buffer.shape if writes else ())
    how, by = c.integer(0, 4), c.pick([2, 3, 4])
    depth = len(shape)

    def reversed_axes(*at: Any) -> object:
        return at[::-1]

    def split(*at: Any) -> object:
        return (*at[:-1], at[-1] // by, at[-1] % by) if depth else (0,)

    def tiled(*at: Any) -> object:
        return (*(i // by for i in at), *(i % by for i in at)) if depth else (0,)

    def fused(*at: Any) -> object:
        return (at[0] * shape[1] + at[1], *at[2:]) if depth > 1 else at

    def lossy(*at: Any) -> object:
        return (sum(at, 0),)

    return ("write", 0), [reversed_axes, split, tiled, fused, lossy][how]


def _transform(c: Choices, sch: Schedule) -> None:
    block = a_block(c, sch)
    buffer, made = _a_map(c, sch, block)
    sch.transform_layout(block, buffer, made, c.pick([None, 0, 7]))


def _wider(c: Choices, sch: Schedule) -> None:
    """Draw a dtype that holds all that the old one holds."""
    block = a_block(c, sch)
    now = next((str(r.buffer.dtype) for r in sch.get(block).writes), "int32")
    sch.unsafe_set_dtype(block, 0, {"int32": "int64", "float32": "float64"}.get(now, now))


def _align(c: Choices, sch: Schedule) -> None:
    axis, factor = c.integer(-2, 1), c.pick([1, 4, 16, 3])
    sch.storage_align(a_block(c, sch), 0, axis, factor, c.pick([0, 1, 2]))


def _a_block_where(c: Choices, sch: Schedule, holds: Callable[[Any], bool]) -> BlockRV:
    """Draw one of the blocks for which something holds, or any block where it does for none."""
    found = [block for block in blocks(sch) if holds(sch.get(block))]
    return c.pick(found) if found else a_block(c, sch)


def _decompose_padding(c: Choices, sch: Schedule) -> None:
    block = _a_block_where(c, sch, lambda b: "if_then_else" in str(getattr(b.body, "value", "")))
    loops = sch.get_loops(block)
    sch.decompose_padding(block, c.pick(loops) if loops else a_loop(c, sch))


def _pad_einsum(c: Choices, sch: Schedule) -> None:
    block = _a_block_where(c, sch, lambda b: b.init is not None)
    sch.pad_einsum(block, [c.pick([1, 4, 3]) for _ in sch.get(block).iter_vars])


def _fuse_epilogue(c: Choices, sch: Schedule) -> None:
    block = _a_block_where(c, sch, lambda b: b.init is not None)
    near = sch.get_consumers(block)
    sch.fuse_reduction_epilogue(block, c.pick(near) if near else a_block(c, sch))


MOVES: Final[tuple[tuple[float, str, Move], ...]] = (
    (5.0, "split", _split),
    (4.0, "reorder", _reorder),
    (3.0, "fuse", lambda c, sch: sch.fuse(*some_loops(c, sch))),
    (1.5, "parallel", lambda c, sch: sch.parallel(a_loop(c, sch))),
    (1.5, "vectorize", lambda c, sch: sch.vectorize(a_loop(c, sch))),
    (1.0, "unroll", lambda c, sch: sch.unroll(a_loop(c, sch))),
    (2.0, "merge", _merge),
    (1.0, "loop_partition", lambda c, sch: sch.loop_partition(a_loop(c, sch), factors(c))),
    (0.5, "add_unit_loop", lambda c, sch: sch.add_unit_loop(a_place(c, sch))),
    (0.5, "reorder_block_iter_var", _reorder_iters),
    (0.3, "annotate", _annotate),
    (3.0, "compute_at", _compute_at),
    (3.0, "reverse_compute_at", _reverse_compute_at),
    (1.0, "compute_inline", lambda c, sch: sch.compute_inline(a_block(c, sch))),
    (1.0, "reverse_compute_inline", lambda c, sch: sch.reverse_compute_inline(a_block(c, sch))),
    (1.5, "decompose_reduction", _decompose),
    (2.0, "cache_read", _cache_read),
    (2.0, "cache_write", _cache_write),
    (0.7, "decompose_padding", _decompose_padding),
    (0.7, "pad_einsum", _pad_einsum),
    (0.7, "fuse_reduction_epilogue", _fuse_epilogue),
    (1.0, "blockize", _blockize),
    (0.4, "tensorize", _tensorize),
    (1.0, "transform_block_layout", _transform_block),
    (1.0, "read_at", lambda c, sch: _at_loop(c, sch, reads=True)),
    (1.0, "write_at", lambda c, sch: _at_loop(c, sch, reads=False)),
    (0.7, "cache_inplace", lambda c, sch: sch.cache_inplace(a_block(c, sch), 0, "global")),
    (1.0, "reindex", lambda c, sch: sch.reindex(a_block(c, sch), (c.pick(["read", "write"]), 0))),
    (0.7, "reindex_cache_read", lambda c, sch: _reindex_cache(c, sch, reads=True)),
    (0.7, "reindex_cache_write", lambda c, sch: _reindex_cache(c, sch, reads=False)),
    (0.5, "set_scope", lambda c, sch: sch.set_scope(a_block(c, sch), 0, "local")),
    (0.7, "storage_align", _align),
    (0.5, "unsafe_set_dtype", _wider),
    (1.5, "transform_layout", _transform),
    (1.5, "rfactor", lambda c, sch: sch.rfactor(a_loop(c, sch), c.integer(-1, 1))),
)
"""What can be done, and how often: a row for each primitive that edits."""


class Turn(NamedTuple):
    """How a sequence is looked at: what finds most is done for all, what is dear for some."""

    close: bool
    """Whether each edit is verified, each refusal written out, and the trace done once more."""
    compiled: bool
    """Whether it is compiled even where no loop of it is for threads or lanes."""
    checked: bool
    """Whether compiled code looks for mistakes too, as the interpreter always does."""
    level: int | None
    """How much LLVM optimises; None for its simplest selection of instructions."""


def turn_of(seed: int) -> Turn:
    """Say how the sequence of a seed is looked at."""
    c = SeedChoices(f"turn {seed}")
    level = c.pick([0, 1, 2, 3]) if c.chance(0.04) else None
    checked = c.chance(0.05)
    return Turn(c.chance(0.15), c.chance(0.15) or checked or level is not None, checked, level)


def sequence_of_seed(seed: int, limit: int = 8, *, close: bool = True) -> Sequence:
    """Make the program of a seed, and do its moves.

    Unless they are looked at closely, edits are not verified and refusals not written out.
    """
    c = SeedChoices(f"schedule {VERSION} {seed}")
    program = program_of(c)
    sch = Schedule(program.func, seed=seed, debug_mask="all" if close else "none")
    made = Sequence(program, sch)
    named = {name: move for _, name, move in MOVES}
    for number in range(c.integer(1, limit)):
        name, move = c.weighted([(share, (name, move)) for share, name, move in MOVES])
        if number == 0 and c.chance(0.2):  # most of these need nests as they were written
            name = c.pick(EARLY)
            move = named[name]
        elif program.moves and c.chance(HARD_MOVES):
            name = program.moves[number % len(program.moves)]
            move = named[name]
        steps = len(sch.trace.insts)
        before = sch.mod
        try:
            move(c, sch)
        except ScheduleError as error:
            made.refused.append(name)
            edits = [i for i in sch.trace.insts[steps:] if not i.primitive.is_query]
            if sch.mod is not before and not edits:
                made.wrong = f"{name} was refused and changed the program"
            if close and not str(error):
                made.wrong = f"{name} was refused without a reason"
        except Exception as error:  # noqa: BLE001 - a bug of ours, whatever it is
            made.wrong = f"{name}: {''.join(traceback.format_exception(error))}"
        else:
            made.done.append(name)
        if made.wrong:
            break
    return made


def check(seed: int, *, native: bool = True) -> dict[str, Any]:
    """Say what is wrong with the sequence of a seed: nothing, if ``found`` is empty."""
    turn = turn_of(seed)
    made = sequence_of_seed(seed, close=turn.close)
    kinds = {made.program.name, *made.done, *(f"refused {name}" for name in made.refused)}
    found: dict[str, str] = {}
    after = made.sch.mod[made.program.func.name]
    assert isinstance(after, PrimFunc)
    if made.wrong:
        found["primitive"] = made.wrong
    elif after is made.program.func or after.body is made.program.func.body:
        kinds.add("left as it was")
    else:
        compiled = native and (turn.compiled or _has_marks(after))
        kinds |= _kinds_of(turn, compiled)
        try:
            same_meaning(
                made.program.func,
                made.sch,
                tolerance=made.program.tolerance,
                native=compiled,
                checked=turn.checked,
                tracked=True,
                level=turn.level or 0,
                quick=turn.level is None,
                seed=seed,
                extent=1 + seed % 9,
            )
            if turn.close:
                _same_by_trace(made)
        except Exception as error:  # noqa: BLE001 - a bug of ours, whatever it is
            found["meaning"] = "".join(traceback.format_exception(error))
    return {"seed": seed, "found": found, "kinds": sorted(kinds)}


def _has_marks(func: PrimFunc) -> bool:
    """Whether a loop is for threads or lanes, or an intrinsic was put in the place of loops."""
    return any(
        (isinstance(node, For) and node.kind is not ForKind.SERIAL) or isinstance(node, Ramp)
        for node in pre_order(func.body)
    )


def _kinds_of(turn: Turn, compiled: bool) -> set[str]:
    kinds = {"looked at closely"} if turn.close else set[str]()
    if compiled:
        kinds.add("compiled" if turn.level is None else f"compiled at level {turn.level}")
        if turn.checked:
            kinds.add("compiled with checks")
    return kinds


def _same_by_trace(made: Sequence) -> None:
    again = Schedule(made.program.func)
    rows = json.loads(json.dumps(made.sch.trace.simplified().as_json()))
    Trace.from_json(rows).apply_to_schedule(again)
    if not structural_equal(again.mod, made.sch.mod):
        raise AssertionError("the trace gives another program")
